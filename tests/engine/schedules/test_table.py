"""The table of a schedule: played on the slots that it names, each cell finds what it needs, and no slot is lost."""

import dataclasses

import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.schedules.table import NUMBERS, Columns, table

CASES = [
    (name, stages, micro, chunks)
    for name in ("gpipe", "1f1b", "paired", "interleaved")
    for stages, micro in ((2, 4), (4, 8), (4, 4))
    for chunks in ((2, 3) if name == "interleaved" else (1,))
] + [("1f1b", 4, 2, 1), ("paired", 4, 1, 1), ("gpipe", 8, 16, 1)]


def play(schedule, of):
    """Runs a table on slots that hold names; returns the cells that ran, and raises where one finds something else."""
    stages, last = schedule.stages, schedule.stages * schedule.chunks - 1
    slots = [[[None] * (n + 1) for _ in range(stages)] for n in of.slots]
    ran = []
    for halves, received in zip(of.cells, of.received, strict=True):
        made = [[None] * stages, [None] * stages]
        for half in halves:
            for stage in range(stages):
                cell = Columns(*half[stage].tolist())
                if cell.phase == 0:
                    continue
                part = schedule.parts[stage][cell.chunk]
                phase = {number: name for name, number in NUMBERS.items()}[cell.phase]
                if phase == "F":
                    assert part == 0 or slots[0][stage][cell.sent] == (part - 1, cell.micro)
                    assert cell.held < of.slots.held
                    slots[2][stage][cell.held] = (part, cell.micro)
                    made[0][stage] = (part, cell.micro) if part < last else None
                else:
                    assert slots[2][stage][cell.held] == (part, cell.micro)
                    assert part == last or slots[1][stage][cell.returned] == (part + 1, cell.micro)
                    made[1][stage] = (part, cell.micro) if part else None
                ran.append((phase, part, cell.micro))
        for stage in range(stages):
            for way, sender in enumerate(((stage - 1) % stages, (stage + 1) % stages)):
                slots[way][stage][received[stage, way]] = made[way][sender]
    return ran


@pytest.mark.parametrize(("name", "stages", "micro", "chunks"), CASES)
def test_each_cell_finds_what_it_needs(name, stages, micro, chunks):
    schedule = ml.Schedule.of(name, stages, micro, chunks if chunks > 1 else None)
    of = table(schedule)
    ran = play(schedule, of)
    assert len(ran) == len(set(ran)) == 2 * stages * chunks * micro
    assert len(of.cells) == len(of.received) == schedule.ticks
    # As many slots as a stage has micro-batches in flight.
    assert of.slots.held == max(schedule.in_flight) * chunks


def test_paired_has_two_halves():
    assert table(ml.Schedule.of("paired", 4, 8)).halves == (("F",), ("B",))
    assert table(ml.Schedule.of("1f1b", 4, 8)).halves == (("F", "B"),)


@pytest.mark.parametrize("kind", ["received", "sent", "returned", "held", "missing"])
def test_a_fault_in_a_table_is_found(kind):
    """The play above can fail: numbers that are changed one by one are found."""
    schedule = ml.Schedule.of("1f1b", 4, 8)
    of, random = table(schedule), np.random.default_rng(0)
    found = 0
    for _ in range(20):
        cells, received = of.cells.copy(), of.received.copy()
        busy = np.argwhere(cells[..., 0] > 0)
        tick, half, stage = busy[random.integers(len(busy))]
        if kind == "received":
            arrivals = np.argwhere(received < of.slots[:2])
            received[tuple(arrivals[random.integers(len(arrivals))])] += 1
        elif kind == "missing":
            cells[tick, half, stage, 0] = 0
        else:
            column = Columns._fields.index(kind)
            slots = of.slots[column - 3]
            needs = np.argwhere((cells[..., 0] > 0) & (cells[..., column] < slots))
            where = (*needs[random.integers(len(needs))], column)
            cells[where] = (cells[where] + 1) % (slots + 1)
        changed = dataclasses.replace(of, cells=cells, received=received)
        try:
            found += len(play(schedule, changed)) != 2 * 4 * 8
        except AssertionError:
            found += 1
    assert found == 20
