"""Refuses a layout with all its problems at once, those that only dividing a plan finds included.

    "batch:micro" of a step with a sort of the batch, and a batch norm

    `sort` at step.py:4 needs all of `batch` at once              dims tell it, before anything is planned
    `sub` at step.py:7 needs in each iteration over `micro` …     dividing the plan by `micro` tells it

A plan can be made as long as nothing else is wrong than what needs a dim whole, or with another number of iterations,
where this one does not divide: why an iteration cannot run alone does not depend on how many there are. Else the error
says that more may follow.
"""

from __future__ import annotations

import math

from ..errors import listed
from ..legality.asked import as_asked
from ..legality.examine import Verdict, examine
from ..legality.legal_rules import LegalRules
from ..legality.refusal import refuse
from ..planning.plan_steps import plan_steps
from ..programs.outline import outline
from ..programs.program import Program
from ..programs.scoped import scoped
from ..specs.in_time import minus
from ..specs.layout import Layout
from ..specs.mesh import Mesh
from .iterations import divide
from .plan_data import Plan


def refuse_all(program: Program, mesh: Mesh, layout: Layout, verdict: Verdict, pad: bool | None):
    """Refuses a layout that is not legal: lists the verdict's problems, and those that dividing its plan finds."""
    on, found = mesh, verdict
    if found.rules is None and (fits := _fitting(program, mesh, layout)) is not None:
        on, found = fits, examine(program, fits, layout, pad)
    if found.rules is not None:
        more = divide(_plan(program, on, layout, found.rules), found.whole)[1] if found.rules.in_time else ()
        refuse(mesh, layout, (*verdict.problems, *more))
    refuse(mesh, layout, verdict.problems, _more_may_follow(mesh, layout))


def _plan(program: Program, mesh: Mesh, layout: Layout, rules: LegalRules) -> Plan:
    """Plans what is refused, its axis in time taken for one of devices."""
    program, grid = scoped(as_asked(program, mesh, layout), mesh, layout), rules.grid(mesh)
    return Plan(program, mesh, layout, rules, plan_steps(program, rules, grid, outline(program)))


def _more_may_follow(mesh: Mesh, layout: Layout) -> str:
    """Says that dividing a plan may find more problems; "" where there is no axis in time to divide it by."""
    used = [axis for axis in mesh.in_time if any(axis in axes for _, axes in _rules(layout))]
    needs = f"dependencies between blocks of {listed(used)} are checked once these are fixed"
    return f"There may be more: {needs}." if used else ""


def _rules(layout: Layout) -> list[tuple[str, tuple[str, ...]]]:
    return [rule for rules in (layout.rules, *layout.scopes.values()) for rule in rules.items()]


def _fitting(program: Program, mesh: Mesh, layout: Layout) -> Mesh | None:
    """Returns the mesh with numbers of iterations that divide all dims on axes in time; None where there are none."""
    sizes = {}
    for axis in mesh.in_time:
        blocks = 0
        for dim, axes in _rules(layout):
            if axis in axes and (size := program.dims.get(dim.removesuffix("?"))):
                each, rest = divmod(size, math.prod(mesh.axes.get(other, 1) for other in minus(axes, (axis,))))
                blocks = math.gcd(blocks, 1 if rest else each)
        if blocks == 1:
            return None
        sizes[axis] = next((n for n in range(2, blocks + 1) if blocks % n == 0), mesh.axes[axis])
    return mesh.resized(sizes) if sizes else None
