"""Values that leave their scope: made under one set of rules, read under another.

    {"batch": "data", "@lookup": {"users": "data", "batch": None}}

    rows = take(table, ids)      in `@lookup`: partial over `data`, for each device has a part of the users
    ml.relu(rows)                outside: reads `batch` split over `data`

A partial sum that leaves its scope is reduced to the spec in which its reader wants it: here it is reduce-scattered.
That spec is its target spec, and goes no further back: inside, other rules hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..code.operations import Operation, walk
from ..legality.legal_rules import LegalRules
from ..programs.program import Program
from ..specs.spec import Axes, Spec, split_count
from .propagation import entering


def leaving_specs(program: Program, rules: LegalRules, sizes: Mapping[str, int]) -> dict[int, Spec]:
    """Returns for each value that leaves its scope the spec in which it is read there; of several the most split.

    Args:
        program: the program, as the layout sees it.
        rules: the layout's; without rules by scope no value leaves one.
        sizes: the mesh axes' sizes.
    """
    leaving: dict[int, Spec] = {}
    if not rules.scopes:
        return leaving

    def note(value: int, spec: Spec):
        known = leaving.get(value)
        if known is None or split_count(spec, sizes) > split_count(known, sizes):
            leaving[value] = spec

    operations = list(walk(program.code.block))
    for operation in operations:
        if not operation.blocks and operation.name != "add_any":
            for position, value in enumerate(operation.inputs):
                if isinstance(value, int) and _crosses(program, rules, value, operation):
                    note(value, _read(program, rules, operation, position))
    for operation in reversed(operations):  # what is read inside a block comes from outside
        for block in operation.blocks:
            for outer, inner, stacked in entering(operation, block):
                if inner in leaving and isinstance(outer, int):
                    note(outer, Spec(((), *leaving[inner].splits)) if stacked else leaving[inner])
    return leaving


def _crosses(program: Program, rules: LegalRules, value: int, reader: Operation) -> bool:
    """Says whether a value is made under other rules for one of its dims than it is read under."""
    there = rules.within(reader.scope)
    return any(
        made_under is not there and any(made_under.get(n, ()) != there.get(n, ()) for n in program.names[value] if n)
        for made_under in _rules_of_maker(program, rules, value)
    )


def _rules_of_maker(program: Program, rules: LegalRules, value: int) -> Iterator[Mapping[str, Axes]]:
    """Yields the rules under which a value is computed: none for arguments, and for sums of cotangents."""
    value = program.outermost(value)
    while value in program.insides:
        value = program.insides[value]
    maker = program.makers.get(value)
    if maker is not None and maker.name != "add_any":
        yield rules.within(maker.scope)


def _read(program: Program, rules: LegalRules, reader: Operation, position: int) -> Spec:
    """Returns the spec in which the rules ask for an operand."""
    there, factors = rules.within(reader.scope), program.factors[reader]
    axes = factors.results[0] if reader.name == "rename" else factors.operands[position]
    dims, used = dict(program.factor_dims[reader]), set[str]()
    splits = []
    whole = factors.unsharded.union(factors.minors.values())
    for factor in axes:
        split = there.get(dims.get(factor, ""), ()) if factor not in whole else ()
        splits.append(split if used.isdisjoint(split) else ())
        used.update(splits[-1])
    return Spec(tuple(splits))
