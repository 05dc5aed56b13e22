"""The plan of a whole program: from its arguments, in the specs in which they are stored, to its outputs."""

from __future__ import annotations

from ..code.operations import Input
from ..legality.legal_rules import LegalRules
from ..programs.outline import Outline
from ..programs.program import Program
from ..programs.trained import output_names
from ..specs.spec import Grid, Spec, replicated
from .blocks import run
from .dead_moves import prune
from .planned import Planned, PlannedBlock
from .planner import Planner
from .steps import Cause


def plan_steps(program: Program, rules: LegalRules, sizes: Grid, outline: Outline) -> Planned:
    """Plans a program under legal rules: its steps, and the spec in which each value is made.

    Args:
        program: the program.
        rules: legal ones (`legality.examine`).
        sizes: the mesh axes' sizes.
        outline: the program's, or an empty one, to plan every operation for itself; the plan is the same.
    """
    planner = Planner(program, rules, sizes, outline)
    scope, outputs = plan_program(planner)
    return Planned(prune(scope.steps, outputs, program.original_of), planner.state.specs, planner.state.inside)


def plan_program(planner: Planner) -> tuple[PlannedBlock, list[tuple[Input, Spec | None]]]:
    """Plans a whole program; returns its scope, and its outputs in the specs in which they are stored."""
    program, rules, scope = planner.program, planner.rules, PlannedBlock()
    block = program.code.block
    place_of = {a.value: a.place for a in program.arguments}
    for value in block.inputs:
        names = program.names[value]
        spec = rules.spec(names, place_of[value]) if value in place_of else replicated(len(names))
        planner.arrive(scope, value, spec)
    run(planner, scope, block)
    outputs: list[tuple[Input, Spec | None]] = []
    for value, names, place in zip(block.outputs, output_names(program), program.outputs, strict=True):
        stored = rules.spec(names, place) if isinstance(value, int) else replicated(0)
        planner.obtain(value, stored, Cause("stored", place=place))
        outputs.append((value, stored))
    return scope, outputs
