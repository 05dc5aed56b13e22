"""Joins the events of a run to the steps of a plan: which step each device spent its time on.

    shares = joined(plan, made, events)
    shares[0]                   device 0 computed step 12 from 0.00012 s on, for 0.00004 s
    seconds(shares)             those of one device, where it does several things at once: of their union

An event of several steps, a fusion or collectives that XLA combined, is divided: a fusion equally, collectives by their
bytes. Events of loops and branches are left out, for they contain those of what is inside.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..engine.plans.collective import Collective
from ..engine.plans.plan_data import Plan
from ..engine.specs.mesh import groups_of
from ..engine.specs.spec import Axes
from ..engine.verifying.hlo import HloCollective, read_collectives
from .numbered import Numbered
from .owners import Owners
from .recorded import Event
from .waits import waiting

COMPUTE = "compute"


class Share(NamedTuple):
    """What a step has of an event.

    Attributes:
        step: its number; None where no scope says so, and none is near.
        kind: "compute", or the kind of a collective.
        axes: the mesh axes of a collective.
        device: its position in the mesh.
        begin: when it begins, waiting included.
        end: when it ends.
        waiting: seconds from the beginning on in which the device waits for others to come to a collective.
        part: the part of the event that is the step's.
        op: the instruction of the compiled program.
        named: whether the instruction's own name says so.
    """

    step: int | None
    kind: str
    axes: Axes
    device: int
    begin: float
    end: float
    waiting: float
    part: float
    op: str
    named: bool


def joined(plan: Plan, made: Numbered, events: Sequence[Event]) -> list[Share]:
    """Returns the shares of a run's events, in the order in which they begin."""
    text, axes = made.text, plan.mesh.devices.axes
    owners = Owners(text)
    places = {device.local_hardware_id: place for place, device in enumerate(made.devices)}
    events = [e._replace(device=places[e.device]) for e in events if e.device in places and e.op in owners]
    seen = {event.op for event in events}
    known: dict[str, HloCollective] = {}
    for collective in read_collectives(text, axes, unknown_trips=1):
        known.setdefault(collective.name, collective)
    by_op: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_op[event.op].append(event)
    shares: list[Share] = []
    for op, each in by_op.items():
        if owners.is_around(op, seen):
            continue
        steps, named = owners.of(op)
        sent, waits = known.get(op), dict[Event, float]()
        if sent is not None:
            waits = waiting(each, groups_of(plan.mesh, tuple(axes) if sent.axes is None else sent.axes).tolist())
        parts = _parts(plan, made, steps, sent)
        for event in each:
            for step, (kind, along, part) in parts.items():
                times = event.begin, event.end, waits.get(event, 0.0)
                shares.append(Share(step, kind, along, event.device, *times, part, op, named))
    return sorted(shares, key=lambda share: share.begin)


def _parts(
    plan: Plan, made: Numbered, steps: Sequence[int], sent: HloCollective | None
) -> dict[int | None, tuple[str, Axes, float]]:
    """Returns what each step has of an instruction: its kind, its mesh axes, and which part of its time."""
    kind, axes = (COMPUTE, ()) if sent is None else (sent.kind, sent.axes or ())
    if not steps:
        return {None: (kind, axes, 1.0)}
    planned = {step: None if sent is None else planned_as(plan, made, step, sent) for step in steps}
    total = sum(c.payload_bytes for c in planned.values() if c is not None)
    return {
        step: (kind, axes, 1 / len(steps)) if c is None or not total else (c.kind, c.axes, c.payload_bytes / total)
        for step, c in planned.items()
    }


def planned_as(plan: Plan, made: Numbered, step: int, sent: HloCollective) -> Collective | None:
    """Returns the collective of a step that a compiled one is: of its kind and axes, of its axes, or the only one."""
    here = plan.collectives_by_step[made.steps[step].position]
    along = set(sent.axes or ())
    alike = [c for c in here if {a for a in c.axes if plan.mesh.axes[a] > 1} == along]
    return next((c for c in alike if c.kind == sent.kind), next(iter(alike or here), None))


def seconds(shares: Iterable[Share]) -> float:
    """Returns how long a device takes for shares: of what runs at once the one with the largest part counts."""
    edges: list[tuple[float, int, Share]] = []
    for number, share in enumerate(shares):
        edges.append((share.begin + share.waiting, number, share))
    total, now, running = 0.0, 0.0, list[tuple[float, float]]()
    # Running shares by part, the largest first; those that have ended are dropped when they come first.
    for begin, _, share in [*sorted(edges), (float("inf"), 0, None)]:
        while running and now < begin:
            part, end = running[0]
            until = min(begin, end)
            if until > now:
                total, now = total - part * (until - now), until
            if end <= now:
                heapq.heappop(running)
        now = max(now, begin)
        if share is not None:
            heapq.heappush(running, (-share.part, share.end))
    return total
