"""Rules of contractions and reductions name the axes that are summed, or joined by a maximum or another operation.

    reduce_sum  x[batch, hidden] over hidden → [batch]       operands ((0, 1),)   results ((0,),)   summed {1}

A summed axis that is sharded leaves a partial sum. Contractions follow the compute rules alone: a weight that is stored
sharded is gathered first, which is FSDP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from ..code.operations import Operation
from ..collectives.device import Device
from .matmuls import of_dot
from .neutral import idle
from .per_shard import ShardedOperation, bind, per_shard
from .rank import extreme
from .table import NONE, Factors, Facts, rule
from .traits import NOWHERE, multiplying, opaque, reducing


def _reduced(operation: Operation, facts: Facts) -> tuple[tuple[int, ...], tuple[int, ...], frozenset[int]]:
    rank = len(facts.operands[0])
    reduced = frozenset(operation.params["axes"])
    return tuple(range(rank)), tuple(i for i in range(rank) if i not in reduced), reduced


@rule("reduce_sum", traits=reducing("sum", library=True))
def _sum(operation: Operation, facts: Facts) -> Factors:
    axes, result, summed = _reduced(operation, facts)
    # A uniform array is summed unsharded: that needs no communication.
    if facts.uniform[0]:
        return Factors((axes,), (result,), unsharded=summed)
    return Factors((axes,), (result,), summed=summed, through=frozenset((0,)))


@rule("reduce_max", traits=reducing("max", library=True))
@rule("reduce_min", traits=reducing("min", library=True))
def _extremum(operation: Operation, facts: Facts) -> Factors:
    axes, result, reduced = _reduced(operation, facts)
    return Factors((axes,), (result,), per_shard=reduced)


@per_shard("reduce_max", summary="the greatest value over {dims} is taken", padded=True)
@per_shard("reduce_min", summary="the least value over {dims} is taken", padded=True)
def _extremum_of_shards(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    """Takes the extreme of the devices' extremes: there is no partial maximum, so an all-reduce follows at once."""
    axes = tuple(sorted(a for axis in sharded.params["axes"] for a in sharded.split(axis)))
    return [extreme(device, own, axes, sharded.operation.name[-3:]) for own in sharded.run(operands, device.sizes)]


@rule("reduce_prod", traits=reducing("product", library=False))
@rule("reduce_and", traits=reducing("and", library=False))
@rule("reduce_or", traits=reducing("or", library=False))
@rule("reduce_xor", traits=reducing("xor", library=False))
def _joined(operation: Operation, facts: Facts) -> Factors:
    axes, result, reduced = _reduced(operation, facts)
    return Factors((axes,), (result,), per_shard=reduced)


@per_shard("reduce_and", "reduce_or", summary="the elements of {dims} are joined", padded=True)
@per_shard("reduce_prod", "reduce_xor", summary="the elements of {dims} are joined", padded=True, gathers=True)
def _join_shards(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    """Reduces booleans by their least ("and") or greatest ("or"); gathers other numbers, and joins them."""
    axes = tuple(sorted(a for axis in sharded.params["axes"] for a in sharded.split(axis)))
    (result,) = sharded.run(operands, device.sizes)
    extremum = {"reduce_and": "min", "reduce_or": "max"}.get(sharded.operation.name)
    if result.dtype == bool and extremum:
        return [device.all_reduce(result, axes, extremum)]
    gathered = device.all_gather(jnp.expand_dims(result, 0), axes, 0)
    return bind(sharded.operation, [gathered], sharded.params | {"axes": (0,)})


@rule("reduce", traits=opaque(linear=NOWHERE, multiplies=None))
def _reduced_by(operation: Operation, facts: Facts) -> Factors:
    """Joins the devices' results by the reduction's own function, if that may join its start value once more."""
    reduced = frozenset(operation.params["dimensions"])
    axes = tuple(range(len(facts.results[0]) + len(reduced)))
    result = tuple(i for i in axes if i not in reduced)
    joined = reduced if idle(operation) else NONE
    arrays = len(facts.operands) // 2
    operands = (*(axes,) * arrays, *((),) * arrays)
    return Factors(operands, (result,) * len(facts.results), per_shard=joined, unsharded=reduced - joined)


@per_shard("reduce", summary="the elements of {dims} are joined")
def _join_reduced(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    axes = tuple(sorted(a for axis in sharded.params["dimensions"] for a in sharded.split(axis)))
    (own,), (_, start) = sharded.run(operands, device.sizes), operands
    gathered = device.all_gather(jnp.expand_dims(own, 0), axes, 0)
    return bind(sharded.operation, [gathered, start], sharded.params | {"dimensions": (0,)})


@rule("dot_general", traits=multiplying(of_dot))
def _dot_general(operation: Operation, facts: Facts) -> Factors:
    (summed_left, summed_right), (batch_left, batch_right) = operation.params["dimension_numbers"]
    left_rank, right_rank = len(facts.operands[0]), len(facts.operands[1])
    left = list(range(left_rank))
    right = list(range(left_rank, left_rank + right_rank))
    for i, j in (*zip(batch_left, batch_right, strict=True), *zip(summed_left, summed_right, strict=True)):
        right[j] = left[i]
    result = (
        *(left[i] for i in batch_left),
        *(left[i] for i in range(left_rank) if i not in batch_left and i not in summed_left),
        *(right[j] for j in range(right_rank) if j not in batch_right and j not in summed_right),
    )
    summed = frozenset(left[i] for i in summed_left)
    if operation.equation.outvars[0].aval.dtype == bool:
        # Booleans are joined by "or", which has no partial sum.
        return Factors((tuple(left), tuple(right)), (result,), unsharded=summed, propagating=NONE)
    return Factors((tuple(left), tuple(right)), (result,), summed=summed, propagating=NONE)
