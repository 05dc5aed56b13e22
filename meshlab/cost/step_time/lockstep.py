"""When the cells of a pipeline run, in seconds: in lockstep, or each stage by itself.

    pre, F      a forward cell: pre on the first stage alone
    mid, B      a backward cell: mid on the last stage, post on the first one alone

Of two stacks each has cells of its own.

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

from ...engine.planning.staged import BACKWARD, BACKWARDS, FORWARD, FORWARDS, ON_ONE_STAGE, PHASES, Staged, is_in
from ...engine.schedules.cells import Cell, Costs
from ...engine.schedules.clock import Clock, free_running
from ...engine.schedules.schedule import Schedule
from ...engine.schedules.table import is_paired
from ..workload.scenario import Numbers

Later = Callable[[Numbers, Numbers], Numbers]


class Uneven(NamedTuple):
    """Stages with different numbers of layers.

    Attributes:
        layers: how many layers each stage has; none where all have as many.
        layer: by piece that has a scan, the seconds of one layer.
    """

    layers: tuple[int, ...] = ()
    layer: Mapping[str, Numbers] = MappingProxyType({})

    def missing(self, stage: int) -> int:
        """Returns how many layers a stage has less than that with the most."""
        return max(self.layers) - self.layers[stage] if self.layers else 0


EVEN = Uneven()


class _Kind(NamedTuple):
    """A kind of cells.

    Attributes:
        phase: of the cell.
        stack: of the layers.
        first: whether it is of the first part of the stack.
        last: whether it is of the last one.
        missing: how many layers it has less than the longest one.
    """

    phase: str
    stack: int
    first: bool
    last: bool
    missing: int


class _Parts(NamedTuple):
    """The parts of a model: so many stacks of so many parts."""

    stacks: int
    each: int

    @classmethod
    def of(cls, schedule: Schedule, seconds: Mapping[str, Numbers]) -> _Parts:
        stacks = sum(name in FORWARDS for name in seconds)
        return cls(stacks, schedule.stages * schedule.chunks // stacks)

    def kind(self, phase: str, part: int, missing: int) -> _Kind:
        stack, number = divmod(part, self.each)
        return _Kind(phase, stack, number == 0, number == self.each - 1, missing)


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
    parts = _Parts.of(schedule, seconds)

    def cost(phase: str, part: int) -> float:
        return float(_cell(parts.kind(phase, part, uneven.missing(part % parts.each)), seconds, uneven))

    count = parts.stacks * parts.each
    costs = tuple(Costs(cost(FORWARD, part), cost(BACKWARD, part), 0.0) for part in range(count))
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
    parts = _Parts.of(schedule, seconds)

    def of(at: tuple[int, Cell]) -> Numbers:
        part = schedule.parts[at[0]][at[1].chunk]
        return _cell(parts.kind(at[1].phase, part, uneven.missing(at[0])), seconds, uneven)

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
    parts = _Parts.of(schedule, seconds)
    for together, times in _together(schedule, parts, uneven, in_halves or is_paired(schedule)).items():
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
    shorter = {name: own for name, own in uneven.layer.items() if name not in step.everywhere}
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
        ends = {name: is_first for name, is_first in ON_ONE_STAGE.items() if name in step.pieces}
        here: dict[str, Numbers] = {name: stage == (0 if is_first else last) for name, is_first in ends.items()}
        here |= dict.fromkeys(step.everywhere, 1)
        for name in step.scans:
            left_out = 0.0 if name in step.everywhere else uneven.missing(stage) * uneven.layer.get(name, 0.0)
            here[name] = 1 - left_out / (seconds[name] + (seconds[name] == 0))
        busy = sum(seconds[name] * share * step.runs_of(name) for name, share in here.items())
        is_longer = (busy > longest) * 1
        shares = {name: shares.get(name, 0) * (1 - is_longer) + here[name] * is_longer for name in step.pieces}
        longest = longest + (busy - longest) * is_longer
    return shares


def _together(schedule: Schedule, parts: _Parts, uneven: Uneven, in_halves: bool) -> Counter[frozenset[_Kind]]:
    """Counts the sets of kinds of cells that run at once."""
    at: dict[tuple[int, bool], set[_Kind]] = {}
    for (stage, cell), tick in schedule.tick_of.items():
        part = schedule.parts[stage][cell.chunk]
        half = in_halves and cell.phase != FORWARD
        at.setdefault((tick, half), set()).add(parts.kind(cell.phase, part, uneven.missing(stage)))
    return Counter(map(frozenset, at.values()))


def _cell(kind: _Kind, seconds: Mapping[str, Numbers], uneven: Uneven) -> Numbers:
    stacks = sum(name in FORWARDS for name in seconds)
    name = (FORWARDS if kind.phase == FORWARD else BACKWARDS)[kind.stack]
    total = seconds[name] - kind.missing * uneven.layer.get(name, 0.0)
    for name, is_first in ON_ONE_STAGE.items():
        if name in seconds and is_in(name, kind.phase, kind.stack, stacks):
            total = total + seconds[name] * (kind.first if is_first else kind.last)
    return total
