"""When the cells of a pipeline run, in seconds: in lockstep, or each stage by itself.

    pre, F      a forward cell: pre on the first stage alone
    mid, B      a backward cell: mid on the last stage, post on the first one alone

A stage with fewer layers than others has shorter cells, so that the first and the last may have less of them.

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
from types import MappingProxyType
from typing import NamedTuple

from ...engine.planning.staged import BACKWARD, FORWARD, MID, ON_ONE_STAGE, PHASES, POST, PRE, Staged
from ...engine.schedules.cells import Cell, Costs
from ...engine.schedules.clock import Clock, free_running
from ...engine.schedules.schedule import Schedule
from ...engine.schedules.table import is_paired
from ..workload.scenario import Numbers

Later = Callable[[Numbers, Numbers], Numbers]
# A cell: its phase, whether it is of the first part of the model, and of the last, and how many layers it has less than
# the longest one.
_Kind = tuple[str, bool, bool, int]


class Uneven(NamedTuple):
    """Stages with different numbers of layers.

    Attributes:
        layers: how many layers each stage has; none where all have as many.
        layer: by phase, the seconds of one layer.
    """

    layers: tuple[int, ...] = ()
    layer: Mapping[str, Numbers] = MappingProxyType({})

    def missing(self, stage: int) -> int:
        """Returns how many layers a stage has less than that with the most."""
        return max(self.layers) - self.layers[stage] if self.layers else 0


EVEN = Uneven()


@dataclasses.dataclass(frozen=True)
class Cells:
    """What the cells of a pipeline take, in seconds; its clock says when each runs.

    Attributes:
        schedule: the schedule.
        costs: of each part of the model, in order, for one micro-batch: a forward cell, and a backward one.
        hop: what stages take to send to each other: after each tick, or each cell where they run free.
        lockstep: whether all stages exchange after each tick.
        in_halves: whether each tick has a forward and a backward half.
    """

    schedule: Schedule
    costs: tuple[Costs, ...]
    hop: float
    lockstep: bool
    in_halves: bool

    @functools.cached_property
    def clock(self) -> Clock:
        """When each cell begins and ends, in seconds from the beginning of the pipeline."""
        return self.schedule.clock(self.costs, lockstep=self.lockstep, hop=self.hop, in_halves=self.in_halves)


def cells_of(
    schedule: Schedule,
    seconds: Mapping[str, Numbers],
    hop: Numbers,
    uneven: Uneven = EVEN,
    *,
    lockstep: bool,
    in_halves: bool = False,
) -> Cells:
    """Returns the cells of a schedule, by the seconds of each piece, of one micro-batch in one chunk of a stage."""
    last = schedule.stages * schedule.chunks - 1

    def cost(phase: str, part: int) -> float:
        return float(_cell((phase, part == 0, part == last, uneven.missing(part)), seconds, uneven))

    costs = tuple(Costs(cost(FORWARD, part), cost(BACKWARD, part), 0.0) for part in range(last + 1))
    return Cells(schedule, costs, float(hop), lockstep, in_halves)


def free(
    schedule: Schedule, seconds: Mapping[str, Numbers], hop: Numbers, later: Later, uneven: Uneven = EVEN
) -> Numbers:
    """Returns the seconds of all cells where each stage runs by itself.

    Args:
        schedule: the schedule.
        seconds: by piece, as of `lockstep`.
        hop: what it takes to send to another stage.
        later: the later of two times, point by point.
        uneven: the layers of its stages.
    """
    last = schedule.stages * schedule.chunks - 1

    def of(at: tuple[int, Cell]) -> Numbers:
        part = schedule.parts[at[0]][at[1].chunk]
        return _cell((at[1].phase, part == 0, part == last, uneven.missing(at[0])), seconds, uneven)

    return functools.reduce(later, free_running(schedule.order, schedule.needs, of, hop, later).ends.values(), 0.0)


def lockstep(
    schedule: Schedule, seconds: Mapping[str, Numbers], later: Later, uneven: Uneven = EVEN, *, in_halves: bool = False
) -> Numbers:
    """Returns the seconds of all ticks without what stages send each other.

    Args:
        schedule: the schedule.
        seconds: by piece, of one micro-batch in one chunk of a stage; where not all have as many layers, of the most.
        later: the later of two times, point by point.
        uneven: the layers of its stages.
        in_halves: whether all ticks have a forward and a backward half, as those of paired schedules.
    """
    cells: dict[_Kind, Numbers] = {}
    total: Numbers = 0.0
    for together, times in _together(schedule, uneven, in_halves or is_paired(schedule)).items():
        longest: Numbers = 0.0
        for kind in together:
            if kind not in cells:
                cells[kind] = _cell(kind, seconds, uneven)
            longest = later(longest, cells[kind])
        total = total + times * longest
    return total


def in_cells(step: Staged, seconds: Mapping[str, Numbers], uneven: Uneven) -> tuple[Mapping[str, Numbers], Uneven]:
    """Returns the seconds by piece, and of a layer, as cells take them: what runs everywhere is in all cells."""
    ends = [name for name in step.everywhere if name in ON_ONE_STAGE]
    each = {**seconds, **dict.fromkeys(ends, 0.0)}
    for name in ends:
        each[PHASES[name]] = each[PHASES[name]] + seconds[name]
    shorter = {phase: own for phase, own in uneven.layer.items() if phase not in step.everywhere}
    return each, Uneven(uneven.layers, shorter)


def busiest(step: Staged, seconds: Mapping[str, Numbers], uneven: Uneven) -> dict[str, Numbers]:
    """Returns the share that the busiest stage of a pipeline has of each piece; 0 of what other stages run.

    Args:
        step: the pipeline.
        seconds: by piece, as of `lockstep`.
        uneven: the layers of its stages.
    """
    last = step.schedule.stages - 1
    shares: dict[str, Numbers] = {}
    longest: Numbers = 0.0
    for stage in range(step.schedule.stages):
        here: dict[str, Numbers] = {PRE: stage == 0, MID: stage == last, POST: stage == 0}
        here |= dict.fromkeys(step.everywhere, 1)
        for phase in (FORWARD, BACKWARD):
            left_out = 0.0 if phase in step.everywhere else uneven.missing(stage) * uneven.layer.get(phase, 0.0)
            here[phase] = 1 - left_out / (seconds[phase] + (seconds[phase] == 0))
        busy = sum(seconds[name] * share * step.runs_of(name) for name, share in here.items())
        is_longer = (busy > longest) * 1
        shares = {name: shares.get(name, 0) * (1 - is_longer) + here[name] * is_longer for name in step.pieces}
        longest = longest + (busy - longest) * is_longer
    return shares


def _together(schedule: Schedule, uneven: Uneven, in_halves: bool) -> Counter[frozenset[_Kind]]:
    """Counts the sets of kinds of cells that run at once."""
    last = schedule.stages * schedule.chunks - 1
    at: dict[tuple[int, bool], set[_Kind]] = {}
    for (stage, cell), tick in schedule.tick_of.items():
        part = schedule.parts[stage][cell.chunk]
        half = in_halves and cell.phase != FORWARD
        at.setdefault((tick, half), set()).add((cell.phase, part == 0, part == last, uneven.missing(stage)))
    return Counter(map(frozenset, at.values()))


def _cell(kind: _Kind, seconds: Mapping[str, Numbers], uneven: Uneven) -> Numbers:
    phase, first, last, missing = kind
    layers = seconds[phase] - missing * uneven.layer.get(phase, 0.0)
    if phase == FORWARD:
        return layers + seconds[PRE] * first
    return layers + seconds[MID] * last + seconds[POST] * first
