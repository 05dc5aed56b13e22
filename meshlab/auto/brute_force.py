"""Every legal layout, planned: the proof of the proof.

    >>> best = planned_layouts(program, mesh)[0]        # the least traffic, by plans alone: no tables, no solver
    >>> best.value == ml.auto.layout(program, mesh).proof.value
    True

It takes milliseconds for each layout, so it is for tests, and for programs with few dims.
"""

from __future__ import annotations

import dataclasses

from ..engine.api.stages import Program
from ..engine.specs.layout import LayoutLike
from ..engine.specs.mesh import Mesh
from .constraints import read_wishes
from .mesh_tf_ledger import planned_peak
from .space import Splits, space_of
from .work import SLACK, work_of


@dataclasses.dataclass(frozen=True)
class Planned:
    """A layout with what its plan costs in bytes, and the work that it leaves to one device."""

    splits: Splits
    value: float
    work: float


def planned_layouts(
    program: Program,
    mesh: Mesh,
    objective: str = "traffic",
    pin: LayoutLike = None,
    forbid: LayoutLike = None,
) -> list[Planned]:
    """Plans every layout that `layout` compares; the arguments are the same.

    Returns:
        The layouts with their costs, the least first.
    """
    wishes = read_wishes(program, mesh, pin, forbid)
    space = space_of(program, mesh.axes, wishes.pinned, wishes.forbidden, wishes.whole)
    found = []
    for splits in space.splits():
        plan = program.plan(mesh, dict(splits))
        value = plan.wire_bytes if objective == "traffic" else planned_peak(plan)
        found.append(Planned(splits, value, work_of(plan)))
    if objective == "traffic":
        most = min(p.work for p in found) * (1 + SLACK)
        found = [p for p in found if p.work <= most]
    return sorted(found, key=lambda p: (p.value, len(p.splits), sorted(p.splits)))
