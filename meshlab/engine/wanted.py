"""Wanted specs: how a value will be stored, as far as its uses say.

When a partial sum must be resolved, it matters what becomes of it: a gradient that updates a weight stored split is
reduce-scattered, one that updates a whole weight is all-reduced. So one pass backward over the program carries the
stored specs of outputs and tags to the values that feed them, through elementwise operations and transposes. Of several
wants the one that splits most wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .code import Block, Input, Operation
from .legality import Rules
from .loops import LOOPS, carried
from .rules import Factors
from .spec import Spec, split_count

if TYPE_CHECKING:
    from .program import Program

Wants = dict[int, Spec]


def wanted_specs(program: Program, rules: Rules, sizes: Mapping[str, int]) -> Wants:
    """Returns the wanted spec of each value that has one."""
    wants: Wants = {}
    for value, place in zip(program.code.block.outputs, program.outputs, strict=True):
        if isinstance(value, int):
            _want(wants, value, rules.spec(program.names[value], place), sizes)
    _through(program, program.code.block, rules, sizes, wants)
    return wants


def _want(wants: Wants, value: Input, spec: Spec | None, sizes: Mapping[str, int]):
    if spec is None or not isinstance(value, int):
        return
    known = wants.get(value)
    if known is None or split_count(spec, sizes) > split_count(known, sizes):
        wants[value] = spec


def _through(program: Program, block: Block, rules: Rules, sizes: Mapping[str, int], wants: Wants):
    for operation in reversed(block.operations):
        if operation.name in LOOPS:
            _through_loop(program, operation, rules, sizes, wants)
        elif operation.blocks:
            for inside in operation.blocks:
                _hand_over(operation.outputs, inside.outputs, wants, sizes)
                _through(program, inside, rules, sizes, wants)
                _hand_over(inside.inputs, operation.inputs[: len(inside.inputs)], wants, sizes)
        elif operation.name == "tag" and operation.params["tag"] in rules.stored:
            spec = rules.spec(program.names[operation.outputs[0]], operation.params["tag"])
            _want(wants, operation.inputs[0], spec, sizes)
        elif len(operation.outputs) == 1 and (want := wants.get(operation.outputs[0])) is not None:
            _to_operands(operation, program.factors[operation], want, sizes, wants)


def _hand_over(sources: tuple[Input, ...], targets: tuple[Input, ...], wants: Wants, sizes: Mapping[str, int]):
    for source, target in zip(sources, targets, strict=True):
        if isinstance(source, int):
            _want(wants, target, wants.get(source), sizes)


def _to_operands(operation: Operation, factors: Factors, want: Spec, sizes: Mapping[str, int], wants: Wants):
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
            _want(wants, operand, Spec(tuple(split_of.get(f, ()) if f >= 0 else () for f in axes)), sizes)


def _through_loop(program: Program, operation: Operation, rules: Rules, sizes: Mapping[str, int], wants: Wants):
    """Carries go round: what the body wants of its input it also wants of the output that becomes it."""
    body, count = operation.blocks[0], carried(operation)
    _hand_over(operation.outputs[:count], body.outputs[:count], wants, sizes)
    for outer, inner in zip(operation.outputs[count:], body.outputs[count:], strict=True):
        want = wants.get(outer)
        _want(wants, inner, want and Spec(want.splits[1:]), sizes)
    for _ in range(2):
        _through(program, body, rules, sizes, wants)
        _hand_over(body.inputs[:count], body.outputs[:count], wants, sizes)
    _hand_over(body.inputs[:count], operation.inputs[:count], wants, sizes)
    for outer, inner in zip(operation.inputs[count:], body.inputs[count:], strict=True):
        want = wants.get(inner)
        _want(wants, outer, want and Spec(((), *want.splits)), sizes)
