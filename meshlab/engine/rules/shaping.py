"""Rules of operations that move axes about: transpose, broadcast, reshape, slice, pad, concatenate, sort.

An axis that is kept in full runs through; one that is cut, joined or reordered inside must be whole, and what comes out
is a new axis with a name of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..code import Operation
from .table import Factors, Facts, Shape, local_params, rule
from .traits import FIRST, bitcasting, broadcasting, concatenating, linear_in, moving, opaque

_ONE = frozenset((0,))


@rule("transpose", traits=moving(linear=FIRST, reads_part=False, keeps=True))
def _transpose(operation: Operation, facts: Facts) -> Factors:
    rank = len(facts.operands[0])
    return Factors((tuple(range(rank)),), (tuple(operation.params["permutation"]),), through=_ONE)


@rule("broadcast_in_dim", traits=broadcasting())
def _broadcast(operation: Operation, facts: Facts) -> Factors:
    source, result = facts.operands[0], facts.results[0]
    placed = operation.params["broadcast_dimensions"]
    operand = tuple(k if source[j] == result[k] else -1 for j, k in enumerate(placed))
    # A partial sum may go through where nothing is repeated: more would have to be reduced behind it.
    through = _ONE if math.prod(source) == math.prod(result) else frozenset[int]()
    return Factors((operand, *((),) * (len(facts.operands) - 1)), (tuple(range(len(result))),), through=through)


@local_params("broadcast_in_dim")
def _broadcast_local(params: dict[str, Any], _operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    return params | {"shape": results[0], "sharding": None}


@rule("squeeze", traits=bitcasting(identity=False))
def _squeeze(operation: Operation, facts: Facts) -> Factors:
    rank = len(facts.operands[0])
    gone = {d % rank for d in operation.params["dimensions"]}
    return Factors((tuple(range(rank)),), (tuple(i for i in range(rank) if i not in gone),), through=_ONE)


@rule("reshape", traits=bitcasting(identity=False))
def _reshape(operation: Operation, facts: Facts) -> Factors:
    """Axes that keep their size run through. Of those that are merged or split, the first ones of both sides do.

    [batch, heads, head] → [batch, heads*head]: blocks of heads are blocks of the merged axis, as long as the number of
    blocks divides both sizes. The minor axes must be whole.
    """
    before, after = facts.operands[0], facts.results[0]
    operand, result = [-1] * len(before), [-1] * len(after)
    whole: set[int] = set()
    limits: dict[int, int] = {}
    count = 0
    for left, right in aligned(before, after, operation.params["dimensions"]):
        operand[left[0]] = result[right[0]] = count
        if before[left[0]] != after[right[0]]:
            limits[count] = math.gcd(before[left[0]], after[right[0]])
        count += 1
        for axes, place in ((left, operand), (right, result)):
            for axis in axes[1:]:
                place[axis] = count
                whole.add(count)
                count += 1
    return Factors((tuple(operand),), (tuple(result),), whole=frozenset(whole), limits=limits, through=_ONE)


def aligned(before: Shape, after: Shape, order: Sequence[int] | None = None) -> list[tuple[list[int], list[int]]]:
    """Pairs the smallest runs of axes (those of size 1 left out) with equal products.

    Args:
        before: the operand's shape.
        after: the result's shape.
        order: in which the operand's axes are read; None for their own.
    """
    left = [i for i in (range(len(before)) if order is None else order) if before[i] != 1]
    right = [i for i, s in enumerate(after) if s != 1]
    runs = []
    i = j = 0
    while i < len(left):
        axes, others = [left[i]], [right[j]]
        a, b = before[left[i]], after[right[j]]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                axes.append(left[i])
                a, i = a * before[left[i]], i + 1
            else:
                others.append(right[j])
                b, j = b * after[right[j]], j + 1
        runs.append((axes, others))
    return runs


@local_params("reshape")
def _reshape_local(params: dict[str, Any], _operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    return params | {"new_sizes": results[0], "sharding": None}


def _kept(facts: Facts, cut: list[bool], operands: int = 1) -> Factors:
    """Axes run through, but for those that are cut: there operand and result have factors of their own."""
    rank = len(cut)
    result = tuple(i + rank if c else i for i, c in enumerate(cut))
    whole = frozenset(f for i, c in enumerate(cut) if c for f in (i, i + rank))
    scalars = ((),) * (len(facts.operands) - operands)
    return Factors((tuple(range(rank)),) * operands + scalars, (result,) * len(facts.results), whole=whole)


@rule("slice", traits=moving(linear=FIRST, reads_part=True, keeps=False))
def _slice(_operation: Operation, facts: Facts) -> Factors:
    return _kept(facts, [a != b for a, b in zip(facts.operands[0], facts.results[0], strict=True)])


@local_params("slice")
def _slice_local(params: dict[str, Any], operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    # An axis that is kept in full ends where the shard ends; any other is whole here.
    limits = tuple(
        size if start == 0 and size == kept else limit
        for size, kept, start, limit in zip(
            operands[0], results[0], params["start_indices"], params["limit_indices"], strict=True
        )
    )
    return params | {"limit_indices": limits}


@rule("pad", traits=moving(linear=linear_in({0, 1}), reads_part=False, keeps=False))
def _pad(operation: Operation, facts: Facts) -> Factors:
    return _kept(facts, [tuple(c) != (0, 0, 0) for c in operation.params["padding_config"]])


@rule("rev", traits=moving(linear=FIRST, reads_part=False, keeps=False))
def _reverse(operation: Operation, facts: Facts) -> Factors:
    rank = len(facts.operands[0])
    axes = tuple(range(rank))
    return Factors((axes,), (axes,), whole=frozenset(operation.params["dimensions"]))


@rule("concatenate", traits=concatenating())
def _concatenate(operation: Operation, facts: Facts) -> Factors:
    rank, along = len(facts.results[0]), operation.params["dimension"]

    def axes(fresh: int) -> tuple[int, ...]:
        return tuple(fresh if i == along else i for i in range(rank))

    count = len(facts.operands)
    fresh = frozenset(range(rank, rank + count + 1))
    return Factors(tuple(axes(rank + k) for k in range(count)), (axes(rank + count),), whole=fresh)


@rule("split", traits=opaque(linear=FIRST, multiplies=None, reads_part=True))
def _split(operation: Operation, facts: Facts) -> Factors:
    rank, along = len(facts.operands[0]), operation.params["axis"]
    pieces = tuple(tuple(rank if i == along else i for i in range(rank)) for _ in facts.results)
    return Factors((tuple(range(rank)),), pieces, whole=frozenset((along, rank)))
