"""Pads a dim that its mesh axes do not divide, or that they share unevenly.

    batch of 100 over 8 devices: padded to 104, 13 on each; the last device holds 9 that count
    14 layers on stages of 3, 4, 4 and 3: padded to 16, 4 on each, of which the first and the last hold 3

Padding holds anything: it is mapped like the rest, and its results are never looked at. Before an operation that adds
up along a padded axis, or takes an extreme, it is made neutral: zero for a sum, the least for a maximum. Tokens
that are padding are sent to no expert. An operation that does anything else along a padded axis has it gathered, and a
replicated value is never padded. So results are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import dtypes, lax

from ..plans.per_shard_collectives import neutral_axes
from ..plans.plan_data import Plan
from ..rules import Factors
from ..rules.neutral import neutral
from ..rules.per_shard import Device, ShardedOperation
from ..specs.spec import Grid, Spec, padded_shape


def grown(array: Any, shape: Sequence[int], spec: Spec, grid: Grid) -> Any:
    """Returns an array in a larger shape, with zeros where the parts that a spec cuts it into have no elements.

    Keys, which have no zeros, are repeated there.
    """
    if tuple(array.shape) == tuple(shape):
        return array
    for axis, own in _uneven(array.shape, shape, spec, grid):
        array = jnp.take(array, np.minimum(own, array.shape[axis] - 1), axis=axis, mode="clip")
    if jnp.issubdtype(array.dtype, dtypes.extended):
        for axis, wanted in enumerate(shape):
            array = jnp.take(array, jnp.minimum(jnp.arange(wanted), array.shape[axis] - 1), axis=axis)
        return array
    return jnp.pad(array, [(0, wanted - size) for size, wanted in zip(array.shape, shape, strict=True)])


def cut(array: Any, shape: Sequence[int], spec: Spec, grid: Grid) -> Any:
    """Returns those elements of an array that are some value's of a shape, which was padded as a spec cuts it."""
    if tuple(array.shape) == tuple(shape):
        return array
    for axis, own in _uneven(shape, array.shape, spec, grid):
        array = jnp.take(array, np.flatnonzero(own < shape[axis]), axis=axis, mode="clip")
    return array[tuple(slice(size) for size in shape)]


def _uneven(shape: Sequence[int], padded: Sequence[int], spec: Spec, grid: Grid) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the axes whose parts have different sizes, with which element stands where; beyond the last one: none."""
    for axis, (size, wide, split) in enumerate(zip(shape, padded, spec.splits, strict=True)):
        if size != wide and split and split[0] in grid.uneven:
            parts = np.array(grid.uneven[split[0]])[:, None]
            within, starts = np.arange(wide // len(parts)), np.cumsum(parts, 0) - parts
            yield axis, np.where(within < parts, starts + within, size).ravel()


def neutralized(
    device: Device, sharded: ShardedOperation, factors: Factors, operands: Sequence[Any], grid: Grid
) -> list[Any]:
    """Returns an operation's operands, neutral where they are padded along axes that mix elements."""
    shards, operation = [], sharded.operation
    for position, axes in enumerate(neutral_axes(sharded, factors, grid)):
        shard, shape = operands[position], sharded.operand_shapes[position]
        for axis in axes:
            split = sharded.split(axis, position)
            places = lax.broadcasted_iota(jnp.int32, shard.shape, axis)
            if split[0] in grid.uneven:
                counts = places < jnp.asarray(grid.uneven[split[0]])[device.index(split)]
            else:
                counts = device.index(split) * shard.shape[axis] + places < shape[axis]
            dtype = jnp.result_type(shard)
            sends = factors.sends(position, factors.operands[position][axis])
            shard = jnp.where(counts, shard, jnp.asarray(-1, dtype) if sends else neutral(operation.name, dtype))
        shards.append(shard)
    return shards


def stored_shape(plan: Plan, value: int, spec: Spec) -> tuple[int, ...]:
    """Returns the shape of an argument or output as the devices store it."""
    return padded_shape(plan.program.code.shapes[value], spec, plan.grid)
