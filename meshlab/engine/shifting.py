"""Shifts: elements move along an axis, and over the edge into the neighbouring shard.

    shift([0 1 2 3 4 5 6 7], 3), in blocks of 2 on 4 devices: device 2 holds [1 2], of which 1 comes from the device
    two before it and 2 from the one before

`shift_p` is an operation of its own, since a jaxpr has no other word for it than slices and a concatenation. Where its
axis is split into blocks of b, an offset k = q·b + r sends the first b - r elements of each block q devices on, and the
last r elements q + 1 devices on: two collective-permutes at most, whatever the offset.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .spec import Axes


def shifted(array: Any, *, axis: int, offset: int, wrap: bool) -> Any:
    """Returns the array moved by `offset` along an axis; what leaves at one end comes in at the other, or zeros do."""
    size = array.shape[axis]
    if wrap:
        return jnp.roll(array, offset, axis)
    kept = max(0, size - abs(offset))
    part = (
        lax.slice_in_dim(array, 0, kept, axis=axis)
        if offset > 0
        else lax.slice_in_dim(array, size - kept, size, axis=axis)
    )
    zeros = jnp.zeros((*array.shape[:axis], size - kept, *array.shape[axis + 1 :]), array.dtype)
    return lax.concatenate((zeros, part) if offset > 0 else (part, zeros), axis)


shift_p = Primitive("shift")
shift_p.def_impl(shifted)
shift_p.def_abstract_eval(lambda operand, **params: operand)
mlir.register_lowering(shift_p, mlir.lower_fun(shifted, multiple_results=False))


def _transpose(cotangent: Any, _: Any, *, axis: int, offset: int, wrap: bool) -> list[Any]:
    return [shift_p.bind(cotangent, axis=axis, offset=-offset, wrap=wrap)]


def _batch(operands: Any, axes: Any, *, axis: int, offset: int, wrap: bool) -> tuple[Any, int]:
    return shift_p.bind(operands[0], axis=axis + (axes[0] <= axis), offset=offset, wrap=wrap), axes[0]


ad.deflinear2(shift_p, _transpose)
batching.primitive_batchers[shift_p] = _batch


class Piece(NamedTuple):
    """A part of each block that goes to the same number of devices on.

    Attributes:
        start: its first element in the block.
        stop: the one after its last.
        distance: how many devices on it goes.
        axes: the mesh axes that it crosses; none where it stays.
    """

    start: int
    stop: int
    distance: int
    axes: Axes


def pieces(offset: int, wrap: bool, block: int, split: Axes, sizes: Mapping[str, int]) -> tuple[Piece, Piece]:
    """Returns the two pieces of a shift, in the order in which they lie in the result; either may be empty."""
    count = math.prod(sizes[a] for a in split)
    devices, rest = divmod(offset, block)

    def piece(start: int, stop: int, distance: int) -> Piece:
        if wrap:
            distance %= count
        crossed = list(split) if start < stop and distance and abs(distance) < count else []
        left = abs(distance)
        while crossed and left % sizes[crossed[-1]] == 0:
            left //= sizes[crossed.pop()]
        return Piece(start, stop, distance, tuple(crossed))

    return piece(block - rest, block, devices + 1), piece(0, block - rest, devices)


def _mesh_order(split: Axes, sizes: Mapping[str, int]) -> list[int]:
    """For each block in the order of the split, its number in the order of the mesh, in which `ppermute` counts."""
    numbers = np.arange(math.prod(sizes[a] for a in split)).reshape([sizes[a] for a in sizes if a in split])
    inverse = [[a for a in sizes if a in split].index(a) for a in split]
    return numbers.transpose(inverse).ravel().tolist()


def shift_shard(shard: Any, params: Mapping[str, Any], split: Axes, sizes: Mapping[str, int]) -> Any:
    """Shifts along an axis of which this device holds a block: every piece is sent to where it belongs."""
    axis, wrap = params["axis"], params["wrap"]
    count = math.prod(sizes[a] for a in split)
    parts = []
    for piece in pieces(params["offset"], wrap, shard.shape[axis], split, sizes):
        part = lax.slice_in_dim(shard, piece.start, piece.stop, axis=axis)
        if piece.axes:
            pairs = [(i, (i + piece.distance) % count) for i in range(count) if wrap or 0 <= i + piece.distance < count]
            order = _mesh_order(split, sizes)
            part = lax.ppermute(part, tuple(a for a in sizes if a in split), [(order[i], order[j]) for i, j in pairs])
        elif piece.distance:
            part = jnp.zeros_like(part)
        parts.append(part)
    return lax.concatenate(parts, axis)
