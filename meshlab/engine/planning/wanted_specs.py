"""Wanted specs say how a value will be stored, as far as its uses tell.

Where a partial sum is reduced, its wanted spec decides how: a gradient that updates a sharded weight is
reduce-scattered, one that updates a replicated weight is all-reduced. So one pass backward over the program carries the
stored specs of outputs and tags to the values that feed them, through elementwise operations and transposes. Of several
wants the one that splits most wins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..code.loops import LOOPS, carried
from ..code.operations import Block, Input, Operation
from ..programs.data import Program
from ..programs.outline import Copy, Outline
from ..rules import Factors
from ..specs.spec import Spec, split_count
from .legality import Rules

Wants = dict[int, Spec]


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The wanted specs of a program's values.

    Attributes:
        specs: by value, where it has one; of copies those of their borders.
        inside: for each copy those inside, in the numbers of the first copy; the same for copies wanted alike.
    """

    specs: Wants
    inside: dict[Copy, Wants]


def wanted_specs(program: Program, rules: Rules, sizes: Mapping[str, int], outline: Outline) -> Wanted:
    """Returns the wanted spec of each value that has one."""
    search, wants = _Search(program, rules, sizes, outline), Wants()
    for value, place in zip(program.code.block.outputs, program.outputs, strict=True):
        if isinstance(value, int):
            search.want(wants, value, rules.spec(program.names[value], place))
    search.through(program.code.block, wants)
    return Wanted(wants, search.inside)


class _Search:
    """The pass backward over one program."""

    def __init__(self, program: Program, rules: Rules, sizes: Mapping[str, int], outline: Outline):
        self.program, self.rules, self.sizes, self.outline = program, rules, sizes, outline
        self.inside: dict[Copy, Wants] = {}
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
            if isinstance(item, Copy):
                self.through_copy(item, wants)
            else:
                self.through_operation(item, wants)

    def through_copy(self, copy: Copy, wants: Wants):
        """Goes through a copy in the numbers of the first one, once for all whose borders are wanted alike."""
        model, before = copy.model, self.inside.get(copy)
        key = (model, id(before), *map(wants.get, copy.border))
        if key not in self.known:
            within = Wants(before or {})
            within.update((v, want) for v, want in zip(model.border, key[2:], strict=True) if want is not None)
            for operation in reversed(model.operations):
                self.through_operation(operation, within)
            more = [(i, within[v]) for i, v in enumerate(model.border) if v in within and within[v] is not key[2 + i]]
            self.known[key] = within, more
        self.inside[copy], more = self.known[key]
        wants.update([(copy.border[i], want) for i, want in more])

    def through_operation(self, operation: Operation, wants: Wants):
        """Carries the wanted specs of an operation's results to its operands."""
        if operation.name in LOOPS:
            self.through_loop(operation, wants)
        elif operation.blocks:
            for inside in operation.blocks:
                self.copy_wants(operation.outputs, inside.outputs, wants)
                self.through(inside, wants)
                self.copy_wants(inside.inputs, operation.inputs[: len(inside.inputs)], wants)
        elif operation.name == "tag" and operation.params["tag"] in self.rules.stored:
            spec = self.rules.spec(self.program.names[operation.outputs[0]], operation.params["tag"])
            self.want(wants, operation.inputs[0], spec)
        elif len(operation.outputs) == 1 and (want := wants.get(operation.outputs[0])) is not None:
            self.to_operands(operation, self.program.factors[operation], want, wants)

    def copy_wants(self, sources: tuple[Input, ...], targets: tuple[Input, ...], wants: Wants):
        """Wants some values in the specs that others are wanted in."""
        for source, target in zip(sources, targets, strict=True):
            if isinstance(source, int):
                self.want(wants, target, wants.get(source))

    def to_operands(self, operation: Operation, factors: Factors, want: Spec, wants: Wants):
        """Wants the operands of an elementwise operation, or of a transpose, in the spec of its result."""
        if (
            factors.survivors is not None
            or factors.summed
            or factors.exchanged
            or factors.whole
            or operation.name == "broadcast_in_dim"
        ):
            return
        split_of = dict(zip(factors.results[0], want.splits, strict=True))
        for operand, axes in zip(operation.inputs, factors.operands, strict=True):
            if axes:
                self.want(wants, operand, Spec(tuple([split_of.get(f, ()) if f >= 0 else () for f in axes])))

    def through_loop(self, operation: Operation, wants: Wants):
        """Carries the wants of a loop's results to its operands, and those of its carry round to its outputs."""
        body, count = operation.blocks[0], carried(operation)
        self.copy_wants(operation.outputs[:count], body.outputs[:count], wants)
        for outer, inner in zip(operation.outputs[count:], body.outputs[count:], strict=True):
            want = wants.get(outer) if isinstance(outer, int) else None
            self.want(wants, inner, want and Spec(want.splits[1:]))
        for _ in range(2):
            self.through(body, wants)
            self.copy_wants(body.inputs[:count], body.outputs[:count], wants)
        self.copy_wants(body.inputs[:count], operation.inputs[:count], wants)
        for outer, inner in zip(operation.inputs[count:], body.inputs[count:], strict=True):
            want = wants.get(inner)
            self.want(wants, outer, want and Spec(((), *want.splits)))
