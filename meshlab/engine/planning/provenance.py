"""Provenance: the dims that the moves of each value follow from, noted by the planner itself.

Without storage rules a plan sends a value because one operation makes it in one spec and another reads it in another.
Both specs follow from the layout of a few dims: those of the value itself and, where it is a partial sum, those of the
operations that it came through. So what is sent for one value is a table over the layouts of a small set of dims:

    logits [batch classes] = sum over hidden       set {batch, classes, hidden}
    the squared norms of all gradients, added up   set of all dims of parameters: they are reduced together or apart

The planner finds these sets as it plans: on a mesh that has an axis for each dim, called as the dim is, with every dim
on its own. There the axes of a spec name the dims that it follows from, and the two specs of a move all that decide
about it:

    logits [batch, classes], partial over hidden  →  [batch, classes]

That one plan stands for those of all layouts because whatever may be split, or partial, under some layout is so in it:
of sums over different dims that are added up the result is one over all of them, since two dims may be on one axis; and
an axis that propagates under one layout, and is in use under another, splits what it may split.

A set that is too large costs time. One that is too small would make the tables wrong: `ml.auto.layout` notices that in
the layout that it returns, which it plans, and of all others the tests hold the sets against plans.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..code.operations import Input, Operation
from ..programs.data import Program
from ..specs.spec import Axes, Grid, Spec
from .legality import LegalRules
from .planned import plan_program
from .planner import Planner
from .propagation import lets_through
from .scope import Scope
from .steps import Cause, Compute

Dims = frozenset[str]


def provenance(program: Program) -> dict[int, Dims]:
    """Returns, for each value that may be sent, the dims that decide how much is sent for it.

    It is of layouts with rules on dims alone, one axis each. Values that are the same array (a rename's operand and
    result) are one, under the number that the plan's moves bear.
    """
    planner = _OfAllLayouts(program)
    plan_program(planner)
    return {value: frozenset(dims) for value, dims in planner.follows.items()}


class _OfAllLayouts(Planner):
    """The planner, on a mesh that has an axis for each dim.

    Attributes:
        follows: for each value that may be sent, the dims that this follows from.
    """

    def __init__(self, program: Program):
        merged = {name: (dim,) for name, (dim, _) in program.majors.items()}
        rules = LegalRules({dim: (dim,) for dim in program.dims} | merged, {})
        super().__init__(program, rules, Grid(dict.fromkeys(program.dims, 2)), {})
        self.follows: dict[int, set[str]] = defaultdict(set)

    def note(self, value: Input, *dims: Iterable[str]):
        """Takes note of dims that decide what is sent for a value."""
        if isinstance(value, int):
            self.follows[self.original_of.get(value, value)].update(*dims)

    def own(self, *values: int) -> Dims:
        """Returns the dims of values."""
        return _axes(*(self.rules.spec(self.names[value]) for value in values))

    def arrive(self, scope: Scope, value: int, spec: Spec):
        self.note(value, self.own(value), _axes(spec))
        super().arrive(scope, value, spec)

    def move(self, scope: Scope, value: int, target: Spec, cause: Cause):
        self.note(value, _axes(self.specs[value], target))
        original = self.original_of.get(value, value)
        scope.available[original] = (*scope.available.get(original, ()), target)

    def emit(self, scope: Scope, step: Compute, cause: Cause):
        """Takes note of all that decides about a step, for what it sends, and for operands with more than own dims."""
        operation = step.operation
        read = {value: _axes(spec) for value in operation.reads if (spec := self.spec_of(value)) is not None}
        together = self.own(*operation.reads, *operation.outputs).union(
            *read.values(), _axes(*filter(None, step.operands), *step.results)
        )
        for value, axes in read.items():
            if operation.name == "rename" or not axes <= self.own(value):
                self.note(value, together)
        if self.factors[operation].per_shard:
            self.note(operation.outputs[0], together)
        super().emit(scope, step, cause)

    def rename(self, scope: Scope, operation: Operation):
        """Plans a rename like any other operation: a partial sum that it need not move goes through it."""
        self.emit(scope, self.step_of(operation), Cause("operand", operation))

    def step_of(self, operation: Operation) -> Compute:
        """Returns the step of an operation, with results that are split, and partial, over all that they may be."""
        step, factors = super().step_of(operation), self.factors[operation]
        split = self.propagating(operation)
        partial = {axis for factor in factors.summed for axis in split[factor]}
        if any(spec is not None and spec.partial for spec in step.operands):
            partial |= self.own(*operation.reads, *operation.outputs)  # what is asked for here may end it
        results = []
        for axes, spec in zip(factors.results, step.results, strict=True):
            splits = (tuple(dict.fromkeys((*own, *split[f]))) for f, own in zip(axes, spec.splits, strict=True))
            results.append(Spec(tuple(splits), tuple(sorted(partial.union(spec.partial).difference(spec.axes)))))
        return dataclasses.replace(step, results=tuple(results))

    def propagating(self, operation: Operation) -> dict[int, Axes]:
        """Returns the axes that may propagate to each factor of an operation.

        Where they are more than the rules ask for, they follow from all dims there: each may take an axis away.
        """
        factors, asked, split = self.factors[operation], dict(self.asked(operation)), defaultdict[int, Axes](tuple)
        for value, axes in zip(operation.inputs, factors.operands, strict=True):
            spec = self.spec_of(value) or self.broadcast_spec(value)
            for factor, more in zip(axes, spec.splits if spec is not None else (), strict=False):
                if factors.propagates(factor) and factor not in factors.unsharded:
                    split[factor] += more
        others = tuple(sorted(self.own(*operation.reads, *operation.outputs)))
        for factor, axes in split.items():
            if not set(axes) <= set(asked.get(factor, ())):
                split[factor] = axes + others
        return split

    def let_through(self, operation: Operation, partial: Sequence[int]) -> Axes:
        """Returns the axes over which partial sums may go through: over those of one operand, were others so too."""
        if not lets_through(operation, self.factors[operation], partial, self.is_zero):
            return ()
        specs = map(self.spec_of, operation.reads)
        return tuple(sorted({axis for spec in specs if spec is not None for axis in spec.partial}))


def _axes(*specs: Spec) -> Dims:
    return frozenset(axis for spec in specs for axis in (*spec.axes, *spec.partial))
