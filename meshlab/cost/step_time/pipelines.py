"""The seconds of a pipeline: of its busiest stage, of what that waits for the others, and of what stages send.

    spent = staged(walk, step)
    spent.compute, spent.idle, spent.sent[("pipe",)]        of the first stage, or of the last

In lockstep, as a plan runs, all stages send after each tick, and nothing else runs meanwhile. Where stages run free, a
cell waits for what it reads; what a stage waits longer than its own sending takes is idle time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...engine.collectives.kinds import COLLECTIVE_PERMUTE, Kind
from ...engine.planning.staged import Staged
from ...engine.planning.step import Step
from ...engine.planning.step_keys import Key
from ...engine.planning.steps import Nested
from ...engine.schedules.schedule import Schedule
from ..workload.scenario import Numbers, Scenario
from .lockstep import EVEN, Later, Uneven, busiest, cells_of, free, in_cells, lockstep
from .roofline import accumulated
from .spent import WAITING, Span, Spent


class Walk(Protocol):
    """The walk over the steps of a plan, as far as a pipeline needs it (`schedule._Schedule`)."""

    scenario: Scenario
    original_of: Any
    executions: int
    later: Later

    def nested(self, step: Nested) -> Spent: ...

    def block(self, steps: Sequence[Step], outputs: Sequence[Key]) -> Spent: ...

    def collective(
        self, kind: Kind, axes: tuple[str, ...], operand: Numbers, spent: Spent, times: Numbers = 1
    ) -> Numbers: ...


class _Sent(NamedTuple):
    """What a stage sends: how long it takes once, and how often it is sent."""

    seconds: Numbers
    times: int


class _Ran(NamedTuple):
    """How the cells of a pipeline run.

    Attributes:
        running: seconds of all cells, if nothing were sent.
        elapsed: seconds of all cells, with what is sent.
        hop: what a cell waits for what is sent: both ways after each tick, or the longer way.
        longer: what a stage waits for what is sent longer than it sends itself.
    """

    running: Numbers
    elapsed: Numbers
    hop: Numbers
    longer: Numbers


def staged(walk: Walk, step: Staged) -> Spent:
    """Returns the cost of a pipeline."""
    before = walk.executions
    walk.executions *= step.parts[0].times
    pieces = {name: _piece(walk, step, name) for name in step.pieces}
    walk.executions = before
    seconds, uneven = {name: piece.elapsed for name, piece in pieces.items()}, _uneven(walk, step)
    share = busiest(step, seconds, uneven)
    total = Spent()
    busy: Numbers = 0.0
    for name, piece in pieces.items():
        if np.any(share[name]):
            total.add(piece, step.runs_of(name) * share[name])
        busy = busy + piece.elapsed * share[name] * step.runs_of(name)
    schedule, is_free = step.schedule, walk.scenario.options.free_running
    times = _cells(schedule) if is_free else schedule.ticks
    on, back = (
        [_send(walk, step, walk.scenario.nbytes(key), total, times) for key in keys]
        for keys in step.messages(walk.original_of)
    )
    seconds, uneven = in_cells(step, seconds, uneven)
    ran = _ran(walk, step, seconds, uneven, on=sum(on), back=sum(back))
    total.idle = total.idle + walk.later(ran.running - busy, 0.0) + ran.longer
    stored, results, rounds = step.dealt
    deals = sum(not each.stays for each in rounds)
    parts = [walk.scenario.nbytes(key) / step.chunks for key in (*stored, *results)]
    dealt = [_send(walk, step, nbytes, total, deals) for nbytes in parts]
    total.elapsed = ran.elapsed + sum(dealt) * deals
    if not walk.scenario.many and total.elapsed:
        halves = step.in_halves
        total.cells = cells_of(schedule, seconds, ran.hop, uneven, lockstep=not is_free, in_halves=halves)
        sent = [*(_Sent(each, times) for each in (*on, *back)), *(_Sent(each, deals) for each in dealt)]
        total.spans.append(_span(step, pieces, share, total, sent))
    return total


def _cells(schedule: Schedule) -> int:
    """How many forward cells a stage has."""
    return schedule.micro * schedule.chunks


def _uneven(walk: Walk, step: Staged) -> Uneven:
    """The layers of stages that have not all as many, and the seconds of one."""
    if not step.layers:
        return EVEN
    layer = {name: walk.nested(scan).elapsed / max(step.layers) for name, scan in step.scans.items()}
    return Uneven(step.layers, layer)


def _ran(
    walk: Walk, step: Staged, seconds: Mapping[str, Numbers], uneven: Uneven, *, on: Numbers, back: Numbers
) -> _Ran:
    """How the cells run.

    Args:
        walk: over the plan's steps.
        step: the pipeline.
        seconds: by piece, of one micro-batch in one chunk of a stage.
        uneven: the layers of its stages.
        on: seconds of what a cell sends to the next stage.
        back: seconds of what it sends to the stage before.
    """
    schedule = step.schedule
    if not walk.scenario.options.free_running:
        running = lockstep(schedule, seconds, walk.later, uneven, in_halves=step.in_halves)
        return _Ran(running, running + (on + back) * schedule.ticks, on + back, 0.0)
    hop, times = walk.later(on, back), _cells(schedule)
    running, elapsed = (free(schedule, seconds, each, walk.later, uneven) for each in (0.0, hop))
    return _Ran(running, elapsed, hop, walk.later(elapsed - running - (on + back) * times, 0.0))


def _span(
    step: Staged, pieces: Mapping[str, Spent], share: Mapping[str, Numbers], total: Spent, sent: Iterable[_Sent]
) -> Span:
    """One micro-batch of the busiest stage, stretched over the time of all."""
    micro = step.schedule.micro
    inside: list[Span] = []
    now: Any = 0.0
    for name, piece in pieces.items():
        each = step.runs_of(name) / micro * share[name]
        at = Span(step, now, now + piece.elapsed * each, piece.elapsed, tuple(piece.spans), each)
        inside += [span.later(now) for span in piece.spans] if each == 1 else [at] if each > 0 else []
        now += piece.elapsed * each
    if waiting := total.idle / micro:
        inside.append(Span(step, now, now + waiting, kind=WAITING))
        now += waiting
    for seconds, times in sent:
        end = now + seconds * times / micro
        inside.append(Span(step, now, end, kind=COLLECTIVE_PERMUTE.name, axes=(step.axis,)))
        now = end
    return Span(step, 0.0, total.elapsed, now, tuple(inside), micro)


def _piece(walk: Walk, step: Staged, name: str) -> Spent:
    """The cost of one piece of a pipeline, for one micro-batch."""
    piece = step.pieces[name]
    spent = walk.block(piece.every, step.leaving(name, walk.original_of))
    spent.run_behind(accumulated(piece.results, walk.scenario), step, not walk.scenario.many)
    return spent


def _send(walk: Walk, step: Staged, nbytes: Numbers, total: Spent, times: int) -> Numbers:
    """The seconds in which stages send each other so many bytes so many times."""
    seconds = walk.collective(COLLECTIVE_PERMUTE, (step.axis,), nbytes, total, times)
    total.rows.append((step, times, seconds))
    return seconds
