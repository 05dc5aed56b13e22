"""What flattening says of operations: which run again under `jax.checkpoint`."""

import jax
import pytest

import meshlab as ml
from meshlab.engine.code.operations import walk

BATCH, EMBED, FFN, LAYERS = ml.dims(batch=8, embed=4, ffn=16, layers=3)
X, W = ml.f32[BATCH, EMBED], ml.f32[EMBED, FFN]


def layer(x, w):
    return ml.dot(ml.tanh(ml.dot(x, w, EMBED)), w, FFN)


def stacked(x, w):
    return ml.scan(lambda x, w: (layer(x, w), None), x, w, LAYERS)[0]


def unbarred(x, w):
    """As in a scan, where no barrier is needed."""
    return jax.checkpoint(layer, prevent_cse=False)(x, w)


@pytest.mark.parametrize(
    ("model", "weights", "again"),
    [
        (layer, W, 0),
        (ml.checkpoint(layer), W, 1),
        (ml.checkpoint(jax.jit(layer)), W, 1),
        (ml.checkpoint(stacked), ml.f32[LAYERS, EMBED, FFN], 2),
        (lambda x, w: ml.scan(lambda x, w: (unbarred(x, w), None), x, w, LAYERS)[0], ml.f32[LAYERS, EMBED, FFN], 1),
    ],
    ids=["no region", "a region", "a call in a region", "a scan in a region", "a region without a barrier in a scan"],
)
def test_operations_say_whether_they_run_again(model, weights, again):
    program = ml.trace(jax.value_and_grad(lambda w, x: model(x, w).sum()), weights, X)
    dots = [operation for operation in walk(program.code.block) if operation.name == "dot_general"]
    assert sum(operation.rematerialised for operation in dots) == again
    # Two run first, and four are of the backward pass itself; the gradient for `x` of a single layer is not asked for.
    assert len(dots) - again == (6 if LAYERS.name in program.dims else 5)


@pytest.mark.parametrize("model", [layer, jax.jit(layer), ml.checkpoint(jax.jit(layer))], ids=["plain", "jit", "again"])
def test_what_is_inside_a_call_of_the_backward_pass_runs_there(model):
    """JAX names the pass of the call alone, not of the equations inside."""
    program = ml.trace(jax.value_and_grad(lambda w, x: model(x, w).sum()), W, X)
    dots = [operation for operation in walk(program.code.block) if operation.name == "dot_general"]
    assert [operation.backward for operation in dots[:2]] == [False, False]
    assert all(operation.backward for operation in dots[2:])
