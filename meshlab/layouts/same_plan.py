"""Sameness of layouts: two of one program and mesh are the same if their plans are, however they are written.

    same_plan(program, mesh, "params/*: embed:data", "params/w1: embed:data · params/w2: embed:data")    True

Plans follow from the rules that hold for each dim, in each scope and at each place; where these are equal, nothing is
planned. A rule that says nothing new (of a dim that nothing computes, say) makes no other plan either: then both are
planned, and every spec and every step is compared. What is stored otherwise is another plan at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..api.stages import make_plan
from ..engine.legality.examine import resolve
from ..engine.legality.legal_rules import LegalRules
from ..engine.planning.shared_steps import counted
from ..engine.planning.step import Step
from ..engine.programs.program import Program
from ..engine.programs.scoped import scopes
from ..engine.programs.trained import output_names
from ..engine.programs.zigzagged import zigzags
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import AxesByDim, Spec


def same_plan(program: Program, mesh: Mesh, one: Layout, other: Layout, pad: bool | None = None) -> bool:
    """Says whether two legal layouts have the same plan.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        one: a layout.
        other: another one.
        pad: as of `Program.plan`.

    Raises:
        LayoutError: one of them is not legal.
    """
    if set(zigzags(program, one)) != set(zigzags(program, other)):
        return False
    first, second = (resolve(program, mesh, layout, pad) for layout in (one, other))
    if stored(program, first) != stored(program, second) or first.padded != second.padded:
        return False
    if _computed(program, first) == _computed(program, second) and _tags(program, first) == _tags(program, second):
        return True
    plans = [make_plan(program, mesh, layout, pad) for layout in (one, other)]  # pyright: ignore[reportArgumentType]
    return plans[0].program is plans[1].program and _said(plans[0]) == _said(plans[1])


def stored(program: Program, rules: LegalRules) -> dict[str, Spec]:
    """Returns how arguments and outputs are stored, by place."""
    outputs = zip(program.outputs, output_names(program), strict=True)
    names = {place: own for place, own in outputs} | {a.place: program.names[a.value] for a in program.arguments}
    return {place: rules.spec(own, place) for place, own in names.items()}


def _tags(program: Program, rules: LegalRules) -> dict[tuple[str, int], Spec]:
    """Returns how what is marked inside, tags and gradients, is stored."""
    values = [(place, operation.outputs[0]) for place, operations in program.marks.items() for operation in operations]
    return {(place, value): rules.spec(program.names[value], place) for place, value in values}


def _computed(program: Program, rules: LegalRules) -> list[AxesByDim]:
    """Returns the compute rules that shard something, without a scope and in each."""
    every = (rules.compute, *(rules.within(scope) for scope in scopes(program)))
    return [{dim: axes for dim, axes in each.items() if axes} for each in every]


def _said(plan: Any) -> tuple[Any, ...]:
    """Returns what a plan says of every value and every step."""
    return plan.producer_specs, list(_steps(plan.planned.steps))


def _steps(steps: Any) -> Iterator[tuple[Any, int]]:
    for step, times in counted(steps):
        yield (_outside(step) if step.parts else step), times


def _outside(step: Step) -> tuple[Any, ...]:
    """Returns what a step says beside the steps inside it, which come by themselves."""
    return type(step), getattr(step, "operation", None)
