"""A board without Python is the Explorer's: whatever a reader does, both share the same state and answer the same."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

import meshlab as ml
from meshlab import puzzles
from meshlab.api.stages import Program
from meshlab.opening.open_explorer import explore
from meshlab.puzzles.play.attempts import Attempts
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.frozen.scope import scope_of
from tests.share import ALL, seed
from tests.widgets import small
from tests.widgets.frozen.walking import Walk, replayed

STEPS = 400 if seed() == ALL else 60
# Puzzles are on the site, where nobody has Python beside them.
LONG = 1000 if seed() == ALL else 60


def readme() -> Program:
    """The program of README.md."""
    batch, rows, cols, hidden, classes = ml.dims(batch=100, rows=28, cols=28, hidden=1024, classes=10)

    def loss(params, images, labels):
        inner = ml.relu(ml.dot(images, params["w1"], rows, cols))
        return ml.cross_entropy(ml.dot(inner, params["w2"], hidden), labels, classes).mean()

    def step(params, images, labels):
        value, grads = jax.value_and_grad(loss)(params, images, labels)
        return value, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)

    params = {"w1": ml.f32[rows, cols, hidden], "w2": ml.f32[hidden, classes]}
    return ml.trace(step, params, ml.f32[batch, rows, cols], ml.i32[batch])


def searched() -> Explorer:
    """A board with a layout that was tried, and what a search for the fastest has found."""
    explorer = explore(small.program(), ml.mesh("v5e", data=2, model=4))
    explorer.auto("time")
    explorer.baseline("batch:data")
    explorer.label("DP", "plain", "what we run today")
    explorer.tried = dataclasses.replace(explorer.tried, changes=())  # a file begins with nothing to undo
    return explorer


def asked(name: str) -> Explorer:
    """The board of a puzzle whose number nobody has predicted yet."""
    return dataclasses.replace(puzzles.COURSE[name], attempts=Attempts()).show()


# Boards, and of which chips in which columns drops are recorded.
BOARDS: dict[str, tuple[Callable[[], Explorer], tuple[str, ...], tuple[str, ...] | None]] = {
    "without a machine": (lambda: explore(readme(), ml.mesh(data=2, model=2)), (), None),
    "on a machine": (lambda: explore(readme(), ml.mesh("v5e:2x2", data=2, model=2), "batch:data"), (), None),
    "4 by 2": (lambda: explore(readme(), ml.mesh("v5e:4x2", data=4, model=2)), (), None),
    "in time": (lambda: explore(readme(), ml.mesh(data=2, micro=ml.serial(2)), "batch:data"), (), None),
    "a column": (lambda: explore(small.program(), small.mesh()), ("params",), ("batch", "hidden")),
    "searched": (searched, (), None),
    "a puzzle": (lambda: asked("P05"), (), None),
    "a puzzle in columns": (lambda: asked("P11"), ("params",), None),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("board", BOARDS)
def test_a_random_walk(board: str, tmp_path: Path) -> None:
    opened, columns, dims = BOARDS[board]
    explorer = opened()
    scope = scope_of(explorer, columns, dims, 2000)
    with replayed(explorer, scope, tmp_path) as replay:
        walk = Walk(explorer, scope, replay, random.Random(f"{board} {seed()}"))
        steps = LONG if explorer.task else STEPS
        for _ in range(steps):
            walk.step()
            if walk.draw.random() < 0.2:
                walk.look()
    assert walk.done > steps / 4
    assert walk.refused
