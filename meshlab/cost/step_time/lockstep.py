"""The seconds of a pipeline's ticks: stages exchange after each, so a tick lasts as long as its longest cell.

    pre, F      a forward cell: pre on the first stage alone
    mid, B      a backward cell: mid on the last stage, post on the first one alone

That is how a plan runs (`engine/running/ticks.py`): one loop over the ticks, with the permutes behind its branches.
Where a tick has a forward and a backward half, both are taken to last as long as their longest cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from ...engine.planning.staged import BACKWARD, FORWARD, MID, POST, PRE
from ...engine.schedules.schedule import Schedule
from ..workload.scenario import Numbers

# A cell: its phase, and whether it is of the first part of the model, and of the last.
_Kind = tuple[str, bool, bool]


def lockstep(
    schedule: Schedule, seconds: Mapping[str, Numbers], later: Callable[[Numbers, Numbers], Numbers]
) -> Numbers:
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
