"""What a program trains follows from what it does with its arguments."""

import jax
import jax.numpy as jnp
import numpy as np

import meshlab as ml
from meshlab.engine.programs.trained import trained

Batch, Inner, Out = ml.dims(batch=8, inner=16, out=4)
WEIGHT, X = ml.f32[Inner, Out], ml.f32[Batch, Inner]


def kinds(function, *arguments, carry=None):
    """The places of parameters, and of state."""
    program = ml.trace(function, *arguments, carry=carry)
    training = trained(program)
    places = [argument.place for argument in program.arguments]
    return {places[i] for i in training.parameters}, {places[i] for i in training.state}


def loss(w, x):
    return ml.square(ml.dot(x, w, "inner")).sum()


def test_what_is_carried_and_in_the_loss_is_a_parameter_and_what_is_not_is_state():
    def step(w, moment, x):
        moment = 0.9 * moment + jax.grad(loss)(w, x)
        return w - 0.1 * moment, moment

    assert kinds(step, WEIGHT, WEIGHT, X, carry={"w": 0, "moment": 1}) == ({"w"}, {"moment"})


def test_one_argument_may_hold_both():
    def step(state, x):
        moment = 0.9 * state["moment"] + jax.grad(loss)(state["w"], x)
        return {"w": state["w"] - 0.1 * moment, "moment": moment, "count": state["count"] + 1}

    state = {"w": WEIGHT, "moment": WEIGHT, "count": ml.i32[()]}
    assert kinds(step, state, X) == ({"state/w"}, {"state/moment", "state/count"})


def test_what_is_not_carried_is_a_parameter_where_its_gradient_is_taken():
    def update(w, b, x):
        gradients = jax.grad(lambda w, b: ml.square(ml.dot(x, w, "inner") + b).sum(), argnums=(0, 1))(w, b)
        return [(-0.1 * g).astype(jnp.bfloat16) for g in gradients]

    assert kinds(update, WEIGHT, ml.f32[Out,], X, carry={}) == ({"w", "b"}, set())
    # The order of its axes is another than that of the gradient's.
    assert kinds(lambda w, x: ml.square(jax.grad(loss)(w, x)).sum(), ml.f32[Out, Inner], X, carry={}) == ({"w"}, set())
    # A scan makes the gradients of all layers, and one of `x` that nobody asked for.
    deep = ml.f32[ml.Dim("layers", 3), Inner, ml.Dim("wide", 16)]

    def scanned(w, x):
        def layer(x, w):
            return ml.dot(x, w, "inner").rename(wide="inner"), None

        return ml.square(ml.scan(layer, x, w, "layers")[0]).sum()

    assert kinds(lambda w, x: jax.grad(scanned)(w, x).sum(), deep, X, carry={}) == ({"w"}, set())


def test_data_and_keys_are_no_parameters():
    def step(w, x, key):
        def noisy(w):
            mask = jax.random.bernoulli(key, 0.5, (8, 4))
            return jnp.where(mask, x @ w, 0.0).sum() ** 2

        return w - 0.1 * jax.grad(noisy)(w), jax.random.split(key)[0]

    arrays = (jax.ShapeDtypeStruct((16, 4), np.float32), jax.ShapeDtypeStruct((8, 16), np.float32))
    key = jax.eval_shape(lambda: jax.random.key(0))
    assert kinds(step, *arrays, key, carry={"w": 0, "key": 1}) == ({"w"}, {"key"})


def test_without_a_backward_pass_nothing_is_trained():
    assert kinds(lambda w, cache, x: (loss(w, x), cache), WEIGHT, X, X, carry={"cache": 1}) == (set(), set())
