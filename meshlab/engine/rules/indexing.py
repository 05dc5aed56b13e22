"""Rules of iota, and of slices and updates at a position that is only known when the program runs.

    dynamic_slice         cache[batch, seq] from (0, t), of [batch, 1]     → [batch, 1]
    dynamic_update_slice  cache[batch, seq] with new[batch, 1] at (0, t)   → [batch, seq]

Axes that are taken in full run through. Where others are sharded, a slice is a partial sum: every device returns the
elements of its own shard, and zero for the rest. (For a slice of more than half its operand is gathered.) An update
needs no communication: every device writes the elements of its own shard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..code.operations import Operation
from ..collectives.device import Device
from .gathering import addable, combined
from .indices import signed
from .per_shard import ShardedOperation, per_shard
from .table import NONE, Factors, Facts, Shape, local_params, rule
from .traits import FIRST, constant, linear_in, moving, updating


@rule("iota", "empty", "empty2", traits=constant())
def _positions(_operation: Operation, facts: Facts) -> Factors:
    return Factors((), (tuple(range(len(facts.results[0]))),))


@local_params("empty")
def _empty_local(params: dict[str, Any], _operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    return params | {"shape": results[0]}


def _cut(array: Shape, part: Shape) -> tuple[tuple[int, ...], frozenset[int], frozenset[int]]:
    """Returns the part's factors, the axes of the array that it is cut from, and the factors that are its own."""
    rank = len(array)
    cut = frozenset(i for i in range(rank) if array[i] != part[i])
    return tuple(i + rank if i in cut else i for i in range(rank)), cut, frozenset(i + rank for i in cut)


@rule("dynamic_slice", traits=moving(linear=FIRST, reads_part=True, keeps=False))
def _dynamic_slice(operation: Operation, facts: Facts) -> Factors:
    array, part = facts.operands[0], facts.results[0]
    axes, cut, own = _cut(array, part)
    masked = addable(operation, cut, 2 * math.prod(part) <= math.prod(array))
    scalars = ((),) * (len(facts.operands) - 1)
    summed = NONE if operation.equation.invars[0].aval.dtype == bool else masked
    unsharded = own | (cut - masked)
    return Factors((tuple(range(len(array))), *scalars), (axes,), summed=summed, per_shard=masked, unsharded=unsharded)


@local_params("dynamic_slice")
def _dynamic_slice_local(params: dict[str, Any], _operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    return params | {"slice_sizes": results[0]}


@rule("dynamic_update_slice", traits=updating(linear=linear_in({0, 1}), updates=1))
def _dynamic_update_slice(_operation: Operation, facts: Facts) -> Factors:
    array, update = facts.operands[:2]
    axes, cut, own = _cut(array, update)
    scalars = ((),) * (len(facts.operands) - 2)
    array_axes = tuple(range(len(array)))
    return Factors((array_axes, axes, *scalars), (array_axes,), per_shard=cut, unsharded=own)


def _starts(
    device: Device, sharded: ShardedOperation, block: Shape, part: Shape, positions: Sequence[Any]
) -> tuple[list[Any], dict[int, tuple[Any, int]]]:
    """Returns where a part of an array begins along each axis, moved inside if it reaches over the edge.

    Returns:
        The starts, and for each axis that is cut and sharded where the part begins, counted from this device's first
        element, and the size of the device's shard.
    """
    starts, own = [], {}
    for axis, (size, cut, position) in enumerate(zip(sharded.operand_shapes[0], part, positions, strict=True)):
        start = jnp.clip(signed(jnp.asarray(position), size), 0, size - cut)
        starts.append(start)
        split = sharded.split(axis)
        if split and size != cut:
            own[axis] = start - (device.index(split) * block[axis]).astype(start.dtype), block[axis]
    return starts, own


@per_shard("dynamic_slice", summary="a slice of {dims} is taken", padded=True)
def _slice_of_blocks(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    block, sizes = operands[0], sharded.result_shapes[0]
    starts, own = _starts(device, sharded, block.shape, sizes, operands[1:])
    shape = [block.shape[i] if sharded.split(i) else size for i, size in enumerate(sizes)]
    part = lax.dynamic_slice(block, [jnp.zeros_like(s) if sharded.split(i) else s for i, s in enumerate(starts)], shape)
    mine = jnp.asarray(True)
    for axis, (start, size) in own.items():
        rows = start + jnp.arange(sizes[axis], dtype=start.dtype)
        part = jnp.take(part, rows, axis, mode="clip")
        mine &= _along(axis, (rows >= 0) & (rows < size), part.ndim)
    split = tuple(a for axis in own for a in sharded.split(axis))
    return [combined(device, part, mine, split)]


@per_shard("dynamic_update_slice", summary="a slice of {dims} is written", padded=True)
def _write_into_blocks(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    block, update = operands[:2]
    first, own = _starts(device, sharded, block.shape, sharded.operand_shapes[1], operands[2:])
    mine = jnp.asarray(True)
    for axis, (start, size) in own.items():
        # The rows of this shard that the update can reach, and the update's row for each.
        count = min(update.shape[axis], size)
        first[axis] = jnp.clip(start, 0, size - count)
        rows = first[axis] + jnp.arange(count, dtype=start.dtype) - start
        mine &= _along(axis, (rows >= 0) & (rows < update.shape[axis]), update.ndim)
        update = jnp.take(update, rows, axis, mode="clip")
    before = lax.dynamic_slice(block, first, update.shape)
    return [lax.dynamic_update_slice(block, jnp.where(mine, update, before), first)]


def _along(axis: int, rows: Any, rank: int) -> Any:
    return rows.reshape([-1 if i == axis else 1 for i in range(rank)])
