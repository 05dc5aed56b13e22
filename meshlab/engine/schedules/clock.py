"""When each cell of a schedule runs: free-running, as soon as its stage and what it waits for allow; or in lockstep.

In lockstep all stages exchange what they made after each step, so a step takes as long as its longest cell. A program
that runs as one loop on all devices, with its permutes outside of the stages' branches, runs so. Where steps hold a
forward cell and one of the backward pass, both halves are in lockstep by themselves.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .cells import FORWARD, At, Cell, Needs, Order, Step


@dataclasses.dataclass(frozen=True)
class Clock:
    """When each cell begins and ends, in the unit of the costs."""

    begins: Mapping[At, float]
    ends: Mapping[At, float]

    @property
    def makespan(self) -> float:
        return max(self.ends.values(), default=0.0)

    @property
    def longest_span(self) -> float:
        """The longest time of any stage from its own first cell to its own last."""
        spans: dict[int, tuple[float, float]] = {}
        for at, end in self.ends.items():
            first, last = spans.get(at[0], (self.begins[at], end))
            spans[at[0]] = min(first, self.begins[at]), max(last, end)
        return max((last - first for first, last in spans.values()), default=0.0)

    @property
    def waiting(self) -> tuple[float, ...]:
        """By stage how long it runs no cell, until the last one of all stages has ended."""
        stages = 1 + max((stage for stage, _ in self.ends), default=-1)
        works = [0.0] * stages
        for at, end in self.ends.items():
            works[at[0]] += end - self.begins[at]
        return tuple(self.makespan - each for each in works)


def stuck(order: Order, needs: Needs) -> list[tuple[int, int]]:
    """Returns the stages that cannot go on, each with the number of the step at which it hangs."""
    place = [0] * len(order)
    for stage, _ in _advance(order, needs):
        place[stage] += 1
    return [(stage, step) for stage, step in enumerate(place) if step < len(order[stage])]


def free_running(
    order: Order,
    needs: Needs,
    seconds: Callable[[At], Any],
    hop: Any = 0.0,
    later: Callable[[Any, Any], Any] = max,
) -> Clock:
    """Returns when cells run if each step begins as soon as it can; what another stage sends takes `hop`.

    The cells of one step run one after the other; their results are there when the step ends. Times may be arrays;
    `later` is the later of two.
    """
    begins: dict[At, Any] = {}
    ends: dict[At, Any] = {}
    there: dict[At, Any] = {}
    free: list[Any] = [0.0] * len(order)
    for stage, step in _advance(order, needs):
        sent = [there[need] + hop * (need[0] != stage) for need in _outside(step, needs)]
        now = functools.reduce(later, sent, free[stage])
        for at in step:
            begins[at], ends[at] = now, now + seconds(at)
            now = ends[at]
        free[stage] = now
        there |= dict.fromkeys(step, now)
    return Clock(begins, ends)


def ticks_of(order: Order, needs: Needs) -> dict[At, int]:
    """Returns the tick of each cell if stages exchange after every step; steps keep their order."""
    ticks: dict[At, int] = {}
    last = [-1] * len(order)
    for stage, step in _advance(order, needs):
        last[stage] = 1 + max([last[stage], *(ticks[need] for need in _outside(step, needs))])
        ticks |= dict.fromkeys(step, last[stage])
    return ticks


def _outside(step: Sequence[At], needs: Needs) -> list[At]:
    return [need for at in step for need in needs.of_cell(*at) if need not in step]


def in_lockstep(
    ticks: Mapping[At, int], seconds: Callable[[At], float], hop: float = 0.0, *, in_halves: bool = False
) -> Clock:
    """Returns when cells run if a tick lasts as long as its longest cell; then all exchange, which takes `hop`.

    With `in_halves` each tick has a forward and a backward half, also where no stage runs both.
    """
    together: dict[int, list[At]] = {}
    for at, tick in ticks.items():
        together.setdefault(tick, []).append(at)
    halves = in_halves or len({(at[0], tick) for at, tick in ticks.items()}) < len(ticks)
    begins: dict[At, float] = {}
    ends: dict[At, float] = {}
    now = 0.0
    for tick in sorted(together):
        for half in (True, False) if halves else (None,):
            cells = [at for at in together[tick] if half is None or (at[1].phase == FORWARD) is half]
            for at in cells:
                begins[at], ends[at] = now, now + seconds(at)
            now = max([now, *(ends[at] for at in cells)])
        now += hop
    return Clock(begins, ends)


def _advance(order: Order, needs: Needs) -> Iterator[tuple[int, list[At]]]:
    """Yields the steps in an order in which they can run, each stage's in its own, as far as they can."""
    place, done, going = [0] * len(order), set[At](), True
    while going:
        going = False
        for stage, steps in enumerate(order):
            while place[stage] < len(steps):
                step = [(stage, cell) for cell in steps[place[stage]]]
                if not done.issuperset(_outside(step, needs)):
                    break
                yield stage, step
                done.update(step)
                place[stage] += 1
                going = True


def most_in_flight(steps: Sequence[Step], ends: Callable[[Cell], bool]) -> int:
    """Returns how many cells of a stage at most have run forward while their last backward cell has not."""
    now = most = 0
    for cell in (cell for step in steps for cell in step):
        now += (cell.phase == FORWARD) - ends(cell)
        most = max(most, now)
    return most
