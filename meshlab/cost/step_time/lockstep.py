"""When the cells of a pipeline run, in seconds: in lockstep, or each stage by itself.

    pre, F      a forward cell: pre on the first stage alone
    mid, B      a backward cell: mid on the last stage, post on the first one alone

A plan runs in lockstep (`engine/running/ticks.py`): one loop over the ticks, with the permutes behind its branches. So
stages exchange after each tick, and a tick lasts as long as its longest cell. Where a tick has a forward and a backward
half, both are taken to last as long as their longest cells. Processes that send to each other run free: a stage begins
a cell as soon as it is free and what the cell reads has arrived.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Mapping

from ...engine.planning.staged import BACKWARD, FORWARD, MID, POST, PRE
from ...engine.schedules.cells import Cell, Costs
from ...engine.schedules.clock import Clock, free_running
from ...engine.schedules.schedule import Schedule
from ..workload.scenario import Numbers

Later = Callable[[Numbers, Numbers], Numbers]
# A cell: its phase, and whether it is of the first part of the model, and of the last.
_Kind = tuple[str, bool, bool]


@dataclasses.dataclass(frozen=True)
class Cells:
    """What the cells of a pipeline take, in seconds; its clock says when each runs.

    Attributes:
        schedule: the schedule.
        costs: of each part of the model, in order, for one micro-batch: a forward cell, and a backward one.
        hop: what stages take to send to each other: after each tick, or each cell where they run free.
        lockstep: whether all stages exchange after each tick.
    """

    schedule: Schedule
    costs: tuple[Costs, ...]
    hop: float
    lockstep: bool

    @functools.cached_property
    def clock(self) -> Clock:
        """When each cell begins and ends, in seconds from the beginning of the pipeline."""
        return self.schedule.clock(self.costs, lockstep=self.lockstep, hop=self.hop)


def cells_of(schedule: Schedule, seconds: Mapping[str, Numbers], hop: Numbers, *, lockstep: bool) -> Cells:
    """Returns the cells of a schedule, by the seconds of each piece, of one micro-batch in one chunk of a stage."""
    last = schedule.stages * schedule.chunks - 1

    def cost(phase: str, part: int) -> float:
        return float(_cell((phase, part == 0, part == last), seconds))

    costs = tuple(Costs(cost(FORWARD, part), cost(BACKWARD, part), 0.0) for part in range(last + 1))
    return Cells(schedule, costs, float(hop), lockstep)


def free(schedule: Schedule, seconds: Mapping[str, Numbers], hop: Numbers, later: Later) -> Numbers:
    """Returns the seconds of all cells where each stage runs by itself.

    Args:
        schedule: the schedule.
        seconds: by piece, of one micro-batch in one chunk of a stage.
        hop: what it takes to send to another stage.
        later: the later of two times, point by point.
    """
    last = schedule.stages * schedule.chunks - 1

    def of(at: tuple[int, Cell]) -> Numbers:
        part = schedule.parts[at[0]][at[1].chunk]
        return _cell((at[1].phase, part == 0, part == last), seconds)

    return functools.reduce(later, free_running(schedule.order, schedule.needs, of, hop, later).ends.values(), 0.0)


def lockstep(schedule: Schedule, seconds: Mapping[str, Numbers], later: Later) -> Numbers:
    """Returns the seconds of all ticks without what stages send each other.

    Args:
        schedule: the schedule.
        seconds: by piece, of one micro-batch in one chunk of a stage.
        later: the later of two times, point by point.
    """
    cells: dict[_Kind, Numbers] = {}
    total: Numbers = 0.0
    for together, times in _together(schedule).items():
        longest: Numbers = 0.0
        for kind in together:
            if kind not in cells:
                cells[kind] = _cell(kind, seconds)
            longest = later(longest, cells[kind])
        total = total + times * longest
    return total


def _together(schedule: Schedule) -> Counter[frozenset[_Kind]]:
    """Counts the sets of kinds of cells that run at once."""
    last = schedule.stages * schedule.chunks - 1
    paired = any(len(step) > 1 for steps in schedule.order for step in steps)
    at: dict[tuple[int, bool], set[_Kind]] = {}
    for (stage, cell), tick in schedule.tick_of.items():
        part = schedule.parts[stage][cell.chunk]
        half = paired and cell.phase != FORWARD
        at.setdefault((tick, half), set()).add((cell.phase, part == 0, part == last))
    return Counter(map(frozenset, at.values()))


def _cell(kind: _Kind, seconds: Mapping[str, Numbers]) -> Numbers:
    phase, first, last = kind
    if phase == FORWARD:
        return seconds[FORWARD] + seconds[PRE] * first
    return seconds[BACKWARD] + seconds[MID] * last + seconds[POST] * first
