"""Wanted specs say how a value will be stored, as far as its uses tell.

Where a partial sum is reduced, its wanted spec decides how: a gradient that updates a sharded weight is
reduce-scattered, one that updates a replicated weight is all-reduced. So one pass backward over the program carries the
stored specs of outputs and tags to the values that feed them, through elementwise operations and transposes. Of several
wants the one that splits most wins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..code.loops import LOOPS
from ..code.operations import Block, Input, Operation
from ..programs.data import Program
from ..programs.outline import Outline, Repetition
from ..rules import Factors
from ..specs.spec import Spec, split_count
from .legality import LegalRules
from .propagation import bodies, entering, going_round, hands_wants_on, leaving

Wants = dict[int, Spec]


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The wanted specs of a program's values.

    Attributes:
        specs: by value, where it has one; of repetitions those of their interfaces.
        inside: for each repetition those inside, in the numbers of the representative; shared where wanted alike.
    """

    specs: Wants
    inside: dict[Repetition, Wants]


def wanted_specs(program: Program, rules: LegalRules, sizes: Mapping[str, int], outline: Outline) -> Wanted:
    """Returns the wanted spec of each value that has one."""
    search, wants = _Search(program, rules, sizes, outline), Wants()
    for value, place in zip(program.code.block.outputs, program.outputs, strict=True):
        if isinstance(value, int):
            search.want(wants, value, rules.spec(program.names[value], place))
    search.through(program.code.block, wants)
    return Wanted(wants, search.inside)


class _Search:
    """The pass backward over one program."""

    def __init__(self, program: Program, rules: LegalRules, sizes: Mapping[str, int], outline: Outline):
        self.program, self.rules, self.sizes, self.outline = program, rules, sizes, outline
        self.inside: dict[Repetition, Wants] = {}
        self.known: dict[tuple, tuple[Wants, list[tuple[int, Spec]]]] = {}

    def want(self, wants: Wants, value: Input, spec: Spec | None):
        """Takes note that a value is wanted in a spec."""
        if spec is None or not isinstance(value, int):
            return
        known = wants.get(value)
        if known is None or (spec != known and split_count(spec, self.sizes) > split_count(known, self.sizes)):
            wants[value] = spec

    def through(self, block: Block, wants: Wants):
        """Goes through a block from its end."""
        for item in reversed(self.outline.get(block, block.operations)):
            if isinstance(item, Repetition):
                self.through_repetition(item, wants)
            else:
                self.through_operation(item, wants)

    def through_repetition(self, repetition: Repetition, wants: Wants):
        """Goes through the representative, once for all repetitions whose interfaces are wanted alike."""
        first, before = repetition.representative, self.inside.get(repetition)
        key = (first, id(before), *map(wants.get, repetition.interface))
        if key not in self.known:
            within = Wants(before or {})
            within.update((v, want) for v, want in zip(first.interface, key[2:], strict=True) if want is not None)
            for operation in reversed(first.operations):
                self.through_operation(operation, within)
            more = [(i, w) for i, v in enumerate(first.interface) if (w := within.get(v)) and w is not key[2 + i]]
            self.known[key] = within, more
        self.inside[repetition], more = self.known[key]
        wants.update([(repetition.interface[i], want) for i, want in more])

    def through_operation(self, operation: Operation, wants: Wants):
        """From what an operation's results are wanted in to what its operands are."""
        if operation.blocks:
            self.through_nested(operation, wants)
        elif operation.name == "tag" and operation.params["tag"] in self.rules.storage:
            spec = self.rules.spec(self.program.names[operation.outputs[0]], operation.params["tag"])
            self.want(wants, operation.inputs[0], spec)
        elif len(operation.outputs) == 1 and (want := wants.get(operation.outputs[0])) is not None:
            factors = self.program.factors[operation]
            if hands_wants_on(operation, factors):
                self.to_operands(operation, factors, want, wants)

    def to_operands(self, operation: Operation, factors: Factors, want: Spec, wants: Wants):
        """Wants the operands of an elementwise operation, or of a transpose, in the spec of its result."""
        split_of = dict(zip(factors.results[0], want.splits, strict=True))
        for operand, axes in zip(operation.inputs, factors.operands, strict=True):
            if axes:
                self.want(wants, operand, Spec(tuple([split_of.get(f, ()) if f >= 0 else () for f in axes])))

    def through_nested(self, operation: Operation, wants: Wants):
        """From the results into blocks, through them (loops twice, since carries go round), and out to the operands."""
        for block in bodies(operation):
            for outer, inner, stacked in leaving(operation, block):
                want = wants.get(outer)
                self.want(wants, inner, Spec(want.splits[1:]) if want and stacked else want)
            for _ in range(2 if operation.name in LOOPS else 1):
                self.through(block, wants)
                for start, after in going_round(operation, block):
                    self.want(wants, after, wants.get(start))
            for outer, inner, stacked in entering(operation, block):
                want = wants.get(inner)
                self.want(wants, outer, Spec(((), *want.splits)) if want and stacked else want)
