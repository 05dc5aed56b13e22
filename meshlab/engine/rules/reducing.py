"""Rules of contractions and reductions: axes that are summed, or of which the greatest is taken, away.

    reduce_sum  x[batch, hidden] over hidden → [batch]       operands ((0, 1),)   results ((0,),)   summed {1}

A summed axis that is split leaves a partial sum. Contractions are computed under the plain rules alone: a weight that
is stored split is gathered first, which is all there is to FSDP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from ..code.operations import Operation
from .local_forms import Device, Local, bind, local_form
from .matmuls import of_dot
from .neutral import idle
from .rank import extreme
from .table import NONE, Factors, Facts, rule
from .traits import NOWHERE, multiplying, opaque, reducing


def _reduced(operation: Operation, facts: Facts) -> tuple[tuple[int, ...], tuple[int, ...], frozenset[int]]:
    rank = len(facts.operands[0])
    gone = frozenset(operation.params["axes"])
    return tuple(range(rank)), tuple(i for i in range(rank) if i not in gone), gone


@rule("reduce_sum", traits=reducing("sum", library=True))
def _sum(operation: Operation, facts: Facts) -> Factors:
    axes, kept, gone = _reduced(operation, facts)
    # One number everywhere is added up whole: its sum needs no other device.
    if facts.uniform[0]:
        return Factors((axes,), (kept,), whole=gone)
    return Factors((axes,), (kept,), summed=gone, through=frozenset((0,)))


@rule("reduce_max", traits=reducing("max", library=True))
@rule("reduce_min", traits=reducing("min", library=True))
def _extremum(operation: Operation, facts: Facts) -> Factors:
    axes, kept, gone = _reduced(operation, facts)
    return Factors((axes,), (kept,), exchanged=gone)


@local_form("reduce_max", told="the greatest value over {dims} is taken", padded=True)
@local_form("reduce_min", told="the least value over {dims} is taken", padded=True)
def _extremum_of_shards(device: Device, local: Local, operands: Sequence[Any]) -> list[Any]:
    """The extreme of the devices' extremes: there is no partial maximum, so an all-reduce follows at once."""
    axes = tuple(sorted(a for axis in local.params["axes"] for a in local.split(axis)))
    return [extreme(device, own, axes, local.operation.name[-3:]) for own in local.run(operands, device.sizes)]


@rule("reduce_prod", traits=reducing("product", library=False))
@rule("reduce_and", traits=reducing("and", library=False))
@rule("reduce_or", traits=reducing("or", library=False))
@rule("reduce_xor", traits=reducing("xor", library=False))
def _joined(operation: Operation, facts: Facts) -> Factors:
    axes, kept, gone = _reduced(operation, facts)
    return Factors((axes,), (kept,), exchanged=gone)


@local_form("reduce_and", "reduce_or", told="the elements of {dims} are joined", padded=True)
@local_form("reduce_prod", "reduce_xor", told="the elements of {dims} are joined", padded=True, gathers=True)
def _join_shards(device: Device, local: Local, operands: Sequence[Any]) -> list[Any]:
    """Of truth values the least is "and", the greatest "or"; anything else is gathered, and joined everywhere."""
    axes = tuple(sorted(a for axis in local.params["axes"] for a in local.split(axis)))
    (result,) = local.run(operands, device.sizes)
    extremum = {"reduce_and": "min", "reduce_or": "max"}.get(local.operation.name)
    if result.dtype == bool and extremum:
        return [device.all_reduce(result, axes, extremum)]
    gathered = device.all_gather(jnp.expand_dims(result, 0), axes, 0)
    return bind(local.operation, [gathered], local.params | {"axes": (0,)})


@rule("reduce", traits=opaque(linear=NOWHERE, multiplies=None))
def _reduced_by(operation: Operation, facts: Facts) -> Factors:
    """A reduction by a function of its own: what each device makes is joined by it, if that meets its start again."""
    gone = frozenset(operation.params["dimensions"])
    axes = tuple(range(len(facts.results[0]) + len(gone)))
    kept = tuple(i for i in axes if i not in gone)
    joined = gone if idle(operation) else NONE
    arrays = len(facts.operands) // 2
    operands = (*(axes,) * arrays, *((),) * arrays)
    return Factors(operands, (kept,) * len(facts.results), exchanged=joined, whole=gone - joined)


@local_form("reduce", told="the elements of {dims} are joined")
def _join_reduced(device: Device, local: Local, operands: Sequence[Any]) -> list[Any]:
    axes = tuple(sorted(a for axis in local.params["dimensions"] for a in local.split(axis)))
    (own,), (_, start) = local.run(operands, device.sizes), operands
    gathered = device.all_gather(jnp.expand_dims(own, 0), axes, 0)
    return bind(local.operation, [gathered, start], local.params | {"dimensions": (0,)})


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
        # Truth values are joined by "or", of which there is no partial sum.
        return Factors((tuple(left), tuple(right)), (result,), whole=summed, survivors=NONE)
    return Factors((tuple(left), tuple(right)), (result,), summed=summed, survivors=NONE)
