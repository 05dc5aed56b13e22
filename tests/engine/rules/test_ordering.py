"""Argmax, top-k and sorting are the same where their axis is sharded, with ties and NaN too."""

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
RANDOM = np.random.default_rng(2)
LAYOUTS = ("a:x", "b:x", "a:y b:x", "b:x+y", "b:y+x", "a:y+x")


def ties():
    """Few different numbers, so that the greatest stands at several places of every row."""
    return RANDOM.integers(-2, 3, (8, 16)).astype(np.float32)


def holes():
    """Some rows with numbers that are none, with infinities, and with zeros of both signs."""
    x = ties()
    x[1, 5] = x[1, 11] = x[2, 15] = np.nan
    x[3, 2] = x[3, 9] = np.inf
    x[4, 3], x[5, 8] = -np.inf, -np.nan
    x[6] = np.where(np.arange(16) % 3 == 0, 0.0, -0.0)
    x[7, :] = np.nan
    return x


def places(x):
    x = x.array
    return jnp.argmax(x, 0), jnp.argmax(x, 1), jnp.argmin(x, 1), jnp.nanargmax(x, 1), jnp.argmax(x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_place_of_the_greatest_and_the_least_is_the_first(layout):
    plan = ml.trace(places, TABLE).plan(X2Y2, layout)
    for data in (ties(), holes(), -holes()):
        report = plan.check(data)
        assert report.ok, f"{layout}:\n{report}"


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16"])
def test_the_place_of_the_greatest_is_found_among_numbers_of_every_kind(dtype):
    table = ml.tensor(np.asarray(jnp.asarray(RANDOM.integers(0, 200, (8, 16)), dtype)), A, B)

    def fn(x):
        return lax.argmax(x.array, 1, "int32"), lax.argmin(x.array, 1, "uint8"), lax.argmax(x.array, 1, "int16")

    checked(fn, (table,), "b:y+x", mesh=X2Y2, data=(table,))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data", [ties(), holes()], ids=["ties", "holes"])
def test_the_k_greatest_are_the_same_and_in_the_same_order(data, layout):
    def fn(x):
        return [lax.top_k(x.array, k) for k in (1, 3, 16)], lax.top_k(x.array, 2, axis=0)

    checked(fn, (TABLE,), layout, mesh=X2Y2, data=(data,))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_sorted_is_the_same(layout):
    def fn(x):
        return (
            jnp.sort(x.array, 0),
            jnp.argsort(x.array, 1),
            lax.sort((x.array, -x.array, x.array * 2), dimension=1, num_keys=2),
            lax.approx_max_k(x.array, 3, reduction_dimension=1),
        )

    checked(fn, (TABLE,), layout, mesh=X2Y2, data=(ties(),))


def test_two_all_reduces_find_the_place_and_candidates_alone_travel():
    data = (ties(),)
    plan = checked(lambda x: jnp.argmax(x.array, 1), (TABLE,), "b:x", mesh=X8, data=data)
    assert moved(plan) == [("all-reduce", ("x",), 8 * 4, 1)] * 2
    plan = checked(lambda x: jnp.argmax(x.array, 1), (TABLE,), "a:x", mesh=X8, data=data)
    assert moved(plan) == []
    plan = checked(lambda x: lax.top_k(x.array, 1), (TABLE,), "b:x", mesh=X4, data=data)
    assert moved(plan) == [("all-gather", ("x",), 8 * 1 * 4, 1)] * 2
    # No device has more candidates than elements.
    plan = checked(lambda x: lax.top_k(x.array, 3), (TABLE,), "b:x", mesh=X8, data=data)
    assert moved(plan) == [("all-gather", ("x",), 8 * 2 * 4, 1)] * 2
    # Where candidates with their places are as much as half of all, the parts themselves travel.
    plan = checked(lambda x: lax.top_k(x.array, 4), (TABLE,), "b:x", mesh=X2Y2, data=data)
    assert moved(plan) == [("all-gather", ("x",), 8 * 8 * 4, 1)]
    plan = checked(lambda x: jnp.sort(x.array, 1), (TABLE,), "a:y b:x", mesh=X2Y2, data=data)
    assert moved(plan) == [("all-gather", ("x",), 4 * 8 * 4, 1)]


@pytest.mark.parametrize("position", [0, 1])
def test_of_the_greatest_only_what_is_used_travels(position):
    plan = checked(lambda x: lax.top_k(x.array, 2)[position], (TABLE,), "b:x", mesh=X4)
    both = checked(lambda x: lax.top_k(x.array, 2), (TABLE,), "b:x", mesh=X4)
    # Where the places are asked for, the candidates they belong to are needed as well.
    assert len(plan.collectives) == (1 if position == 0 else 2)
    assert len(both.collectives) == 2


def test_the_greatest_and_its_place_are_not_taken_for_one():
    def fn(x):
        x = x.array
        best = jnp.argmax(x, 1)
        return x.max(1), best, jnp.argmin(x, 1), x.min(1), lax.top_k(x, 1), jnp.argmax(-x, 1), jnp.sort(x, 1), best + 1

    plan = checked(fn, (TABLE,), "b:x", mesh=X4, data=(ties(),))
    # The greatest, the least, and the greatest of -x, each with its place.
    assert len([c for c in plan.collectives if c.kind == "all-reduce"]) == 3 * 2


def test_gradients_through_the_greatest_and_the_sorted_are_the_same():
    def fn(x):
        def total(x):
            values, _ = lax.top_k(x, 3)
            best = jnp.take_along_axis(x, jnp.argmax(x, 1)[:, None], 1)
            return (values**2).sum() + (jnp.sort(x, 1) * jnp.arange(16.0)).sum() + (best**3).sum()

        return jax.grad(total)(x.array)

    program = ml.trace(fn, TABLE)
    for mesh, layout in draw(program, seed=6, count=5):
        report = program.plan(mesh, layout).check(ties() + np.linspace(0, 0.4, 128, dtype=np.float32).reshape(8, 16))
        assert report.ok, f"{layout} on {mesh}:\n{report}"
