"""What a mesh axis in time (`axes/`) is in a spec: its parts meet on one device, one after the other."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp

from .spec import Axes, Spec


def without(spec: Spec, axis: str) -> Spec:
    """Returns a spec without a mesh axis: as a value is once the loop over that axis is over."""
    if axis not in spec.partial and axis not in spec.axes:
        return spec
    return Spec(tuple(minus(split, (axis,)) for split in spec.splits), minus(spec.partial, (axis,)))


def without_all(spec: Spec, axes: Iterable[str]) -> Spec:
    return functools.reduce(without, axes, spec)


def minus(axes: Axes, others: Axes | frozenset[str]) -> Axes:
    return tuple(axis for axis in axes if axis not in others)


def part_in_time(spec: Spec, axis: str) -> tuple[int | None, bool]:
    """Returns which axis of a value a mesh axis splits (None for none), and whether the value is partial over it."""
    return next((i for i, split in enumerate(spec.splits) if axis in split), None), axis in spec.partial


def accumulator_dtype(dtype: Any) -> Any:
    """Returns the dtype in which iterations are added up: the addends', or float32 for narrower floats."""
    narrow = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < jnp.finfo(jnp.float32).bits
    return jnp.dtype(jnp.float32) if narrow else dtype
