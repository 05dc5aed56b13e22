"""Programs of whole numbers are equal to the bit under every layout, gradients included.

Of +, x, max, select and lookups, with every sum below 2^24, float32 holds each number exactly, whatever the order.
(Where two are equally great, the gradient of a maximum is halved: eighths are as exact as wholes.)
"""

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw

Batch, Seq, Vocab, Embed, Hidden = ml.dims(batch=8, seq=8, vocab=16, embed=8, hidden=16)


def net(params, x):
    def loss(params):
        hidden = ml.relu(ml.dot(x, params["w"], "embed") + params["b"])
        return ml.square(ml.dot(hidden, params["v"], "hidden") - x).sum()

    value, grads = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda w, g: w - 2.0 * g, params, grads)


def lookup(params, ids):
    def loss(params):
        x = ml.take(params["table"], ids, "vocab")
        x = ml.where(x > 0.0, x, x * 2.0)
        best = ml.dot(x, params["table"].rename(vocab="other"), "embed").max("other")
        return (best * x.sum("embed")).sum()

    value, grads = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda w, g: w + g, params, grads)


def layers(params, x):
    def loss(params):
        def layer(x, w):
            return ml.tag(ml.maximum(ml.dot(x, w, "embed").rename(hidden="embed"), 0.0) + x, "residual"), x.sum("batch")

        x_, sums = ml.scan(ml.checkpoint(layer), x, params["w"], "layers")
        return x_.sum() + sums.sum()

    return jax.value_and_grad(loss)(params)


Square = ml.Dim("hidden", 8)
PROGRAMS = {
    "net": (
        net,
        ({"w": ml.f32[Embed, Hidden], "b": ml.f32[Hidden], "v": ml.f32[Hidden, Embed]}, ml.f32[Batch, Embed]),
    ),
    "lookup": (lookup, ({"table": ml.f32[Vocab, Embed]}, ml.i32[Batch, Seq])),
    "layers": (layers, ({"w": ml.f32[ml.Dim("layers", 3), Embed, Square]}, ml.f32[Batch, Embed])),
}


def whole_numbers(shapes, seed):
    random = np.random.default_rng(seed)

    def one(leaf):
        if np.issubdtype(leaf.dtype, np.integer):
            return random.integers(0, Vocab.size, leaf.shape).astype(leaf.dtype)
        return random.integers(-1, 2, leaf.shape).astype(leaf.dtype)

    return jax.tree.map(one, shapes)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_numbers_are_equal_to_the_bit(name):
    fn, args = PROGRAMS[name]
    program = ml.trace(fn, *args)
    data = whole_numbers(args, seed=1)
    expected = jax.jit(fn)(*data)
    for e in jax.tree.leaves(expected):
        np.testing.assert_array_equal(8 * e, np.round(8 * e))
        assert np.abs(8 * e).max() < 2**24
    assert any(np.abs(e).max() > 10 for e in jax.tree.leaves(expected))
    for mesh, layout in draw(program, seed=7, count=8):
        result = program.plan(mesh, layout).run(*data)
        for place, e, f in zip(program.outputs, jax.tree.leaves(expected), jax.tree.leaves(result), strict=True):
            np.testing.assert_array_equal(np.asarray(e), np.asarray(f), f"{place} under {layout} on {mesh}")
