"""A two-layer net with batch 8, rows 4, cols 4, hidden 16 and classes 10: small enough to run in every test.

On the mesh data=2 × model=4, `classes` (10) fits `data` and not `model`, and the first matmul has `rows` and `batch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import meshlab as ml
from meshlab.api.stages import Program
from meshlab.api.trace import trace
from meshlab.cost.machines.meshes import mesh as make_mesh
from meshlab.engine.specs.mesh import Mesh
from meshlab.opening.open_explorer import explore
from meshlab.training.feeding import Training
from meshlab.widgets.explorer import Explorer

Batch, Rows, Cols, Hidden, Classes = ml.dims(batch=8, rows=4, cols=4, hidden=16, classes=10)


def loss(params, images, labels):
    hidden = ml.relu(ml.dot(images, params["w1"], Rows, Cols))
    logits = ml.dot(hidden, params["w2"], Hidden)
    return ml.cross_entropy(logits, labels, Classes).mean()


def step(params, images, labels):
    value, grads = jax.value_and_grad(loss)(params, images, labels)
    return value, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)


def program() -> Program:
    shapes = {"w1": ml.f32[Rows, Cols, Hidden], "w2": ml.f32[Hidden, Classes]}
    return trace(step, shapes, ml.f32[Batch, Rows, Cols], ml.i32[Batch])


def mesh() -> Mesh:
    return make_mesh(data=2, model=4)


def params() -> dict[str, ml.Tensor]:
    draw = np.random.default_rng(0)
    return {
        "w1": ml.tensor(draw.normal(size=(4, 4, 16)).astype(np.float32) / 4, Rows, Cols, Hidden),
        "w2": ml.tensor(draw.normal(size=(16, 10)).astype(np.float32) / 4, Hidden, Classes),
    }


def batches() -> Iterator[dict[str, np.ndarray]]:
    draw = np.random.default_rng(1)
    for _ in range(3):
        labels = draw.integers(0, 10, size=8).astype(np.int32)
        yield {"images": draw.normal(size=(8, 4, 4)).astype(np.float32), "labels": labels}


def on_v5e() -> Explorer:
    """Opens the program sharded on a machine, its costs worked out."""
    shown = explore(program(), ml.mesh("v5e", data=2, model=4), "batch:data hidden:model")
    shown.view()
    return shown


def training(steps: int = 5) -> Training:
    return Training({"params": params()}, batches, steps)


def titled(figure: Any) -> str:
    """Returns the title of a Plotly figure with the sentence below it, in one line."""
    return figure.layout.title.text.replace("</sub><br><sub>", " ")
