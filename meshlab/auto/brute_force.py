"""Every layout of a search, planned: the proof of the proof.

    >>> best = planned_layouts(program, mesh)[0]        # the least traffic, by plans alone: no tables, no solver
    >>> best.value == ml.auto.layout(program, mesh).proof.value
    True

`planned_layouts` goes through the layouts of the additive objectives, `priced_layouts` through all those of time and
peak memory. It takes milliseconds for each layout, so it is for tests, and for programs with few dims.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from ..cost.workload.options import USUAL
from ..engine.api.stages import Program
from ..engine.specs.layout import LayoutLike
from ..engine.specs.mesh import Mesh
from .additive.space import Splits, space_of
from .best_first.pricer import Price, Pricer
from .best_first.recipes import recipes
from .best_first.space import roles_of
from .objective import TRAFFIC, objective_of
from .request.constraints import read_constraints


@dataclasses.dataclass(frozen=True)
class Planned:
    """A layout with what its plan costs, and the work that it leaves to one device."""

    splits: Splits
    value: float
    work: float


def planned_layouts(
    program: Program,
    mesh: Mesh,
    objective: str = TRAFFIC.name,
    pin: LayoutLike = None,
    forbid: LayoutLike = None,
) -> list[Planned]:
    """Plans every layout that `layout` compares; the arguments are the same.

    Returns:
        The layouts with their costs, the least first.
    """
    goal, layouts = objective_of(objective, mesh), []
    for splits in space_of(program, mesh.axes, read_constraints(program, mesh, pin, forbid)).splits():
        plan = program.plan(mesh, dict(splits))
        layouts.append(Planned(splits, goal.of_plan(plan, USUAL), plan.work.amount))
    if goal.slack is not None:
        most = min(p.work for p in layouts) * (1 + goal.slack)
        layouts = [p for p in layouts if p.work <= most]
    return sorted(layouts, key=lambda p: (p.value, len(p.splits), sorted(p.splits)))


def priced_layouts(
    program: Program, mesh: Mesh, pin: LayoutLike = None, forbid: LayoutLike = None, scopes: Iterable[str] = ()
) -> Iterator[Price]:
    """Yields what every layout costs that a search for time or peak memory compares, recipes first."""
    pricer = Pricer(program, mesh, USUAL)
    roles = roles_of(pricer, read_constraints(program, mesh, pin, forbid, scopes, everything=True))
    layouts = [layout for _, recipe in recipes(program, mesh) if (layout := roles.constrained(recipe)) is not None]
    for layout in dict.fromkeys((*layouts, *map(roles.layout, roles.points()))):
        price = pricer.price(layout)
        if price is not None:
            yield price
