"""The rule of ragged matmuls shards groups of rows, each of which is multiplied by a matrix of its own.

    ragged_dot  x[rows, embed] · w[expert, embed, ffn], sizes[expert]  → [rows, ffn]      a mixture of experts
                x[rows, embed] · y[rows, ffn], sizes[expert]           → [expert, embed, ffn]   the gradient of w

As in any matmul, free dims run through, and a summed dim that is sharded leaves a partial sum. Where the rows are
sharded each device counts how many of its rows are in each group; where the groups are, it multiplies the rows of its
own groups and leaves zeros for all others: the result is a partial sum. Sizes are replicated, and nothing is sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..code.operations import Operation
from ..collectives.device import Device
from .matmuls import of_ragged_dot
from .per_shard import ShardedOperation, per_shard
from .table import NONE, AxisFactors, Factors, Facts, rule, run_unsharded
from .traits import linear_in, opaque


def _result(params: Any, left: Sequence[int], right: Sequence[int]) -> AxisFactors:
    """Returns the axes of both operands that are axes of the result, without groups, in its order."""
    numbers = params["ragged_dot_dimension_numbers"]
    (left_summed, right_summed), (left_batch, right_batch) = numbers.dot_dimension_numbers
    gone = {*right_summed, *right_batch, *numbers.rhs_group_dimensions}
    return (
        *(left[i] for i in left_batch),
        *(f for i, f in enumerate(left) if i not in (*left_batch, *left_summed)),
        *(f for j, f in enumerate(right) if j not in gone),
    )


@rule("ragged_dot_general", traits=opaque(linear=linear_in({0}, {1}), multiplies=of_ragged_dot))
def _ragged_dot(operation: Operation, facts: Facts) -> Factors:
    numbers = operation.params["ragged_dot_dimension_numbers"]
    (left_summed, right_summed), (left_batch, right_batch) = numbers.dot_dimension_numbers
    (rows,), grouped = numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions
    if rows in left_batch or operation.params["group_offset"] is not None:
        return run_unsharded(facts, known=True)
    left_rank, right_rank, sizes_rank = map(len, facts.operands)
    left, right = list(range(left_rank)), list(range(left_rank, left_rank + right_rank))
    for i, j in (*zip(left_batch, right_batch, strict=True), *zip(left_summed, right_summed, strict=True)):
        right[j] = left[i]
    count = left_rank + right_rank
    group = right[grouped[0]] if grouped else count
    # Sizes may differ along axes outside of the rows; then groups are unsharded. Each device has all groups' sizes.
    outer = [left[i] for i in (*left_batch, *_outside(rows, left_rank, left_batch, left_summed))]
    sizes = (*outer[: sizes_rank - 1], count + 1)
    summed = frozenset(left[i] for i in left_summed)
    splittable = frozenset((group,)) if sizes_rank == 1 else NONE
    return Factors(
        (tuple(left), tuple(right), sizes),
        (_result(operation.params, left, right) if grouped else (group, *_result(operation.params, left, right)),),
        summed=summed | (splittable if grouped else NONE),
        per_shard=splittable | {left[rows]},
        unsharded=frozenset((group, count + 1)) - splittable,
        propagating=NONE,
    )


def _outside(rows: int, rank: int, batch: Sequence[int], summed: Sequence[int]) -> list[int]:
    """Returns the axes before the rows that are summed, or not, as the rows are."""
    alike = summed if rows in summed else [i for i in range(rank) if i not in (*batch, *summed)]
    return [i for i in alike if i < rows]


@per_shard("ragged_dot_general", summary="rows of groups along {dims} are multiplied", padded=True)
def _multiply_own_rows(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    left, right, sizes = operands
    numbers = sharded.params["ragged_dot_dimension_numbers"]
    (rows,), grouped = numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions
    split = sharded.split(rows)
    if split:
        ends = jnp.cumsum(sizes, -1) - device.index(split) * left.shape[rows]
        ends = jnp.clip(ends, 0, left.shape[rows])
        sizes = jnp.diff(ends, axis=-1, prepend=0).astype(sizes.dtype)
    over = sharded.split(grouped[0], 1) if grouped else sharded.results[0].splits[0]
    if not over:
        return sharded.run([left, right, sizes], device.sizes)
    # Rows of the groups before are a group too, whose result is dropped.
    count = right.shape[grouped[0]] if grouped else -(-sizes.shape[0] // math.prod(device.sizes[a] for a in over))
    before, own = _own_groups(sizes, device.index(over) * count, count)
    sizes = jnp.concatenate((before[None], own))
    if not grouped:
        (result,) = sharded.run([left, right, sizes], device.sizes)
        return [lax.slice_in_dim(result, 1, None)]
    around = [(0, 0, 0)] * right.ndim
    around[grouped[0]] = (1, 0, 0)
    (result,) = sharded.run([left, lax.pad(right, jnp.zeros((), right.dtype), around), sizes], device.sizes)
    place = _result(sharded.params, range(left.ndim), range(left.ndim, left.ndim + right.ndim)).index(rows)
    row = lax.broadcasted_iota(sizes.dtype, result.shape, place)
    return [jnp.where((before <= row) & (row < sizes.sum()), result, jnp.zeros_like(result))]


def _own_groups(sizes: Any, first: Any, count: int) -> tuple[Any, Any]:
    """Returns how many rows are in groups before a device's first, and its groups' sizes; padded groups are empty."""
    groups = jnp.arange(sizes.shape[0])
    before = jnp.sum(jnp.where(groups < first, sizes, 0), dtype=sizes.dtype)
    return before, lax.dynamic_slice_in_dim(jnp.pad(sizes, (0, count)), first, count)
