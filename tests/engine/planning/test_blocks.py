"""Loops come to one spec for what they carry, and what is recomputed is gathered again."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.engine.jax_compat import REMAT
from meshlab.engine.planning.shared_steps import counted
from meshlab.engine.planning.steps import Nested
from tests.engine.small_programs import X2Y2, A, B, C, D, checked, moved

AB = ml.f32[A, B]


def steps(xs, body, start):
    return jax.lax.scan(body, start, xs)


@pytest.mark.parametrize(("shape", "summed"), [((8,), (1,)), ((), (0, 1))])
def test_a_carry_from_zero_gathers_partial_sums_and_is_reduced_once(shape, summed):
    def fn(w, xs):
        return steps(xs.array, lambda c, x: (c + (x * w.array).sum(summed), None), jnp.zeros(shape))[0]

    size = 8 if shape else 1
    assert moved(checked(fn, (AB, ml.f32[C, B]), "b:x")) == [("all-reduce", ("x",), size * 4, 1)]


def test_a_carry_that_is_not_zero_gets_each_sum():
    def fn(w, xs):
        return steps(xs.array, lambda c, x: (c + (x * w.array).sum(1), None), jnp.ones(8))[0]

    assert moved(checked(fn, (AB, ml.f32[C, B]), "b:x")) == [("all-reduce", ("x",), 8 * 4, 8)]


def test_a_carry_that_is_used_otherwise_gets_each_sum():
    def fn(w, xs):
        return steps(xs.array, lambda c, x: (jnp.sin(c) + (x * w.array).sum(1), None), jnp.zeros(8))[0]

    assert moved(checked(fn, (AB, ml.f32[C, B]), "b:x")) == [("all-reduce", ("x",), 8 * 4, 8)]


def test_what_is_accumulated_from_zeros_has_its_target_spec():
    """Gradients of stacked layers, over micro-batches, for weights that are stored split: nothing is gathered again."""

    def fn(w, xs):
        def gradient(x):
            def layer(y, weights):
                return jnp.tanh(y @ weights), None

            return jax.grad(lambda w: (jax.lax.scan(layer, x, w)[0] ** 2).sum())(w)

        return w - steps(xs.array, lambda c, x: (c + gradient(x), None), jnp.zeros(w.shape))[0]

    many = ml.Dim("many", 4)
    weights = ml.named(jax.ShapeDtypeStruct((3, 8, 8), jnp.float32), "layers a _")
    program = ml.trace(fn, weights, ml.f32[many, C, A])
    plan = program.plan(ml.mesh(x=4), {"c": "x", "w": {"a": "x"}, "out": {"a": "x"}})
    assert plan.check().ok
    by_value = [(c.kind, c.value) for c in plan.collectives]
    assert {value for kind, value in by_value if kind == "all-gather"} == {"w"}
    assert len([kind for kind, _ in by_value if kind == "reduce-scatter"]) == 1


def test_gradients_of_what_a_loop_reads_are_reduced_once():
    def fn(scale, x, w):
        def loss(scale):
            def layer(x, w):
                return ml.tanh(ml.dot(x, w, "b").rename(d="b") * scale), None

            return ml.square(ml.scan(layer, x, w, "layers")[0]).sum()

        return jax.grad(loss)(scale)

    args = ml.f32[B], AB, ml.f32[ml.Dim("layers", 3), B, D]
    assert moved(checked(fn, args, "a:x")) == [("all-reduce", ("x",), 16 * 4, 1)]
    plan = checked(fn, args, {"a": "x", "out": {"b": "x"}})
    assert moved(plan) == [("reduce-scatter", ("x",), 16 * 4, 1)]


def test_carries_that_change_places_come_to_one_spec():
    def fn(p, q, r):
        return jax.lax.scan(lambda c, _: ((c[1], c[2], c[0] * 1.5), None), (p.array, q.array, r.array), None, length=4)[
            0
        ]

    args = ml.f32[B], ml.f32[B], ml.f32[B]
    assert moved(checked(fn, args, "b:x")) == []
    assert moved(checked(fn, args, {"p": {"b": "x"}})) == [("all-gather", ("x",), 4 * 4, 1)]
    checked(fn, args, {"p": {"b": "x"}, "out/1": {"b": "x"}, "out/2": {"b": "x"}})


def test_partial_sums_go_round_through_carries_that_change_places():
    def fn(w, xs):
        def body(c, x):
            return (c[1], c[2], c[0] + (x * w.array).sum(1)), None

        return jax.lax.scan(body, (jnp.zeros(8),) * 3, xs.array)[0]

    assert moved(checked(fn, (AB, ml.f32[C, B]), "b:x")) == [("all-reduce", ("x",), 8 * 4, 1)] * 3


def test_what_is_stacked_is_reduced_after_the_loop_unless_it_is_stored_split():
    def fn(w, xs):
        return steps(xs.array, lambda c, x: (c, (x * w.array).sum(1)), 0.0)[1]

    args = AB, ml.f32[C, B]
    assert moved(checked(fn, args, "b:x")) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]
    plan = checked(fn, args, {"b": "x", "out": {"a": "x"}})
    assert moved(plan) == [("reduce-scatter", ("x",), 8 * 4, 8)]


def test_a_value_may_be_stepped_through_and_read_whole():
    def fn(w, v):
        return jax.lax.scan(lambda c, row: (c + row, (v.array * row).sum(1)), jnp.zeros(16), w.array)

    checked(fn, (AB, ml.f32[C, B]), "b:x")
    checked(fn, (AB, ml.f32[C, B]), {"w": {"a": "x"}, "v": {"c": "x", "b": "y"}, "out/1": {"c": "x"}}, mesh=X2Y2)


def test_loops_in_loops():
    def fn(w, x):
        def outer(c, row):
            def inner(d, e):
                return d * 0.5 + (w.array * d).sum() + row.sum(), (w.array * d).sum(0) + e

            return jax.lax.scan(inner, c, w.array)[0], row.sum()

        return jax.lax.scan(outer, x.array, w.array[:3])

    args = AB, ml.f32[B]
    # The sum of a row for each outer step, the sum over the table for each of its inner ones.
    moves = moved(checked(fn, args, "b:x"))
    assert moves == [("all-reduce", ("x",), 4, 3), ("all-reduce", ("x",), 4, 24)]
    checked(lambda w, x: jax.grad(lambda w: sum(o.sum() for o in fn(ml.tensor(w, A, B), x)))(w.array), args, "b:x")


# Recomputation.


def checkpointed(w, v, x):
    layer = ml.checkpoint(lambda w, v, x: ml.dot(ml.tanh(ml.dot(x, w, "b")), v, "d"))
    return jax.grad(lambda wv: ml.square(layer(*wv, ml.sin(layer(*wv, x)))).sum())((w, v))


def test_what_is_recomputed_is_gathered_again():
    args = ml.f32[B, D], ml.f32[D, B], AB
    plan = checked(checkpointed, args, {"a": "x", "w": {"b": "x"}, "v": {"b": "x"}})
    gathers = [c for c in plan.collectives if c.kind == "all-gather"]
    # Both layers compute with both weights; forward they share what was gathered, each recomputation gathers anew.
    assert [c.payload_bytes for c in gathers] == [16 * 16 * 4 // 4] * 6
    assert any(isinstance(step, Nested) and step.operation.name in REMAT for step, _ in counted(plan.steps))


def test_what_is_recomputed_may_close_over_constants():
    numbers = jnp.arange(16.0)

    def fn(w):
        return jax.grad(lambda w: jax.checkpoint(lambda w: jnp.sin(w * numbers))(w).sum())(w.array)

    checked(fn, (AB,), "a:x")
    checked(fn, (AB,), "b:x")
