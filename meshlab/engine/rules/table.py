"""The table of rules: for each primitive, which axes of its operands and results are the same.

A rule names **factors**: an axis that runs through the operation. Everything else is read off them, so that naming,
legality, planning and running cannot disagree:

    dot_general  x[batch, rows] · w[rows, hidden] → [batch, hidden]
    operands ((0, 1), (1, 2))   results ((0, 2),)   summed {1}

A factor that is split may be computed shard by shard. If it is *summed* the result is then a partial sum; if it is
*exchanged* the operation has a local form, in which devices ask each other for what they need (`local`); a factor that
must be *whole* is gathered first. Axes of size 1 have no factor (-1): there is nothing to split.

The axes of one factor may differ in size, as those of a convolution with a stride do, or the first of the axes that a
reshape merges and the merged one: then its *limit* says into how many parts it can be split.

Each rule is registered with the primitive's `Traits`, which say what else there is to know of it. A primitive without a
rule is gathered and runs whole, and the plan says so; it may have traits all the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..code.operations import Operation
from .traits import NOWHERE, TRAITS, Groups, Traits

Shape = tuple[int, ...]
AxisFactors = tuple[int, ...]
NONE: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True)
class Factors:
    """How the axes of one operation's operands and results belong together.

    Attributes:
        operands: for each operand the factor of each axis.
        results: for each result the factor of each axis.
        summed: factors that the operation adds up.
        exchanged: factors that are split by means of the operation's local form.
        whole: factors that cannot be split.
        limits: for some factors, a number that the number of parts must divide; the others are split into as many parts
            as their size allows.
        survivors: factors in which a split that the plain rules do not ask for may go through (elementwise and reducing
            operations: all of them, None); in the others it is dropped by gathering first (contractions, gathers).
        through: the operands whose partial sums the planner lets through: of those in which the operation is linear,
            those with which no more has to be reduced behind it.
        linear: the sets of operands in which it is linear, as its traits say.
        known: whether a rule made this, or the primitive is unknown.
    """

    operands: tuple[AxisFactors, ...]
    results: tuple[AxisFactors, ...]
    summed: frozenset[int] = frozenset()
    exchanged: frozenset[int] = frozenset()
    whole: frozenset[int] = frozenset()
    limits: Mapping[int, int] = dataclasses.field(default_factory=dict)
    survivors: frozenset[int] | None = None
    through: frozenset[int] = NONE
    linear: Groups = ()
    known: bool = True

    def survives(self, factor: int) -> bool:
        """Whether a split of a factor goes through that the plain rules do not ask for."""
        return self.survivors is None or factor in self.survivors

    def with_others(self, partial: Collection[int]) -> frozenset[int] | None:
        """The other operands that must be partial as well, or zero, for partial sums of some to go through.

        None where these must not go through: the operation is not linear in them together, or lets them not.
        """
        if self.through.issuperset(partial):
            for group in self.linear:
                if group.issuperset(partial):
                    return group.difference(partial)
        return None


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a rule may know of an operation beyond its parameters.

    Attributes:
        operands: the operands' shapes.
        results: the results' shapes.
        zeros: for each operand, whether it is known to be zero everywhere.
        uniform: for each operand, whether it is known to hold one number everywhere.
        little: whether it takes so little of its operand that this had better stay where it is (`pieces`).
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
    """Registers the rule of one or more primitives, and what they are beside."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        TRAITS.update(dict.fromkeys(names, traits))
        return function

    return register


def without_rule(*names: str, traits: Traits):
    """Registers what primitives are that run whole, for want of a rule."""
    TRAITS.update(dict.fromkeys(names, traits))


def local_params(*names: str) -> Callable[[LocalParams], LocalParams]:
    """Registers how a primitive's parameters change from global shapes to one device's shards.

    The function takes the parameters, and the operands' and results' local shapes.
    """

    def register(function: LocalParams) -> LocalParams:
        LOCAL_PARAMS.update(dict.fromkeys(names, function))
        return function

    return register


def run_whole(facts: Facts, known: bool = False) -> Factors:
    """The factors of an operation that no rule knows: nothing is shared, nothing can be split."""
    count = 0
    axes = []
    for shape in (*facts.operands, *facts.results):
        axes.append(tuple(range(count, count + len(shape))))
        count += len(shape)
    cut = len(facts.operands)
    return Factors(tuple(axes[:cut]), tuple(axes[cut:]), whole=frozenset(range(count)), survivors=NONE, known=known)


def factors_of(operation: Operation, facts: Facts) -> Factors:
    """Returns the factors of an operation, by its primitive's rule."""
    found, traits = RULES.get(operation.name), TRAITS.get(operation.name)
    made = found(operation, facts) if found else run_whole(facts)
    return _finished(made, facts, (traits.linear if traits else NOWHERE)(operation))


def _finished(factors: Factors, facts: Facts, linear: Groups) -> Factors:
    """Takes the factors off axes of size 1, and adds in which operands the operation is linear."""

    def strip(axes: tuple[AxisFactors, ...], shapes: tuple[Shape, ...]) -> tuple[AxisFactors, ...]:
        if not any([1 in shape for shape in shapes]):
            return axes
        return tuple(
            [
                tuple([f if size != 1 else -1 for f, size in zip(a, shape, strict=True)]) if 1 in shape else a
                for a, shape in zip(axes, shapes, strict=True)
            ]
        )

    return dataclasses.replace(
        factors,
        operands=strip(factors.operands, facts.operands),
        results=strip(factors.results, facts.results),
        linear=linear,
    )
