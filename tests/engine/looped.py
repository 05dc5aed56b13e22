"""Layers of two matmuls in a loop: the dims, the shapes and the data for which several tests have models."""

import jax
import numpy as np

import meshlab as ml

Batch, Embed, Hidden, Layers = ml.dims(batch=8, embed=16, hidden=32, layers=4)
SHAPES = {"up": ml.f32[Layers, Embed, Hidden], "down": ml.f32[Layers, Hidden, Embed]}


def data():
    rng = np.random.default_rng(0)
    params = {
        "up": rng.normal(size=(4, 16, 32)).astype("f4") * 0.25,
        "down": rng.normal(size=(4, 32, 16)).astype("f4") * 0.2,
    }
    return params, rng.normal(size=(8, 16)).astype("f4")


def descent(loss):
    """A step of gradient descent, which returns the loss too."""

    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    return step
