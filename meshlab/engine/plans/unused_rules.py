"""Finds the rules at tags that have no effect: the value is never stored as they say.

    residual: seq:tp      made as [·, ·, tp], and all that reads it wants [·, ·, tp]

The move to [·, tp, ·] is dead then, and `planning/dead_moves.py` has taken it out of the plan: nothing would be gained
by it. But whoever wrote the rule meant something by it, and must hear of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import some
from ..planning.shared_steps import each_once
from ..planning.step_keys import Key, keys
from ..specs.in_time import without
from ..specs.spec import Spec
from .plan_data import Plan


def without_effect(plan: Plan) -> Iterator[str]:
    """Warns of each tag with a rule of its own at whose line no value is stored so."""
    stored = _stored(plan)
    known = {value for value, _ in stored}
    program = plan.program
    for tag, operations in program.marks.items():
        if tag not in plan.rules.storage:
            continue
        kept: dict[str, bool] = {}
        wanted: dict[str, Spec] = {}
        for operation in operations:
            value = operation.outputs[0]
            names, original = program.names[value], program.original_of.get(value, value)
            spec = plan.rules.spec(names, tag)
            # A rule that says no more than those of computing may be followed anywhere.
            if original in known and spec != plan.rules.spec(names):
                line = str(operation.source or "an unknown line")
                wanted[line] = _among_devices(plan, spec)
                kept[line] = kept.get(line, False) or (original, wanted[line]) in stored
        if lines := [line for line, is_kept in kept.items() if not is_kept]:
            yield (
                f"⚠ The rule at `{tag}` has no effect at {some(lines, 3)}: nothing reads the value there as"
                f" {wanted[lines[0]]}, so it is not resharded."
            )


def _stored(plan: Plan) -> set[Key]:
    """Returns each value, by its original's number, with each spec that devices hold it in."""
    program = plan.program
    found = {(program.original_of.get(v, v), spec) for v, spec in plan.argument_specs.items()}
    for step, *_ in each_once(plan.planned.steps):
        found.update(step.makes(program.original_of))
        for part in step.parts:
            found.update(keys(*part.given, program.original_of))
            found.update(keys(*part.returned, program.original_of))
    return {(value, _among_devices(plan, spec)) for value, spec in found}


def _among_devices(plan: Plan, spec: Spec) -> Spec:
    for axis in plan.mesh.in_time:
        spec = without(spec, axis)
    return spec
