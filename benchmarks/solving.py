"""How long puzzles take: to open one, a verdict on a layout that is dragged, a check that compiles, and a proof.

A verdict is there within 5 ms of the plan that it reads, for small programs, and within 100 ms with a plan of a large
one; a check at one drawn size within half a second, and that of a function, which is compared at several, within two.
Wrong tries are judged when a puzzle is opened, so what that takes stands beside them, and the verdicts on layouts of
one rule that nobody is known to try.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import meshlab as ml
from benchmarks.timing import Sample, timed
from meshlab import puzzles
from meshlab.engine.specs.layout import Layout
from meshlab.puzzles import Puzzle
from meshlab.puzzles.play.attempts import Attempts

VERDICT, LARGE, CHECK, COMPARED, PROOF = 0.005, 0.1, 0.5, 2.0, 1.0
TIMES = 3
# Their programs are compiled twice, or take seconds to trace.
APART = ("P12", "P20")


def measure() -> list[Sample]:
    """Returns the samples."""
    small = [_fresh(puzzle) for name, puzzle in puzzles.COURSE.items() if name not in APART]
    tries = [(puzzle, puzzle.plan(layout)) for puzzle in small for layout in puzzle.wrong]
    goals = {puzzle.name: puzzle.goal_of(puzzle.program) for puzzle in small}
    ml.simulate(64)
    return [
        timed("puzzles: opened", [puzzle.show for puzzle in small]),
        timed("puzzles: verdict on a wrong try", [lambda p=p, t=t: goals[p.name].judge(t) for p, t in tries], VERDICT),
        timed("puzzles: verdict on another layout of one rule", list(_others(small))),
        timed("puzzles: check at a drawn size", [lambda p=p: _checked(p) for p in small for _ in range(TIMES)], CHECK),
        timed("puzzles: check of a function", [_compared] * TIMES, COMPARED),
        timed("puzzles: proof", [_fresh(puzzle).prove for puzzle in small], PROOF),
        timed("Llama 3 70B: verdict with its plan", _large(), LARGE),
    ]


def _others(small: list[Puzzle]) -> Iterator[Callable[[], Any]]:
    """Yields verdicts on the legal layouts of one rule that are no wrong tries."""
    for puzzle in small:
        goal, tried = puzzle.goal_of(puzzle.program), [Layout.of(layout) for layout in (puzzle.answer, *puzzle.wrong)]
        for dim, axis in itertools.product(puzzle.program.dims, puzzle.mesh.axes):
            layout = Layout.of({dim: axis})
            with contextlib.suppress(ml.LayoutError):
                if layout not in tried:
                    yield functools.partial(goal.judge, puzzle.plan(layout))


def _fresh(puzzle: Puzzle) -> Puzzle:
    fresh = dataclasses.replace(puzzle, attempts=Attempts())
    fresh.attempts.prediction.make(0.0)
    return fresh


def _checked(puzzle: Puzzle) -> None:
    assert puzzle.check(puzzle.answer)


def _compared() -> None:
    assert puzzles.C01.check(puzzles.C01.reference)


def _large() -> list:
    puzzle = _fresh(puzzles.P20)
    goal = puzzle.goal_of(puzzle.program)
    puzzle.verdict("batch:data ffn:model")
    layouts = ("batch:data vocab:model", "batch:data heads:model", "batch:data+model", "batch:model ffn:data")
    return [lambda layout=layout: goal.judge(puzzle.plan(layout)) for layout in layouts]
