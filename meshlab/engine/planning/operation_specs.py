"""The specs of one operation: those in which it reads its operands, and those of its results.

Three rules, and nothing else, decide them:

1. It is computed under the compute rules on its dims; factors that cannot be split are replicated, and so is what is
   looked up in a table that each device has whole.
2. Sharding of an operand that the compute rules do not ask for propagates through elementwise and reducing operations,
   while its mesh axis shards nothing else there; before contractions, gathers and scatters the operand is gathered. A
   small operand does not propagate its sharding: a bias stored sharded is gathered, not what it is added to; but where
   the target spec of the result is sharded all operands do.
3. A summed factor that is split leaves a partial sum in each result that lacks it; a partial operand that may go
   through (the planner's `reduce_operands` decides) makes the results partial.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..rules import Factors
from ..specs.spec import Axes, Spec, fitting
from .routed_splits import routed_splits


class OperationSpecs(NamedTuple):
    """The specs of one operation.

    Attributes:
        operands: the spec in which each input is read.
        results: the specs of the results.
        per_shard: whether the operation's per-shard implementation is needed.
    """

    operands: tuple[Spec, ...]
    results: tuple[Spec, ...]
    per_shard: bool


def specs_of_operation(
    factors: Factors,
    asked: dict[int, Axes],
    operands: Sequence[Spec | None],
    zeros: Sequence[bool],
    *,
    sizes: Mapping[str, int],
    unsplittable: frozenset[int] = frozenset(),
    smaller: frozenset[int] = frozenset(),
) -> OperationSpecs:
    """Works out the specs of one operation.

    Args:
        factors: how its axes belong together.
        asked: what the compute rules ask of each factor.
        operands: the specs that the operands have; None for a value that can be made in any spec.
        zeros: which operands are zero everywhere; those may be read as partial for free.
        sizes: the mesh axes' sizes.
        unsplittable: factors that no mesh axis may shard: those of a rename whose two sides differ, and padded ones
            that an operation does more with than map or sum.
        smaller: the operands whose sharding does not propagate, because another one is larger.
    """
    partial = {a for spec in operands if spec is not None for a in spec.partial}
    own = {f: axes for f, axes in asked.items() if axes and f not in factors.unsharded}
    if factors.routed:
        splits = routed_splits(factors, own, operands, sizes, unsplittable)
    else:
        splits = _once_each(factors, _within_limits(factors, own, sizes) if factors.minors else own)
    _propagate(factors, [None if i in smaller else s for i, s in enumerate(operands)], splits, partial, unsplittable)
    splits = _within_limits(factors, splits, sizes)
    for major, minor in factors.minors.items():
        if math.prod(sizes[a] for a in splits.get(major, ())) != factors.limits[major]:
            splits.pop(minor, None)

    def after(axes: tuple[int, ...]) -> Axes:
        """The mesh axes over which a result is partial: it adds up what it has not got."""
        over = partial.union(*(splits.get(f, ()) for f in factors.summed if f not in axes))
        if factors.exchangeable:
            over -= {a for f in axes if factors.exchanged(f) is not None for a in splits.get(f, ())}
        if factors.routed:
            over -= {a for f in axes if f in factors.routed.items for a in splits.get(f, ())}
        return tuple(sorted(over))

    sums = next(map(after, factors.results), ())

    def spec(axes: tuple[int, ...], over: Axes) -> Spec:
        return Spec(tuple(split_of(f, axes) if f >= 0 else () for f in axes), over)

    def split_of(factor: int, axes: tuple[int, ...]) -> Axes:
        split = splits.get(factor, ())
        while (factor := factors.minors.get(factor, -1)) >= 0 and factor not in axes:
            split += splits.get(factor, ())
        return split

    read = tuple(
        spec(axes, sums if zero else have.partial if have is not None else ())
        for axes, have, zero in zip(factors.operands, operands, zeros, strict=True)
    )
    per_shard = any(splits.get(f) for f in factors.per_shard)
    return OperationSpecs(read, tuple(spec(axes, after(axes)) for axes in factors.results), per_shard)


def as_met(
    factors: Factors, operands: Sequence[Spec | None], shapes: Sequence[tuple[Any, ...]], sizes: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """Returns the shapes of operands that a device meets in an operation: of what comes by in turn, all of it.

    Of two exchangeable factors that are split alike it is the later one.

    Args:
        factors: of the operation.
        operands: their specs.
        shapes: of their shards.
        sizes: of the mesh axes.
    """
    split = {
        factor: axes
        for read, spec in zip(factors.operands, operands, strict=False)
        if spec is not None
        for factor, axes in zip(read, spec.splits, strict=True)
    }
    late = [max(pair) for pair in factors.exchangeable if len({split.get(factor) for factor in pair}) == 1]
    turns = {factor: math.prod(sizes[a] for a in split.get(factor, ())) for factor in late}
    return [
        tuple(size * turns.get(factor, 1) for factor, size in zip(axes, shape, strict=True)) if shape else shape
        for axes, shape in zip(factors.operands, shapes, strict=True)
    ]


def looked_up_whole(factors: Factors, table: Spec, asked: Mapping[int, Axes]) -> frozenset[int]:
    """Returns the factors along which elements are looked up, if each device has them all without moving the table.

    Then a lookup of its own elements alone would save nothing, and what it finds would have to be added up.

    Args:
        factors: of an operation that reads a part of its first operand.
        table: the spec that the first operand has.
        asked: what the compute rules ask of each factor.
    """
    split_of = dict(zip(factors.operands[0], table.splits, strict=True))
    if table.partial or any(split and asked.get(f, ())[: len(split)] != split for f, split in split_of.items()):
        return frozenset()
    there = {f for axes in factors.results for f in axes}
    return frozenset(f for f, split in split_of.items() if f in factors.per_shard and f not in there and not split)


def _within_limits(factors: Factors, splits: dict[int, Axes], sizes: Mapping[str, int]) -> dict[int, Axes]:
    """Cuts the axes of factors to the first ones, into as many parts as the factors can be split."""
    limits = factors.limits
    return {f: fitting(axes, limits[f], sizes) if f in limits else axes for f, axes in splits.items()}


def _once_each(factors: Factors, splits: Mapping[int, Axes]) -> dict[int, Axes]:
    """Asks for each mesh axis in one factor only: where one name is asked for twice, in that of the result.

    `x[order]` of two values of one dim asks so: what is looked up along, and what it is looked up for.
    """
    in_results = {f for axes in factors.results for f in axes}
    used: set[str] = set()
    split_of: dict[int, Axes] = {}
    for factor in sorted(splits, key=lambda f: f not in in_results):
        other = factors.exchanged(factor)
        meets = other is not None and split_of.get(other) == splits[factor]
        taken = set() if meets else used
        split_of[factor] = tuple(itertools.takewhile(lambda a, taken=taken: a not in taken, splits[factor]))
        used.update(split_of[factor])
    return split_of


def _propagate(
    factors: Factors,
    operands: Sequence[Spec | None],
    splits: dict[int, Axes],
    partial: set[str],
    unsplittable: frozenset[int],
):
    """Adds the splits of operands that propagate."""
    used = {a for axes in splits.values() for a in axes} | partial
    for have, axes in zip(operands, factors.operands, strict=True):
        if have is None:
            continue
        for factor, split in zip(axes, have.splits, strict=True):
            asked = splits.get(factor, ())
            dropped = (
                factor < 0 or factor in factors.unsharded or factor in unsplittable or not factors.propagates(factor)
            )
            if dropped or len(split) <= len(asked):
                continue
            more = set(split).difference(asked)
            if set(asked) <= set(split) and not used.intersection(more):
                splits[factor] = split
                used.update(more)
