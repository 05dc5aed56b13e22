"""Cumulative operations, and products and booleans reduced over an axis, are the same where it is sharded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, X4, A, B, checked, moved

X8 = ml.mesh(x=8)
TABLE = ml.f32[A, B]
RANDOM = np.random.default_rng(3)
RUNNING = (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp)
LAYOUTS = ("a:x", "b:x", "a:y b:x", "b:x+y", "b:y+x")


def signs():
    """Whole numbers whose products stay small, in rows of every kind."""
    x = RANDOM.choice([-1.0, 1.0, 2.0], (8, 16), p=[0.45, 0.45, 0.1]).astype(np.float32)
    x[3, 5], x[4, 0], x[5, 15], x[6, 9] = np.nan, np.inf, -np.inf, 0
    return x


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("running", RUNNING, ids=lambda f: f.__name__)
def test_a_running_result_is_the_same(running, layout):
    def fn(x):
        return [running(x.array, axis, reverse) for axis in (0, 1) for reverse in (False, True)]

    checked(fn, (TABLE,), layout, mesh=X2Y2, data=(signs(),))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "bfloat16", "complex64"])
def test_a_running_result_of_every_kind_of_number_is_the_same(dtype):
    table = ml.tensor(np.asarray(jnp.asarray(RANDOM.integers(0, 3, (8, 16)), dtype)), A, B)

    def fn(x):
        results = [lax.cumsum(x.array, 1, reverse=True), lax.cumprod(x.array, 1)]
        return results if dtype == "complex64" else [*results, lax.cummax(x.array, 1)]

    checked(fn, (table,), "b:y+x", mesh=X2Y2, data=(table,))


def test_one_slice_of_each_part_travels():
    for reverse in (False, True):
        for mesh, layout, axes, payload in (
            (X8, "b:x", ("x",), 8 * 4),
            (X8, "a:x", ("x",), 16 * 4),
            (X2Y2, "a:y b:x", ("x",), 4 * 4),
            (X2Y2, "b:y+x", ("y", "x"), 8 * 4),
        ):
            along = 0 if layout == "a:x" else 1
            plan = checked(
                lambda x, along=along, reverse=reverse: lax.cumsum(x.array, along, reverse),
                (TABLE,),
                layout,
                mesh=mesh,
                data=(signs(),),
            )
            assert moved(plan) == [("all-gather", axes, payload, 1)]


@pytest.mark.parametrize("running", RUNNING, ids=lambda f: f.__name__)
def test_gradients_of_running_results_are_the_same(running):
    def fn(x):
        return jax.grad(lambda x: (running(x, 1) * jnp.arange(1.0, 17.0)).sum())(x.array)

    program = ml.trace(fn, TABLE)
    data = np.linspace(0.5, 1.5, 128, dtype=np.float32).reshape(16, 8).T
    for mesh, layout in draw(program, seed=7, count=3):
        report = program.plan(mesh, layout).check(data)
        assert report.ok, f"{layout} on {mesh}:\n{report}"


@pytest.mark.parametrize("layout", [*LAYOUTS, "a:y+x"])
def test_products_and_truth_values_of_an_axis_are_the_same(layout):
    def fn(x):
        x = x.array
        whole = x.astype(jnp.int32)
        return (
            [function(x, axis) for function in (jnp.prod,) for axis in (0, 1, None)],
            [function(x > 1, axis) for function in (jnp.any, jnp.all) for axis in (0, 1, None)],
            [lax.reduce_and(whole, [1]), lax.reduce_or(whole, [0]), lax.reduce_xor(whole, [0, 1])],
            lax.reduce_xor(x > 0, [1]),
        )

    checked(fn, (TABLE,), layout, mesh=X2Y2, data=(np.nan_to_num(signs(), posinf=3, neginf=-5),))


def test_truth_values_are_reduced_and_products_gathered():
    data = (np.nan_to_num(signs(), posinf=3, neginf=-5),)
    plan = checked(lambda x: jnp.any(x.array > 0, 1), (TABLE,), "b:x", mesh=X4, data=data)
    assert moved(plan) == [("all-reduce", ("x",), 8, 1)]
    plan = checked(lambda x: jnp.prod(x.array, 1), (TABLE,), "b:x", mesh=X4, data=data)
    assert moved(plan) == [("all-gather", ("x",), 8 * 4, 1)]
    plan = checked(lambda x: jnp.prod(x.array), (TABLE,), "a:y b:x", mesh=X2Y2, data=data)
    assert moved(plan) == [("all-gather", ("x", "y"), 4, 1)]
    plan = checked(lambda x: jnp.prod(x.array, 1), (TABLE,), "a:x", mesh=X4, data=data)
    assert moved(plan) == []


def test_gradients_of_products_are_the_same():
    def fn(x):
        return jax.grad(lambda x: (jnp.prod(x, 1) ** 2).sum())(x.array)

    data = np.linspace(0.5, 1.5, 128, dtype=np.float32).reshape(8, 16)
    for layout in ("a:x", "b:x", "a:y b:x"):
        checked(fn, (TABLE,), layout, mesh=X2Y2, data=(data,))


def test_running_results_of_one_element_are_sent_once():
    """The last element of a block of one is the block, whatever is made of it."""

    def fn(x):
        x = x.array
        return jnp.cumsum(x, 1), lax.cummax(x, 1), lax.cumprod(x, 1, reverse=True), jnp.flip(x, 1)

    plan = ml.trace(fn, ml.f32[ml.dims(a=8, b=4)]).plan(ml.mesh(x=4), "b:x")
    report = plan.check()
    assert report.ok, report
    assert [c.kind for c in plan.collectives] == ["all-gather", "collective-permute"]
