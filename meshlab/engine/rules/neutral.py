"""Neutral elements: what changes nothing when it is joined with anything.

    a running sum from behind, of 10 elements in parts of 3: [1 1 1 | 1 1 1 | 1 1 1 | 1 ? ?]      ? must count as 0

Where an axis is padded, the last parts hold elements that are none. A local form that joins all that it has first makes
those neutral.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from .local import Device, Local
from .traits import TRAITS


def neutral(name: str, dtype: Any) -> Any:
    """The element that is neutral for a primitive: zero for a sum, one for a product, the least for a maximum.

    Zero for what joins nothing.
    """
    traits = TRAITS.get(name)
    joins = traits.joins if traits is not None else None
    if joins == "product":
        return jnp.ones((), dtype)
    if joins == "and":
        return ~jnp.zeros((), dtype)
    if joins not in ("max", "min"):
        return jnp.zeros((), dtype)
    if dtype == jnp.bool_:
        return jnp.asarray(joins == "min")
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.asarray(math.inf if joins == "min" else -math.inf, dtype)
    limits = jnp.iinfo(dtype)
    return jnp.asarray(limits.max if joins == "min" else limits.min, dtype)


def without_padding(device: Device, local: Local, block: Any, axis: int) -> Any:
    """Returns a block of the first operand, what is padded on an axis made neutral; the block itself if nothing is."""
    split, size = local.split(axis), local.operand_shapes[0][axis]
    count = block.shape[axis]
    if not split or count * math.prod(device.sizes[a] for a in split) == size:
        return block
    places = device.index(split) * count + lax.broadcasted_iota(jnp.int32, block.shape, axis)
    return jnp.where(places < size, block, neutral(local.operation.name, block.dtype))
