"""How long `ml.auto.layout` takes to prove the best layout of a training step of Mesh TensorFlow's attention block."""

from __future__ import annotations

import functools

import jax

import meshlab as ml
from benchmarks.timing import Sample, timed
from meshlab.models.basic import mesh_tf
from meshlab.models.parts.initial import shapes

SEARCH_SECONDS = 1.0
MESHES = {"a": 4}, {"a": 2, "b": 2}, {"a": 4, "b": 2}
TIMES = 5


def measure() -> list[Sample]:
    """Returns the samples: searches of a program whose plans are remembered, by objective."""
    block = mesh_tf.Block()
    x = ml.f32[block.dims("batch length d_model")]

    def loss(params, x):
        return ml.square(mesh_tf.block(params, x)).mean()

    program = ml.trace(jax.value_and_grad(loss), shapes(mesh_tf.init_block, block), x)
    samples = []
    for objective in ("traffic", "live"):
        searches = [functools.partial(ml.auto.layout, program, ml.mesh(**axes), objective=objective) for axes in MESHES]
        for first in searches:
            first()
        samples.append(timed(f"auto, attention block, {objective}", searches * TIMES, SEARCH_SECONDS))
    return samples
