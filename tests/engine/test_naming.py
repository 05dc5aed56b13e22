"""Names spread from the user's to every axis; where two meet, both lines are told."""

import jax
import jax.numpy as jnp
import optax
import pytest

import meshlab as ml
from meshlab.models import training

A, B, C = ml.dims(a=4, b=6, c=8)


def test_every_axis_between_two_named_ones_has_a_name():
    def fn(x, y):
        return jnp.tanh(x.array @ y.array).T * 2.0

    program = ml.trace(fn, ml.f32[A, B], ml.f32[B, C])
    assert program.place("out").dims == ("c", "a")
    assert {name for value in program.values for name in value.dims} <= {"a", "b", "c"}


def test_gradients_and_optimizer_state_get_names_by_the_rules():
    def loss(params, x, y):
        return ml.square(ml.dot(x, params["w"], "b") - y).mean()

    optimizer = optax.adam(1e-3)
    step = training.adamw_step(loss, optimizer)
    params = {"w": ml.f32[B, C]}
    state = jax.eval_shape(optimizer.init, params)
    program = ml.trace(step, params, state, ml.f32[A, B], ml.f32[A, C])
    moments = [p for p in program.places if p.startswith("opt_state") and "mu" in p]
    assert moments
    assert program.place(moments[0]).dims == ("b", "c")


def test_plain_arrays_are_named_by_what_they_meet():
    def fn(x, y):
        return (x.array + y).sum(0)

    program = ml.trace(fn, ml.f32[A, B], jax.ShapeDtypeStruct((4, 6), jnp.float32))
    assert program.place("y").dims == ("a", "b")


def test_axes_of_size_one_have_no_name_and_those_nobody_named_a_made_up_one():
    def fn(x):
        return x.array[:, :1], x.array[:, :3], x.array.reshape(24)

    program = ml.trace(fn, ml.f32[A, B])
    assert program.place("out/0").dims == ("a", None)
    assert str(program.place("out/1").dims[1]).startswith("~")
    assert str(program.place("out/2").dims[0]).startswith("~")
    assert dict(program.dims) == {"a": 4, "b": 6}


def test_names_go_through_loops():
    def fn(x, w):
        return jax.lax.scan(lambda c, row: (c * row, c), x.array, w.array)

    Layers = ml.Dim("layers", 3)
    program = ml.trace(fn, ml.f32[A], ml.f32[Layers, A])
    assert program.place("out/0").dims == ("a",)
    assert program.place("out/1").dims == ("layers", "a")


def test_two_names_that_meet_are_told_with_both_lines():
    def fn(x, y):
        return x.array + y.array

    with pytest.raises(
        ml.TraceError,
        match=r"Two names meet on one axis: `a` \(named at argument `x`\) and `d` \(named at argument `y`\)",
    ):
        ml.trace(fn, ml.f32[A], ml.f32[ml.Dim("d", 4)])

    def marked(x):
        y = ml.tensor(jnp.ones(4), ml.Dim("d", 4)) * 2.0
        return x.array + y.array

    with pytest.raises(ml.TraceError, match=r"test_naming.py:\d+.*Use one name for both, or x.rename\(old=\"new\"\)"):
        ml.trace(marked, ml.f32[A])


def test_one_name_with_two_sizes_is_told():
    with pytest.raises(
        ml.DimError, match="`a` has size 4 at argument `x` and size 5 at argument `y`. Give one of them"
    ):
        ml.trace(lambda x, y: (x, y), ml.f32[A], ml.f32[ml.Dim("a", 5)])


@pytest.mark.parametrize(
    ("fn", "called"),
    [
        (lambda x: x.array @ x.array.T, "The dim `a`"),
        (lambda x: x.array[:, None, :3] * x.array[None, :, :3], "The dim `a`"),
    ],
)
def test_a_name_that_would_stand_twice_is_told(fn, called):
    with pytest.raises(ml.TraceError, match=rf"{called} would stand twice in a value of shape .*test_naming.py:\d+"):
        ml.trace(fn, ml.f32[A, B])


def test_an_unnamed_axis_that_would_stand_twice_is_told():
    with pytest.raises(ml.TraceError, match="One unnamed dim would stand twice in a value of shape"):
        ml.trace(lambda x: x @ x.T, jax.ShapeDtypeStruct((4, 6), jnp.float32))


def test_a_rename_keeps_two_names_apart():
    program = ml.trace(lambda x: ml.dot(x, x.rename(a="k"), "b"), ml.f32[A, B])
    assert program.place("out").dims == ("a", "k")
    assert dict(program.dims) == {"a": 4, "b": 6, "k": 4}
