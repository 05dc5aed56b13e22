"""The peak of each stage of a pipeline while its cells run: what it stores, adds up, holds, and computes.

    peak = stored + accumulators + in_flight × kept + arrived + cell

All stages run one program, so XLA allocates as much on each: as many slots as the stage with the most micro-batches in
flight needs, and the space of the largest cell that any stage runs. What a stage itself needs of that is less on most:
those near the end hold fewer micro-batches, and only one stage runs the ends of the model. So the largest of these
peaks is at most that of the plan, and equal to it where one stage both holds most and runs the largest cell.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ...engine.planning.staged import ON_ONE_STAGE, Staged
from ...engine.planning.step import Step, only
from ...engine.plans.plan_data import Plan
from ...engine.schedules.table import Slots, slots_by_stage
from .assign_buffers import Assignment
from .graph import Buffer
from .liveness import LiveBuffer
from .pipelines import HELD, Carried, stacks_of, totals_of


@dataclasses.dataclass(frozen=True)
class StageMemory:
    """The peak of one stage while its cells run, on one device; all in bytes except `stage` and `in_flight`.

    Attributes:
        stage: its number.
        stored: arguments and the space of outputs, without the parts that hold one of the others meanwhile.
        accumulators: sums over micro-batches: gradients, and the loss.
        in_flight: the most micro-batches in flight; with several chunks, each chunk of a micro-batch counts.
        kept: the activations of one of them, from its forward cell to its backward cell.
        arrived: arrays that other stages have sent and no cell has read yet, and the slots that ticks without a cell
            write to.
        cell: the memory of its largest cell while it runs, and of values that are alive around the pipeline.
    """

    stage: int
    stored: int
    accumulators: int
    in_flight: int
    kept: int
    arrived: int
    cell: int

    @property
    def peak_bytes(self) -> int:
        """The sum of all parts."""
        return self.stored + self.accumulators + self.in_flight * self.kept + self.arrived + self.cell

    def __str__(self):
        parts = (
            f"{self.stored:,} stored + {self.accumulators:,} accumulated + {self.in_flight} × {self.kept:,} in flight"
            f" + {self.arrived:,} received + {self.cell:,} in a cell"
        )
        return f"{self.peak_bytes:>15,} B = {parts}"


@dataclasses.dataclass(frozen=True, eq=False)
class Placed:
    """The buffers of a plan, as they are placed.

    Attributes:
        assignment: of buffers to places.
        nbytes: of a buffer.
        heap: bytes in the heap at each point in time.
        fixed: bytes of arguments and outputs, which are there at all times.
    """

    assignment: Assignment
    nbytes: Callable[[LiveBuffer], int]
    heap: np.ndarray
    fixed: int


@dataclasses.dataclass(frozen=True)
class _Found:
    """What the loop carries, with its bytes, and whether they are in the heap or in the space of outputs."""

    carried: Carried
    nbytes: int
    in_heap: bool

    @property
    def slot(self) -> float:
        """Bytes of one slot."""
        return self.nbytes / self.carried.slots

    def used(self, slots: Slots) -> float:
        """Bytes that a stage with so many slots uses, and a slot for ticks without such a thing."""
        return (slots[self.carried.kind] + 1) * self.slot if self.carried.slots else self.nbytes


def stages_of(plan: Plan, placed: Placed) -> tuple[StageMemory, ...]:
    """Returns the peak of each stage of a plan; none where it is no pipeline."""
    step = next(only(Staged, plan.steps), None)
    if step is None:
        return ()
    loop = _Loop(plan, step, placed)
    return tuple(loop.stage(stage, slots) for stage, slots in enumerate(slots_by_stage(step.schedule)))


class _Loop:
    """What is in memory while the loop over ticks runs."""

    def __init__(self, plan: Plan, step: Staged, placed: Placed):
        self.placed, self.last = placed, step.schedule.stages - 1
        self.runs = _pieces(step)
        points = placed.assignment.liveness.points
        inside = [i for i, at in enumerate(points) if id(at) in self.runs]
        self.points = range(inside[0], inside[-1] + 1)
        totals = totals_of(step, plan.program.code.dtypes).values()
        carried = [*stacks_of(step, plan.program.original_of), *(each for those in totals for each in those)]
        self.carried = self.find(carried)

    def find(self, carried: Sequence[Carried]) -> list[_Found]:
        """Finds the bytes of what the loop carries, in the heap or in the space of outputs."""
        wanted: dict[Buffer, list[Carried]] = {}
        for each in carried:
            wanted.setdefault(each.buffer, []).append(each)
        assignment = self.placed.assignment
        in_heap = set(map(id, assignment.heap))
        found = []
        for buffer in assignment.liveness.buffers:
            around = buffer.start <= self.points.start and self.points.stop <= buffer.end
            if around and wanted.get(buffer.size):
                each = wanted[buffer.size].pop(0)
                found.append(_Found(each, self.placed.nbytes(buffer), id(buffer) in in_heap))
        return found

    def stage(self, stage: int, slots: Slots) -> StageMemory:
        """The peak of one stage."""
        highest = max(float(self.placed.heap[i]) for i in self.points if self.has(stage, self.step_at(i)))
        unused = sum(each.nbytes - each.used(slots) for each in self.carried if each.in_heap)
        peak = round(self.placed.fixed + highest - unused)
        accumulators = sum(each.nbytes for each in self.carried if not each.carried.slots)
        kept = round(sum(each.slot for each in self.carried if each.carried.kind == HELD))
        in_flight = slots.held if kept else 0
        slotted = sum(each.used(slots) for each in self.carried if each.carried.slots)
        arrived = round(slotted) - in_flight * kept
        stored = round(self.placed.fixed - sum(each.used(slots) for each in self.carried if not each.in_heap))
        cell = peak - stored - accumulators - in_flight * kept - arrived
        return StageMemory(stage, stored, accumulators, in_flight, kept, arrived, cell)

    def step_at(self, at: int) -> Step | None:
        return self.placed.assignment.liveness.points[at]

    def has(self, stage: int, at: Step | None) -> bool:
        """Whether a stage runs a step; all run what is in no piece."""
        where = {"first": 0, "last": self.last}
        return any(where.get(each, stage) == stage for each in self.runs.get(id(at), ("all",)))


def _pieces(step: Staged) -> dict[int, set[str]]:
    """By the identity of each step inside which stages run it: "first", "last" or "all"."""
    runs: dict[int, set[str]] = {}

    def note(steps: Iterable[Step], where: str):
        for each in steps:
            runs.setdefault(id(each), set()).add(where)
            for part in each.parts:
                note(part.steps, where)

    for name, piece in step.pieces.items():
        note(piece.every, ("first" if ON_ONE_STAGE[name] else "last") if name in ON_ONE_STAGE else "all")
    return runs
