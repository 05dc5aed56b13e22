"""`shift_p` moves the elements of an array along an axis.

    shift([0 1 2 3 4 5 6 7], 3) = [0 0 0 0 1 2 3 4], or with wrap [5 6 7 0 1 2 3 4]

`shift_p` is an operation of its own, since a jaxpr has no other word for it than slices and a concatenation. How it
runs where its axis is sharded is its per-shard implementation, in `rules/shift`.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from ..own_primitives import linear_primitive


def shifted(array: Any, *, axis: int, offset: int, wrap: bool) -> Any:
    """Returns the array moved by `offset` along an axis; what leaves at one end comes in at the other, or zeros."""
    size = array.shape[axis]
    if wrap:
        return jnp.roll(array, offset, axis)
    count = max(0, size - abs(offset))
    part = (
        lax.slice_in_dim(array, 0, count, axis=axis)
        if offset > 0
        else lax.slice_in_dim(array, size - count, size, axis=axis)
    )
    zeros = jnp.zeros((*array.shape[:axis], size - count, *array.shape[axis + 1 :]), array.dtype)
    return lax.concatenate((zeros, part) if offset > 0 else (part, zeros), axis)


shift_p = linear_primitive(
    "shift",
    shifted,
    transpose=lambda params: params | {"offset": -params["offset"]},
    batch=lambda params, axis: params | {"axis": params["axis"] + (axis <= params["axis"])},
)
