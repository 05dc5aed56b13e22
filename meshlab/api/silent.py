"""Holds that nothing is sent over a mesh axis: an assertion about a layout, for tests and CI.

plan.assert_silent("model")                 in Python
meshlab plan step.py --silent model         on a command line: the exit status is 1 where something is sent
"""

from __future__ import annotations

from collections.abc import Iterable

from ..cost.machines.units import bytes_text
from ..engine.errors import LayoutError, MeshError, closest, listed, numbered, shown
from ..engine.plans.collective import Collective
from ..engine.plans.plan_data import Plan
from ..engine.specs.mesh import Mesh


def assert_silent(plan: Plan, axes: Iterable[str]) -> None:
    """Refuses a plan that sends anything over some mesh axes; see `Plan.assert_silent`."""
    axes = tuple(axes)
    problem = axes_problem(plan.mesh, axes)
    if problem or not axes:
        raise MeshError(problem or 'Name the mesh axes that must stay silent: plan.assert_silent("model").')
    if loud := sent_over(plan, axes):
        total = bytes_text(sum(c.wire_bytes * c.times for c in loud))
        over = " and ".join(f"`{axis}`" for axis in axes if any(axis in c.axes for c in loud))
        raise LayoutError(
            f"The layout {shown(str(plan.layout))} sends {total} over {over} in a step, which must stay silent:\n"
            f"{numbered([line_of(c) for c in loud])}"
        )


def sent_over(plan: Plan, axes: Iterable[str]) -> list[Collective]:
    """Returns the collectives of a plan over any of some mesh axes, those that send most first."""
    loud = [c for c in plan.collectives if not set(c.axes).isdisjoint(axes)]
    return sorted(loud, key=lambda c: -c.wire_bytes * c.times)


def axes_problem(mesh: Mesh, axes: Iterable[str]) -> str:
    """Says which of some names are no axes of devices of a mesh; "" where all are."""
    there = mesh.devices.axes
    unknown = [str(axis) for axis in axes if axis not in there]
    if not unknown:
        return ""
    return (
        f"The mesh {mesh} has no axis of devices {listed(unknown)}.{closest(unknown[0], there)} It has {listed(there)}."
    )


def line_of(collective: Collective) -> str:
    """Says of a collective what it sends, where, and why."""
    often = f" × {collective.times:,}" if collective.times > 1 else ""
    where = f" at {collective.source}" if collective.source else ""
    sent = bytes_text(collective.wire_bytes * collective.times)
    over = "+".join(collective.axes)
    return f"{sent}: {collective.kind}{often} of {collective.value} over {over}{where}. {collective.because}"
