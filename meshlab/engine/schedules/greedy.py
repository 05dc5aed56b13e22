"""The schedule that runs at each moment, on each free stage, the cell that a key puts first of those that can run."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .cells import BACKWARD, FORWARD, INPUTS, WEIGHTS, At, Cell, Costs, Needs, Order, Parts, steps_of


def by_priority(
    priority: Callable[[int, Cell], Any],
    parts: Parts,
    micro: int,
    *,
    most: Sequence[float],
    weights_apart: bool,
    costs: Costs,
) -> Order:
    """Returns the order of each stage.

    Args:
        priority: what the cells of a stage are compared by; the least runs first.
        parts: by stage and chunk the part of the model.
        micro: how many micro-batches there are.
        most: by stage how many micro-batches' activations it may hold.
        weights_apart: whether the gradients of weights are cells of their own.
        costs: how long a stage with all its chunks takes.
    """
    chunks = len(parts[0])
    phases = (FORWARD, INPUTS, WEIGHTS) if weights_apart else (FORWARD, BACKWARD)
    left = [[Cell(p, i, c) for p in phases for i in range(micro) for c in range(chunks)] for _ in parts]
    needs = Needs.of(parts, tuple(map(steps_of, left)))
    last, held = phases[-1], [0] * len(parts)
    done: set[At] = set()
    rows: list[list[Cell]] = [[] for _ in parts]
    running: list[tuple[float, int, Cell]] = []
    busy: set[int] = set()
    now = 0.0

    def ready(stage: int) -> Iterator[Cell]:
        for cell in left[stage]:
            room = cell.phase != FORWARD or held[stage] < most[stage] * chunks
            if room and all(need in done for need in needs.of_cell(stage, cell)):
                yield cell

    while any(left) or running:
        for stage in range(len(parts)):
            if stage not in busy and (first := min(ready(stage), key=lambda c, s=stage: priority(s, c), default=None)):
                left[stage].remove(first)
                rows[stage].append(first)
                held[stage] += (first.phase == FORWARD) - (first.phase == last)
                heapq.heappush(running, (now + costs.of(first.phase), stage, first))
                busy.add(stage)
        if not running:  # The limits let nobody go on; the schedule that is made of it says at what each stage hangs.
            return tuple(steps_of([*row, *rest]) for row, rest in zip(rows, left, strict=True))
        now = running[0][0]
        while running and running[0][0] <= now:
            _, stage, cell = heapq.heappop(running)
            done.add((stage, cell))
            busy.discard(stage)
    return tuple(map(steps_of, rows))
