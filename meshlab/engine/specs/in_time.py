"""A serial axis is a mesh axis in time: each device runs its blocks one after the other.

    mesh = ml.mesh(data=4, micro=ml.serial(8))       # 4 devices, 8 micro-batches on each
    program.plan(mesh, "batch:data+micro")           # gradient accumulation

A dim on it is split as on any other axis, but its blocks meet on one device: what is partial over the axis is
accumulated from iteration to iteration, what is split over it exists for one iteration. So data parallelism over a
serial axis is gradient accumulation, and nothing else has to know that word.

It comes last in a dim's axes, so that the shard of a device is one contiguous range, of which each iteration takes the
next block: an argument is stored as if the axis were not there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from ..argument_checks import is_whole
from ..errors import MeshError, shown
from .spec import Axes, Spec

ONCE, EACH = "once", "each"


@dataclasses.dataclass(frozen=True)
class Serial:
    """The size of a serial axis, and when devices communicate; made by `ml.serial`.

    Attributes:
        size: the number of iterations.
        reduce: when partial sums are reduced among devices: "once", after the loop, or in "each" iteration; None: once,
            but in each iteration where the sum's target spec is sharded, so that no device holds the whole sum.
        gather: when what all iterations read is gathered: "once", in front of the loop, or in "each" iteration; None:
            as partial sums are reduced.

    Raises:
        MeshError: the size is no positive integer, or an option is none of these.
    """

    size: int
    reduce: str | None = None
    gather: str | None = None

    def __post_init__(self):
        problems = []
        if not is_whole(self.size) or operator.index(self.size) < 1:
            problems.append(f"the size {shown(self.size)}, which must be an integer of at least 1")
        for name in ("reduce", "gather"):
            if getattr(self, name) not in (None, ONCE, EACH):
                problems.append(f'{name}={shown(getattr(self, name))}, which must be "once", "each" or None')
        if problems:
            raise MeshError(f"ml.serial() was given {' and '.join(problems)}. Write ml.serial(8), say.")
        object.__setattr__(self, "size", operator.index(self.size))

    def __str__(self):
        options = [f'{name}="{value}"' for name in ("reduce", "gather") if (value := getattr(self, name))]
        return f"serial({', '.join([str(self.size), *options])})"

    def __format__(self, _how: str):
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON-like data, which `read_serial` reads back."""
        options = {name: getattr(self, name) for name in ("reduce", "gather")}
        return {"serial": self.size} | {name: value for name, value in options.items() if value}


def serial(size: int, reduce: str | None = None, gather: str | None = None) -> Serial:
    """Makes the size of a serial mesh axis, whose blocks run one after the other on each device.

    Args:
        size: the number of iterations: of micro-batches, if the batch is split over it.
        reduce: "once", after the loop: least communication, but each device holds whole gradients; "each", in every
            iteration: gradients are held as they are stored. None: once, but each where the gradient is stored sharded.
        gather: the same for what all iterations read; None: as `reduce`.

    Raises:
        MeshError: the size is no positive integer, or an option is none of these.

    Example:
        >>> str(serial(8)), str(serial(8, reduce="each"))
        ('serial(8)', 'serial(8, reduce="each")')
    """
    return Serial(size, reduce, gather)


def read_serial(given: Any) -> Any:
    """Returns the `Serial` that its JSON-like data are of; whatever else is given, or is invalid, as it is.

    Example:
        >>> str(read_serial({"serial": 8, "reduce": "each"})), read_serial({"size": 8})
        ('serial(8, reduce="each")', {'size': 8})
    """
    if not isinstance(given, Mapping) or not {"serial"} <= given.keys() <= {"serial", "reduce", "gather"}:
        return given
    with contextlib.suppress(MeshError):
        return Serial(given["serial"], given.get("reduce"), given.get("gather"))
    return given


def without(spec: Spec, axis: str) -> Spec:
    """Returns a spec without a mesh axis: as a value is once the loop over that axis is over."""
    if axis not in spec.partial and axis not in spec.axes:
        return spec
    return Spec(tuple(minus(split, (axis,)) for split in spec.splits), minus(spec.partial, (axis,)))


def minus(axes: Axes, others: Axes | frozenset[str]) -> Axes:
    """Returns mesh axes without some others."""
    return tuple(axis for axis in axes if axis not in others)


def serial_part(spec: Spec, axis: str) -> tuple[int | None, bool]:
    """Returns which axis of a value a serial axis splits (None for none), and whether the value is partial over it."""
    return next((i for i, split in enumerate(spec.splits) if axis in split), None), axis in spec.partial


def accumulator_dtype(dtype: Any) -> Any:
    """Returns the dtype in which iterations are added up: the addends', or float32 for narrower floats."""
    narrow = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < jnp.finfo(jnp.float32).bits
    return jnp.dtype(jnp.float32) if narrow else dtype
