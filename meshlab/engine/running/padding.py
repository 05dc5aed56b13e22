"""Pads a dim that its mesh axes do not divide.

    batch of 100 over 8 devices: padded to 104, 13 on each; the last device holds 9 that count

Padding holds anything: it is mapped like the rest, and its results are never looked at. Before an operation that adds
up along a padded axis, or takes an extreme, it is made neutral: zero for a sum, the least for a maximum. An operation
that does anything else along it has it gathered, and a replicated value is never padded. So results are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import dtypes, lax

from ..plans.per_shard_collectives import neutral_axes
from ..plans.plan_data import Plan
from ..rules import Factors
from ..rules.neutral import neutral
from ..rules.per_shard import Device, ShardedOperation
from ..specs.spec import Grid, Spec, padded_shape


def grown(array: Any, shape: Sequence[int]) -> Any:
    """Returns an array with zeros behind, up to a shape; of keys with repetitions of the last one."""
    if tuple(array.shape) == tuple(shape):
        return array
    if jnp.issubdtype(array.dtype, dtypes.extended):
        for axis, wanted in enumerate(shape):
            places = jnp.minimum(jnp.arange(wanted), array.shape[axis] - 1)
            array = jnp.take(array, places, axis=axis)
        return array
    return jnp.pad(array, [(0, wanted - size) for size, wanted in zip(array.shape, shape, strict=True)])


def cut(array: Any, shape: Sequence[int]) -> Any:
    """Returns the front of an array, of a shape."""
    return array if tuple(array.shape) == tuple(shape) else array[tuple(slice(size) for size in shape)]


def neutralized(
    device: Device, sharded: ShardedOperation, factors: Factors, operands: Sequence[Any], grid: Grid
) -> list[Any]:
    """Returns an operation's operands, neutral where they are padded along axes that mix elements."""
    shards = []
    for position, axes in enumerate(neutral_axes(sharded, factors, grid)):
        shard, shape = operands[position], sharded.operand_shapes[position]
        for axis in axes:
            first = device.index(sharded.split(axis, position)) * shard.shape[axis]
            places = first + lax.broadcasted_iota(jnp.int32, shard.shape, axis)
            shard = jnp.where(places < shape[axis], shard, neutral(sharded.operation.name, jnp.result_type(shard)))
        shards.append(shard)
    return shards


def stored_shape(plan: Plan, value: int, spec: Spec) -> tuple[int, ...]:
    """Returns the shape of an argument or output as the devices store it."""
    return padded_shape(plan.program.code.shapes[value], spec, plan.grid)
