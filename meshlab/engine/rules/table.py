"""A table of rules says for each primitive which axes of its operands and results are the same.

A rule names **factors**: axes that run through the operation. Everything else is derived from them, so that naming,
legality, planning and running cannot disagree:

    dot_general  x[batch, rows] · w[rows, hidden] → [batch, hidden]
    operands ((0, 1), (1, 2))   results ((0, 2),)   summed {1}

A factor that is sharded may be computed shard by shard. If it is *summed* the result is then a partial sum; if it is
*per-shard* the operation has an implementation for shards, in which devices communicate (`per_shard`); an *unsharded*
one is gathered first. Axes of size 1 have no factor (-1): there is nothing to shard. Of Shardy's factors, reduction
factors are *summed* here, need-replication factors *unsharded*, and permutation factors nearest to *per-shard*.

The axes of one factor may differ in size, as those of a convolution with a stride do, or the first of the axes that a
reshape merges and the merged one: then its *limit* says into how many shards it can be split. Where that many split it,
further mesh axes split the next factor of the merged axis, its *minor*.

Each rule is registered with the primitive's `Traits`, which have all other facts of it. A primitive without a rule runs
unsharded, on gathered operands, and the plan says so; it may have traits all the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any

from ..code.operations import Operation
from .traits import NOWHERE, TRAITS, Groups, Traits

Shape = tuple[int, ...]
AxisFactors = tuple[int, ...]
NONE: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True)
class Routed:
    """Says between which factors an operation sends elements, to parts that the elements' own numbers name.

    A mesh axis may split an item's factor and one of the places: elements are exchanged over it, or stay there.

    Attributes:
        items: factors of what is sent: tokens.
        homes: factors whose part an element's number names: experts.
        slots: factors of places that any part has: it keeps its own items there.
        followed: the operands whose specs decide how all these are split, whatever the rules ask; none for the
            operation that decides it by the rules.
    """

    items: frozenset[int]
    homes: frozenset[int]
    slots: frozenset[int]
    followed: tuple[int, ...] = ()

    @property
    def naming(self) -> int:
        """The operand that names the part to which each item is sent."""
        return self.followed[0] if self.followed else 0

    @property
    def places(self) -> frozenset[int]:
        """The factors of where items are sent."""
        return self.homes | self.slots

    @property
    def pairs(self) -> frozenset[frozenset[int]]:
        """The pairs of factors that a mesh axis may split both."""
        return frozenset(frozenset((item, place)) for item in self.items for place in self.places)


@dataclasses.dataclass(frozen=True)
class Factors:
    """Relates the axes of one operation's operands and results.

    Attributes:
        operands: for each operand the factor of each axis.
        results: for each result the factor of each axis.
        summed: factors that the operation adds up, in each result that lacks them.
        per_shard: factors that are sharded by means of the operation's per-shard implementation.
        unsharded: factors that no mesh axis may shard; they are gathered first.
        limits: for some factors, a number that the number of shards must divide; the others are sharded as far as their
            size allows.
        minors: for factors of a merged axis the next minor one, which may be sharded where the factor is split into as
            many parts as its limit; the merged axis, which has the first alone, is split by the axes of all.
        propagating: factors along which sharding propagates that the compute rules do not ask for (elementwise and
            reducing operations: all of them, None); in the others it is dropped by gathering first.
        through: the operands whose partial sums the planner lets through: of those in which the operation is linear,
            those whose partial sum is no larger behind it.
        linear: the sets of operands in which it is linear, as its traits say.
        exchangeable: pairs of factors that may be split over the same mesh axes, both alike: parts of the one then meet
            parts of the other in turn, and nothing is partial over the axes that they share.
        routed: between which factors elements are sent by their own numbers; None where none are.
        known: whether the primitive has a rule.
    """

    operands: tuple[AxisFactors, ...]
    results: tuple[AxisFactors, ...]
    summed: frozenset[int] = frozenset()
    per_shard: frozenset[int] = frozenset()
    unsharded: frozenset[int] = frozenset()
    limits: Mapping[int, int] = dataclasses.field(default_factory=dict)
    minors: Mapping[int, int] = dataclasses.field(default_factory=dict)
    propagating: frozenset[int] | None = None
    through: frozenset[int] = NONE
    linear: Groups = ()
    exchangeable: frozenset[frozenset[int]] = frozenset()
    routed: Routed | None = None
    known: bool = True

    @property
    def key(self) -> Hashable:
        """Equal for factors that are equal."""
        return (
            self.operands,
            self.results,
            self.summed,
            self.per_shard,
            self.unsharded,
            tuple(sorted(self.limits.items())),
            tuple(sorted(self.minors.items())),
            self.propagating,
            self.through,
            self.linear,
            self.exchangeable,
            self.routed,
            self.known,
        )

    @property
    def shareable(self) -> frozenset[frozenset[int]]:
        """The pairs of factors that a mesh axis may split both."""
        return self.exchangeable | (self.routed.pairs if self.routed else frozenset())

    def sends(self, position: int, factor: int) -> bool:
        """Says whether an operand names along a factor where items are sent."""
        return self.routed is not None and position == self.routed.naming and factor in self.routed.items

    def exchanged(self, factor: int) -> int | None:
        """Returns the factor that may be split over the same mesh axes as this one, if there is one."""
        return next((other for pair in self.exchangeable if factor in pair for other in pair - {factor}), None)

    def propagates(self, factor: int) -> bool:
        """Says whether sharding along a factor propagates that the compute rules do not ask for."""
        return self.propagating is None or factor in self.propagating

    def with_others(self, partial: Collection[int]) -> frozenset[int] | None:
        """Returns the other operands that must be partial too, or zero, for partial sums of some to go through.

        None where these must not go through: the operation is not linear in them together, or the planner reduces them.
        """
        if self.through.issuperset(partial):
            for group in self.linear:
                if group.issuperset(partial):
                    return group.difference(partial)
        return None


@dataclasses.dataclass(frozen=True)
class Facts:
    """Holds the facts of an operation that a rule may use beside its parameters.

    Attributes:
        operands: the operands' shapes.
        results: the results' shapes.
        zeros: for each operand, whether it is known to be zero everywhere.
        uniform: for each operand, whether it is known to hold one number everywhere.
        little: whether it is a slice so small that its operand stays sharded (`programs.small_slices`).
    """

    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    zeros: tuple[bool, ...]
    uniform: tuple[bool, ...]
    little: bool = False


Rule = Callable[[Operation, Facts], Factors]
LocalParams = Callable[[dict[str, Any], tuple[Shape, ...], tuple[Shape, ...]], dict[str, Any]]

RULES: dict[str, Rule] = {}
LOCAL_PARAMS: dict[str, LocalParams] = {}


def rule(*names: str, traits: Traits) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        TRAITS.update(dict.fromkeys(names, traits))
        return function

    return register


def without_rule(*names: str, traits: Traits):
    """Registers the traits of primitives without a rule, which run unsharded."""
    TRAITS.update(dict.fromkeys(names, traits))


def local_params(*names: str) -> Callable[[LocalParams], LocalParams]:
    """Registers a function that converts a primitive's parameters from global shapes to one device's shards.

    It takes the parameters, and the operands' and results' local shapes.
    """

    def register(function: LocalParams) -> LocalParams:
        LOCAL_PARAMS.update(dict.fromkeys(names, function))
        return function

    return register


def run_unsharded(facts: Facts, known: bool = False) -> Factors:
    """Returns the factors of an operation that runs unsharded: no two axes are the same."""
    count, axes = 0, []
    for shape in (*facts.operands, *facts.results):
        axes.append(tuple(range(count, count + len(shape))))
        count += len(shape)
    cut = len(facts.operands)
    operands, results = tuple(axes[:cut]), tuple(axes[cut:])
    return Factors(operands, results, unsharded=frozenset(range(count)), propagating=NONE, known=known)


def factors_of(operation: Operation, facts: Facts) -> Factors:
    by_rule, traits = RULES.get(operation.name), TRAITS.get(operation.name)
    factors = by_rule(operation, facts) if by_rule else run_unsharded(facts)
    return _finished(factors, facts, (traits.linear if traits else NOWHERE)(operation))


def _finished(factors: Factors, facts: Facts, linear: Groups) -> Factors:
    """Removes the factors of axes of size 1, and adds the operands in which the operation is linear."""

    def strip(axes: tuple[AxisFactors, ...], shapes: tuple[Shape, ...]) -> tuple[AxisFactors, ...]:
        if not any([1 in shape for shape in shapes]):
            return axes
        return tuple(
            [
                tuple([f if size != 1 else -1 for f, size in zip(a, shape, strict=True)]) if 1 in shape else a
                for a, shape in zip(axes, shapes, strict=True)
            ]
        )

    operands, results = strip(factors.operands, facts.operands), strip(factors.results, facts.results)
    if operands is factors.operands and results is factors.results and linear == factors.linear:
        return factors
    f = factors  # `dataclasses.replace` takes several times as long
    alike = f.summed, f.per_shard, f.unsharded, f.limits, f.minors, f.propagating, f.through
    return Factors(operands, results, *alike, linear, f.exchangeable, f.routed, f.known)
