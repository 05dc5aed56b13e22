"""A schedule as a table of numbers, which one loop over its ticks reads: what each stage runs, and where things lie.

In a tick a stage runs one cell or, where some step of the schedule has two, a forward half and a backward half; so too
where all stages must run cells of the same phase at once (`in_halves`). What it
receives in a tick is there from the next one on, in a slot, until a cell reads it; what a forward cell leaves to the
backward cell of its micro-batch lies in a slot until that has run. A slot is used again as soon as it is free. The last
slot of each kind is a bin, for what a tick without such a thing writes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from .cells import BACKWARD, FORWARD, At, Cell
from .schedule import Schedule

# What a phase is in the table; 0 is a stage that waits.
NUMBERS = {FORWARD: 1, BACKWARD: 2}
# The first tick and the last in which a slot is used, by micro-batch and chunk.
_Uses = Mapping[tuple[int, int], tuple[int, int]]


class Slots(NamedTuple):
    """How many slots a stage needs, without the bin: of what it is sent, what comes back, and what it holds."""

    sent: int
    returned: int
    held: int


class Columns(NamedTuple):
    """What a stage does in half a tick: numbers, or arrays of one number."""

    phase: int
    micro: int
    chunk: int
    sent: int
    returned: int
    held: int


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """A schedule of forward and backward cells, tick by tick.

    Attributes:
        halves: the phases that each half of a tick may run.
        cells: [tick, half, stage, column], the columns as in `Columns`.
        received: [tick, stage, 2]: the slots in which what is sent on, and what comes back, arrive.
        slots: how many there are.
    """

    halves: tuple[tuple[str, ...], ...]
    cells: np.ndarray
    received: np.ndarray
    slots: Slots


def table(schedule: Schedule, in_halves: bool = False) -> Table:
    """Returns the table of a schedule whose chunks are dealt to the stages in turn, without weights apart.

    Args:
        schedule: the schedule.
        in_halves: whether all ticks have a forward and a backward half, as those of paired schedules.
    """
    ticks = schedule.tick_of
    halves = ((FORWARD,), (BACKWARD,)) if in_halves or is_paired(schedule) else ((FORWARD, BACKWARD),)
    places, slots = _slots(schedule)
    cells = np.zeros((schedule.ticks, len(halves), schedule.stages, len(Columns._fields)), np.int32)
    cells[..., 3:] = slots
    received = np.empty((schedule.ticks, schedule.stages, 2), np.int32)
    received[:] = slots[:2]
    for (stage, cell), tick in ticks.items():
        half = next(i for i, phases in enumerate(halves) if cell.phase in phases)
        way, key = 0 if cell.phase == FORWARD else 1, (cell.micro, cell.chunk)
        cells[tick, half, stage, :3] = NUMBERS[cell.phase], *key
        for kind in (way, 2):
            cells[tick, half, stage, 3 + kind] = places[kind][stage].get(key, slots[kind])
        if (there := receiver(schedule, stage, cell)) is not None:
            other, chunk = there
            received[tick, other, way] = places[way][other][cell.micro, chunk]
    return Table(halves, cells, received, slots)


def is_paired(schedule: Schedule) -> bool:
    """Whether a stage runs two cells in some tick: a forward and a backward one."""
    return any(len(step) > 1 for steps in schedule.order for step in steps)


def receiver(schedule: Schedule, stage: int, cell: Cell) -> tuple[int, int] | None:
    """Returns the stage and the chunk to which what a cell makes is sent; None where it ends."""
    part = schedule.parts[stage][cell.chunk] + (1 if cell.phase == FORWARD else -1)
    return schedule.needs.home.get(part)


def slots_by_stage(schedule: Schedule) -> tuple[Slots, ...]:
    """Returns how many slots each stage uses; all have as many as the one that uses most, as they run one program."""
    counts = [[n for _, n in of_kind] for of_kind in _placed(schedule)]
    return tuple(Slots(*each) for each in zip(*counts, strict=True))


def _slots(schedule: Schedule) -> tuple[list[list[dict[tuple[int, int], int]]], Slots]:
    """Returns by kind and stage the slot of each micro-batch and chunk, and how many there are of each kind."""
    found = _placed(schedule)
    return [[places for places, _ in kind] for kind in found], Slots(*(max(n for _, n in kind) for kind in found))


def _placed(schedule: Schedule) -> list[list[tuple[dict[tuple[int, int], int], int]]]:
    """Returns by kind and stage the slot of each micro-batch and chunk, and how many slots that stage uses."""
    uses: list[list[dict[tuple[int, int], tuple[int, int]]]] = [[{} for _ in schedule.order] for _ in range(3)]
    for stage, cell, tick, sender in _cells(schedule):
        key = cell.micro, cell.chunk
        if sender is not None:
            uses[0 if cell.phase == FORWARD else 1][stage][key] = sender + 1, tick
        if cell.phase == FORWARD:
            uses[2][stage][key] = tick, schedule.tick_of[stage, Cell(BACKWARD, *key)]
    return [[_coloured(each) for each in kind] for kind in uses]


def _cells(schedule: Schedule) -> Iterator[tuple[int, Cell, int, int | None]]:
    """Yields each cell with its stage and tick, and the tick of the cell that sends it something."""
    senders: dict[At, int] = {}
    for (stage, cell), tick in schedule.tick_of.items():
        if (there := receiver(schedule, stage, cell)) is not None:
            senders[there[0], Cell(cell.phase, cell.micro, there[1])] = tick
    for (stage, cell), tick in schedule.tick_of.items():
        yield stage, cell, tick, senders.get((stage, cell))


def _coloured(uses: _Uses) -> tuple[dict[tuple[int, int], int], int]:
    """Gives each use a slot that no other one has meanwhile; returns how many slots there are."""
    ends: list[int] = []
    places = {}
    for key, (first, last) in sorted(uses.items(), key=lambda item: item[1]):
        slot = next((i for i, end in enumerate(ends) if end < first), len(ends))
        ends[slot : slot + 1] = [last]
        places[key] = slot
    return places, len(ends)
