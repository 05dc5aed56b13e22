"""The boards that figures for print and tables are tested on: digits on eight chips, Llama 3 8B on three axes, Mixtral
on five; each is opened once, and none is changed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import jax

import meshlab as ml
from meshlab.models.vision import digits
from meshlab.opening.open_explorer import explore
from meshlab.training.feeding import Training
from meshlab.widgets.explorer import Explorer


def _step(params: dict, images: ml.Tensor, labels: ml.Tensor) -> tuple:
    def loss(params):
        hidden = ml.relu(ml.dot(images, params["w1"], "rows", "cols"))
        return ml.cross_entropy(ml.dot(hidden, params["w2"], "hidden"), labels, "classes").mean()

    value, grads = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda w, g: w - 0.5 * g, params, grads)


@functools.cache
def of_digits() -> Explorer:
    """Opens a network for handwritten digits under three layouts, trained and searched."""
    Batch, Rows, Cols, Hidden, Classes = ml.dims(batch=128, rows=8, cols=8, hidden=256, classes=10)
    shapes = {"w1": ml.f32[Rows, Cols, Hidden], "w2": ml.f32[Hidden, Classes]}
    program = ml.trace(_step, shapes, ml.f32[Batch, Rows, Cols], ml.i32[Batch])
    config = digits.Config()
    params = digits.init(jax.random.key(0), config)
    data = [{"images": i, "labels": n} for i, n in digits.batches(digits.load(), config, epochs=1)]
    training = Training({"params": {name: params[name] for name in shapes}}, lambda: data, 6)
    explorer = explore(program, ml.mesh("v5e:2x4", data=4, model=2), "batch:data", run=training)
    explorer.auto("time")
    for layout in ("hidden:model", "batch:data hidden:model"):
        explorer.load(layout)
        explorer.run().wait(60)
    return explorer


@functools.cache
def of_llama() -> Explorer:
    mesh = ml.mesh("v5p:4x4x4", replica=2, data=8, model=4)
    rules = {"batch": ("replica", "data"), "heads": "model", "ffn": "model", "vocab": "model"}
    explorer = explore("llama3-8b", mesh, {**rules, "params/*": {"embed": "data"}}, batch=64)
    for layout in ("batch:data", "batch:replica+data ffn:model"):
        explorer.load(layout)
    explorer.undo()
    explorer.undo()
    return explorer


@functools.cache
def of_mixtral() -> Explorer:
    mesh = ml.mesh("v5p:4x4x8", pod=2, data=4, expert=4, seq=2, model=2)
    both = ("pod", "data")
    rules = {"batch": both, "groups": both, "experts": "expert", "heads": "model", "ffn": "model"}
    return explore("mixtral-8x7b", mesh, rules, batch=64)


BOARDS: Mapping[str, Callable[[], Explorer]] = {"digits": of_digits, "llama": of_llama, "mixtral": of_mixtral}
