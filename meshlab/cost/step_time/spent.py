"""The seconds of a sequence of steps, by what they are spent on, and when each step runs.

spent.compute        seconds of all kernels
spent.sent           seconds of all collectives, by mesh axes
spent.spans          when each begins and ends
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any

from ...engine.planning.step import Step
from ..workload.scenario import Numbers
from .lockstep import Cells
from .roofline import Kernel

Axes = tuple[str, ...]
# The kind of a span in which the stage of a pipeline waits for the others.
WAITING = "waiting"
_NONE: tuple[Numbers, Numbers] = (0.0, 0.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Span:
    """The time in which a step runs, in seconds from the beginning of its block.

    Attributes:
        step: a kernel, a collective, or a loop, branches or region with `inside`.
        begin: when it begins.
        end: when it ends.
        iteration: seconds of one iteration of a loop; of all else its duration.
        inside: the spans of one iteration, or of the branch that takes longest.
        times: how many iterations of a loop it stands for.
        kind: "compute", or the kind of a collective: a step may send something itself; or `WAITING`, of a stage.
        axes: the mesh axes of a collective.
    """

    step: Step
    begin: float
    end: float
    iteration: float = 0.0
    inside: tuple[Span, ...] = ()
    times: float = 1
    kind: str = "compute"
    axes: Axes = ()

    def later(self, by: float) -> Span:
        """Returns the span so many seconds later."""
        return dataclasses.replace(self, begin=self.begin + by, end=self.end + by)


@dataclasses.dataclass
class Spent:
    """The cost of a sequence of steps; everything in seconds but `flops` and `nbytes`.

    Attributes:
        elapsed: from its beginning to its end.
        idle: of a pipeline's stage, waiting for the others.
        compute: of all kernels.
        compute_bound: of the compute-bound kernels.
        memory_bound: of the memory-bound kernels.
        flops: operations of matmuls.
        nbytes: read from and written to memory.
        sent: of all collectives, by their mesh axes.
        busy: of all collectives, by the links that they use.
        scores: operations, and seconds, of the matmuls that make scores of attention in fused kernels: of the forward
            (False) and the backward pass.
        rows: each step with its number of executions and the seconds of one.
        kernels: each kernel with its number of executions and its cost.
        spans: when each step runs; empty where there are many points.
        cells: those of a pipeline; None without one, and where there are many points.
    """

    elapsed: Numbers = 0.0
    idle: Numbers = 0.0
    compute: Numbers = 0.0
    compute_bound: Numbers = 0.0
    memory_bound: Numbers = 0.0
    flops: Numbers = 0.0
    nbytes: Numbers = 0.0
    sent: dict[Axes, Numbers] = dataclasses.field(default_factory=lambda: defaultdict(float))
    busy: dict[Any, Numbers] = dataclasses.field(default_factory=lambda: defaultdict(float))
    scores: dict[bool, tuple[Numbers, Numbers]] = dataclasses.field(default_factory=lambda: {False: _NONE, True: _NONE})
    rows: list[tuple[Step, Numbers, Numbers]] = dataclasses.field(default_factory=list)
    kernels: list[tuple[Step, Numbers, Kernel]] = dataclasses.field(default_factory=list)
    spans: list[Span] = dataclasses.field(default_factory=list)
    cells: Cells | None = None

    def add(self, other: Spent, times: Numbers):
        """Adds another's cost `times` over; `elapsed` is left to the caller."""
        for name in ("idle", "compute", "compute_bound", "memory_bound", "flops", "nbytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name) * times)
        for backward, (flops, seconds) in other.scores.items():
            self.score(backward, flops * times, seconds * times)
        for mine, theirs in ((self.sent, other.sent), (self.busy, other.busy)):
            for key, seconds in theirs.items():
                mine[key] = mine[key] + seconds * times
        self.rows += [(step, often * times, seconds) for step, often, seconds in other.rows]
        self.kernels += [(step, often * times, cost) for step, often, cost in other.kernels]
        self.cells = self.cells or other.cells

    def count(self, cost: Kernel, step: Step):
        """Adds one kernel; `elapsed` is left to the caller."""
        compute_bound = cost.matmuls >= cost.seconds
        self.compute = self.compute + cost.seconds
        self.compute_bound = self.compute_bound + cost.seconds * compute_bound
        self.memory_bound = self.memory_bound + cost.seconds * (1 - compute_bound)
        self.flops, self.nbytes = self.flops + cost.flops, self.nbytes + cost.nbytes
        self.rows.append((step, 1, cost.seconds))
        if cost.scores:
            assert step.computes is not None
            self.score(step.computes.backward, cost.flops, cost.seconds)

    def run_behind(self, cost: Kernel, step: Step, is_drawn: bool):
        """Adds one kernel that runs behind all others, with its span where it is drawn."""
        self.count(cost, step)
        self.kernels.append((step, 1, cost))
        if is_drawn and cost.seconds:
            self.spans.append(Span(step, self.elapsed, self.elapsed + cost.seconds))
        self.elapsed = self.elapsed + cost.seconds

    def score(self, backward: bool, flops: Numbers, seconds: Numbers):
        """Adds matmuls that make scores."""
        before = self.scores[backward]
        self.scores[backward] = before[0] + flops, before[1] + seconds
