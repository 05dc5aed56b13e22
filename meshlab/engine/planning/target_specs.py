"""Target specs say how values will be stored, as far as their uses tell.

Where a partial sum is reduced, its target spec decides how: a gradient that updates a sharded weight is
reduce-scattered, one that updates a replicated weight is all-reduced. So one pass backward over the program carries the
stored specs of outputs and tags to the values that feed them, through elementwise operations and transposes. Of several
targets the one that splits most wins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..code.loops import LOOPS
from ..code.operations import Block, Input, Operation
from ..legality.legal_rules import LegalRules
from ..programs.outline import Outline, Repetition
from ..programs.program import Program
from ..programs.trained import output_names
from ..rules import Factors
from ..specs.spec import Spec, split_count
from .crossings import leaving_specs
from .propagation import bodies, entering, going_round, leaving, passes_targets_on

Targets = dict[int, Spec]


@dataclasses.dataclass(frozen=True)
class TargetSpecs:
    """The target specs of a program's values.

    Attributes:
        specs: by value, where it has one; of repetitions those of their interfaces.
        inside: for each repetition those inside, in the numbers of the representative; shared where targets are equal.
    """

    specs: Targets
    inside: dict[Repetition, Targets]


def target_specs(program: Program, rules: LegalRules, sizes: Mapping[str, int], outline: Outline) -> TargetSpecs:
    search = _Search(program, rules, sizes, outline)
    targets = dict(search.leaving)
    stored = zip(program.code.block.outputs, output_names(program), program.outputs, strict=True)
    for value, names, place in stored:
        if isinstance(value, int):
            search.note(targets, value, rules.spec(names, place), stored=True)
    search.through(program.code.block, targets)
    return TargetSpecs(targets, search.inside)


class _Search:
    """The pass backward over one program."""

    def __init__(self, program: Program, rules: LegalRules, sizes: Mapping[str, int], outline: Outline):
        self.program, self.rules, self.sizes, self.outline = program, rules, sizes, outline
        self.inside: dict[Repetition, Targets] = {}
        self.leaving, self.interface = leaving_specs(program, rules, sizes), dict[int, bool]()
        self.known: dict[tuple, tuple[Targets, list[tuple[int, Spec]]]] = {}

    def note(self, targets: Targets, value: Input, spec: Spec | None, stored: bool = False):
        """Takes note of a target spec of a value; one that leaves its scope has that of its readers, or is stored."""
        if spec is None or not isinstance(value, int) or (self.leaves(value) and not stored):
            return
        known = targets.get(value)
        if known is None or (spec != known and split_count(spec, self.sizes) > split_count(known, self.sizes)):
            targets[value] = spec

    def leaves(self, value: int) -> bool:
        """Says whether a value leaves its scope; of a representative's interface, whether the repetition's does."""
        return self.interface.get(value, value in self.leaving)

    def through(self, block: Block, targets: Targets):
        """Goes through a block from its end."""
        for item in reversed(self.outline.get(block, block.operations)):
            if isinstance(item, Repetition):
                self.through_repetition(item, targets)
            else:
                self.through_operation(item, targets)

    def through_repetition(self, repetition: Repetition, targets: Targets):
        """Goes through the representative, once for all repetitions whose interfaces have equal targets."""
        first, before = repetition.representative, self.inside.get(repetition)
        given = tuple(map(targets.get, repetition.interface))
        leaves = tuple(map(self.leaves, repetition.interface)) if self.leaving else ()
        key = (first, id(before), leaves, given)
        if key not in self.known:
            within = Targets(before or {v: self.leaving[v] for v in first.produced if v in self.leaving})
            within.update((v, target) for v, target in zip(first.interface, given, strict=True) if target is not None)
            outside, self.interface = self.interface, self.interface | dict(zip(first.interface, leaves, strict=False))
            for operation in reversed(first.operations):
                self.through_operation(operation, within)
            self.interface = outside
            more = [(i, t) for i, v in enumerate(first.interface) if (t := within.get(v)) and t is not given[i]]
            self.known[key] = within, more
        self.inside[repetition], more = self.known[key]
        targets.update([(repetition.interface[i], target) for i, target in more])

    def through_operation(self, operation: Operation, targets: Targets):
        """Goes from the target specs of an operation's results to those of its operands."""
        if operation.blocks:
            self.through_nested(operation, targets)
        elif operation.name == "tag" and operation.params["tag"] in self.rules.storage:
            spec = self.rules.spec(self.program.names[operation.outputs[0]], operation.params["tag"])
            self.note(targets, operation.inputs[0], spec)
        elif (target := targets.get(operation.outputs[0])) is None:
            return
        elif len(operation.outputs) == 1 and not self.leaves(operation.outputs[0]):
            factors = self.program.factors[operation]
            if passes_targets_on(operation, factors):
                self.to_operands(operation, factors, target, targets)

    def passing(self, value: int, targets: Targets) -> Spec | None:
        """Returns the target spec that passes from a value to those that it is made of."""
        return None if self.leaves(value) else targets.get(value)

    def to_operands(self, operation: Operation, factors: Factors, target: Spec, targets: Targets):
        """Gives the operands of an elementwise operation, a transpose or a rename the target spec of its result."""
        split_of = dict(zip(factors.results[0], target.splits, strict=True))
        # A rename is the same array.
        read = factors.results if operation.name == "rename" else factors.operands
        for operand, axes in zip(operation.inputs, read, strict=True):
            if axes:
                self.note(targets, operand, Spec(tuple([split_of.get(f, ()) if f >= 0 else () for f in axes])))

    def through_nested(self, operation: Operation, targets: Targets):
        """Goes from the results into blocks, through them (loops twice: carries go round), and out to the operands."""
        for block in bodies(operation):
            for outer, inner, stacked in leaving(operation, block):
                target = self.passing(outer, targets)
                self.note(targets, inner, Spec(target.splits[1:]) if target and stacked else target)
            for _ in range(2 if operation.name in LOOPS else 1):
                self.through(block, targets)
                for start, after in going_round(operation, block):
                    self.note(targets, after, targets.get(start))
            for outer, inner, stacked in entering(operation, block):
                target = targets.get(inner)
                self.note(targets, outer, Spec(((), *target.splits)) if target and stacked else target)
