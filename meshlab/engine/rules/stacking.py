"""Rules of stack, unstack and tile let all axes run through but the stacked or repeated one.

stack    x[batch], y[batch]  → [2, batch]      the new axis is unsharded, all others run through
unstack  z[2, batch]         → [batch], [batch]
tile     x[batch, 4] × (1, 3) → [batch, 12]    a repeated axis is unsharded, unless it has size 1
"""

from __future__ import annotations

from typing import Any

from ..code.operations import Operation
from .table import Factors, Facts, Shape, local_params, rule
from .traits import FIRST, opaque, together

_ONE = frozenset((0,))


@rule("stack", traits=opaque(linear=together, multiplies=None))
def _stack(operation: Operation, facts: Facts) -> Factors:
    rank, fresh = len(facts.results[0]), operation.params["axis"] % len(facts.results[0])
    each = tuple(i for i in range(rank) if i != fresh)
    through, count = frozenset(range(len(facts.operands))), len(facts.operands)
    return Factors((each,) * count, (tuple(range(rank)),), unsharded=frozenset((fresh,)), through=through)


@rule("unstack", traits=opaque(linear=FIRST, multiplies=None, reads_part=True))
def _unstack(operation: Operation, facts: Facts) -> Factors:
    rank = len(facts.operands[0])
    stacked = operation.params["axis"] % rank
    each = tuple(i for i in range(rank) if i != stacked)
    return Factors((tuple(range(rank)),), (each,) * len(facts.results), unsharded=frozenset((stacked,)), through=_ONE)


@rule("tile", traits=opaque(linear=FIRST, multiplies=None))
def _tile(_operation: Operation, facts: Facts) -> Factors:
    before, after = facts.operands[0], facts.results[0]
    rank = len(before)
    repeated = [i for i in range(rank) if before[i] != after[i]]
    result = tuple(i + rank if i in repeated else i for i in range(rank))
    unsharded = frozenset(f for i in repeated if before[i] != 1 for f in (i, i + rank))
    return Factors((tuple(range(rank)),), (result,), unsharded=unsharded, through=_ONE)


@local_params("tile")
def _tile_local(params: dict[str, Any], operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    return params | {"reps": tuple(b // a for a, b in zip(operands[0], results[0], strict=True))}
