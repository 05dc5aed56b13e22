"""Run it for real: what goes on where a training stopped, what is moved, and where a wrong number is."""

from __future__ import annotations

import functools
from typing import Any

import jax

import meshlab as ml

from ..play.puzzle import Puzzle
from ..play.question import Question

_SAVED_EVERY, _DIED_IN = 10, 27
_BAD_ROW = 100


def _step(params: dict[str, ml.Tensor], images: ml.Tensor, labels: ml.Tensor) -> tuple[Any, Any]:
    def loss(params: dict[str, ml.Tensor]) -> jax.Array:
        hidden = ml.relu(ml.dot(images, params["w1"], "rows", "cols"))
        return ml.cross_entropy(ml.dot(hidden, params["w2"], "hidden"), labels, "classes").mean()

    value, grads = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda w, g: w - 0.5 * g, params, grads)


@functools.cache
def _plan(split: bool) -> ml.Plan:
    batch, rows, cols, hidden, classes = ml.dims(batch=128, rows=8, cols=8, hidden=256, classes=10)
    params = {"w1": ml.f32[rows, cols, hidden], "w2": ml.f32[hidden, classes]}
    program = ml.trace(_step, params, ml.f32[batch, rows, cols], ml.i32[batch])
    return program.plan(ml.mesh(data=4, model=2), "batch:data hidden:model" if split else "batch:data")


def _holders() -> int:
    """How many devices hold the bad row of the images."""
    plan = _plan(True)
    shards = (plan.shard("images", device)[0] for device in range(plan.mesh.size))
    return sum(start <= _BAD_ROW < stop for start, stop in shards)


QUESTIONS = (
    Question(
        "11a",
        f"A training is saved after every {_SAVED_EVERY} steps, and dies in step {_DIED_IN}. Which step does it compute"
        " first when it goes on",
        lambda: _DIED_IN // _SAVED_EVERY * _SAVED_EVERY + 1,
        because="The last checkpoint has the state after step 20.",
    ),
    Question(
        "11b",
        "The training moves from `batch:data hidden:model` to `batch:data`. How many bytes of the weights are new to a"
        " device",
        lambda: _plan(True).move(_plan(False)).new[0],
        near=0.01,
        because="Both weights have `hidden`, which `model` cut in two: a device had half of 75,776 bytes.",
    ),
    Question(
        "11c",
        f"Row {_BAD_ROW} of the images has a NaN. How many of the 8 devices have it before anything is sent",
        _holders,
        because="The batch has 4 parts along `data`, and the 2 devices along `model` hold the same part.",
    ),
)
PUZZLES: tuple[Puzzle, ...] = ()
