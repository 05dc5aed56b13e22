"""Every layout of a search, planned: the proof of the proof.

    >>> best = planned_layouts(program, mesh)[0]        # the fewest live bytes, by plans alone: no solver
    >>> best.value == ml.auto.layout(program, mesh, objective="live").proof.value
    True

`planned_layouts` goes through the layouts of the additive objective, `priced_layouts` through all those of the others.
It takes milliseconds for each layout, so it is for tests, and for programs with few dims.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from ..api.stages import Program
from ..cost.workload.options import USUAL
from ..engine.specs.layout import LayoutLike
from ..engine.specs.mesh import Mesh
from .additive.choices import Splits, space_of
from .best_first.contexts import beginnings
from .best_first.pricer import LayoutPrice, Pricer
from .best_first.space import search_space
from .objective import LIVE, objective_of
from .request.constraints import read_constraints


@dataclasses.dataclass(frozen=True)
class Enumerated:
    """A layout with what its plan costs."""

    splits: Splits
    value: float


def planned_layouts(
    program: Program,
    mesh: Mesh,
    objective: str = LIVE.name,
    pin: LayoutLike = None,
    forbid: LayoutLike = None,
) -> list[Enumerated]:
    """Plans every layout that `layout` compares; the arguments are the same.

    Returns:
        The layouts with their costs, the least first.
    """
    goal, layouts = objective_of(objective, mesh), []
    for splits in space_of(program, mesh.axes, read_constraints(program, mesh, pin, forbid)).splits():
        plan = program.plan(mesh, dict(splits))
        layouts.append(Enumerated(splits, goal.of_plan(plan, USUAL)))
    return sorted(layouts, key=lambda p: (p.value, len(p.splits), sorted(p.splits)))


def priced_layouts(
    program: Program, mesh: Mesh, pin: LayoutLike = None, forbid: LayoutLike = None, scopes: Iterable[str] = ()
) -> Iterator[LayoutPrice]:
    """Yields what every layout costs that a search for time, peak memory or traffic compares, recipes first."""
    pricer = Pricer(program, mesh, USUAL)
    space = search_space(pricer, read_constraints(program, mesh, pin, forbid, scopes, everything=True))
    for layout in dict.fromkeys((*beginnings(space, mesh), *map(space.layout, space.points()))):
        price = pricer.price(layout)
        if price is not None:
            yield price
