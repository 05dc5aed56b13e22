"""Holds that nothing is sent over a mesh axis: an assertion about a layout, for tests and CI.

plan.assert_silent("model")                 in Python
meshlab plan step.py --silent model         on a command line: the exit status is 1 where something is sent
"""

from __future__ import annotations

from collections.abc import Iterable

from ..cost.machines.units import bytes_text
from ..engine.errors import LayoutError, MeshError, closest, listed, numbered, shown
from ..engine.plans.collectives import Collective
from ..engine.plans.plan_data import Plan


def assert_silent(plan: Plan, axes: Iterable[str]) -> None:
    """Refuses a plan that sends anything over some mesh axes; see `Plan.assert_silent`."""
    axes = tuple(axes)
    _check(plan, axes)
    loud = [c for c in plan.collectives if not set(c.axes).isdisjoint(axes)]
    if loud:
        total = bytes_text(sum(c.wire_bytes * c.times for c in loud))
        over = " and ".join(f"`{axis}`" for axis in axes if any(axis in c.axes for c in loud))
        raise LayoutError(
            f"The layout {shown(str(plan.layout))} sends {total} over {over} in a step, which must stay silent:\n"
            f"{numbered([_line(c) for c in sorted(loud, key=lambda c: -c.wire_bytes * c.times)])}"
        )


def _check(plan: Plan, axes: tuple[str, ...]):
    """Refuses what is no axis of devices of the plan's mesh."""
    there = plan.mesh.devices.axes
    unknown = [axis for axis in axes if axis not in there]
    if unknown:
        raise MeshError(
            f"The mesh {plan.mesh} has no axis of devices {listed(map(str, unknown))}."
            f"{closest(str(unknown[0]), there)} It has {listed(there)}."
        )
    if not axes:
        raise MeshError('Name the mesh axes that must stay silent: plan.assert_silent("model").')


def _line(collective: Collective) -> str:
    often = f" × {collective.times:,}" if collective.times > 1 else ""
    where = f" at {collective.source}" if collective.source else ""
    sent = bytes_text(collective.wire_bytes * collective.times)
    over = "+".join(collective.axes)
    return f"{sent}: {collective.kind}{often} of {collective.value} over {over}{where}. {collective.because}"
