"""What the tests of bad input hand in."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab

# What is handed in wrong is wrong by its type, too.
ml: Any = meshlab

Batch, Embed, Hidden = ml.dims(batch=8, embed=16, hidden=32)
PARAMS = {"w1": ml.f32[Embed, Hidden], "w2": ml.f32[Hidden, Embed]}


def step(params, x):
    """A perceptron's loss and its parameters, made smaller."""
    y = ml.dot(ml.relu(ml.dot(x, params["w1"], Embed)), params["w2"], Hidden)
    return y.mean(), jax.tree.map(lambda w: w * 0.9, params)


PROGRAM = ml.trace(step, PARAMS, ml.f32[Batch, Embed])
MESH = ml.mesh(data=2, model=2)
ARRAY = np.arange(128, dtype=np.float32).reshape(8, 16)
X = ml.tensor(ARRAY, Batch, Embed)


def gone():
    """An array whose memory was taken."""
    array = jnp.ones((8, 16))
    array.delete()
    return array


def refused(call, error, match):
    """Holds that a call is refused, in words that match `match`."""
    with pytest.raises(error, match=match):
        call()
