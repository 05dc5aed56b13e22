"""Extremes over a sharded dim keep NaN under every backend, and are sent once for all their readers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.rules.rank import from_rank, to_rank
from tests.engine.small_programs import X2Y2, X4, A, B, checked, moved

TABLE = ml.f32[A, B]
LAYOUTS = ("b:x", "a:y b:x", "b:y+x", "a:x+y")
NARROW = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e8m0fnu")


def numbers():
    """Every kind of number, ties among them; of some rows all are NaN, infinite or zero."""
    x = np.random.default_rng(4).integers(-3, 4, (8, 16)).astype(np.float32)
    x[0, 1] = x[1, 14] = x[2, 5] = np.nan
    x[2, 7] = -np.nan
    x[3, 3], x[3, 9], x[4, 15] = np.inf, -np.inf, np.nan
    x[5], x[6], x[7] = np.nan, -np.inf, np.where(np.arange(16) % 3, 0.0, -0.0)
    return x


@pytest.mark.share(8)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", *NARROW])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_ranks_are_in_the_order_of_the_floats(kind, dtype):
    given = np.asarray([-np.inf, -3e38, -448, -1.5, -1, -1e-3, -0.0, 0.0, 1e-3, 1, 1.5, 448, 3e38, np.inf], np.float32)
    floats = jnp.asarray(given).astype(dtype)
    floats = floats[~jnp.isnan(floats)]
    ranks, wide = np.asarray(to_rank(floats, kind)).astype(int), np.asarray(floats.astype(jnp.float32))
    np.testing.assert_array_equal(np.diff(ranks) > 0, wide[1:] > wide[:-1])
    np.testing.assert_array_equal(from_rank(to_rank(floats, kind), floats.dtype).astype(jnp.float32), wide)
    none = to_rank(jnp.asarray([jnp.nan], dtype), kind)
    assert none > ranks.max() if kind == "max" else none < ranks.min()
    back = from_rank(none, floats.dtype)
    assert jnp.isnan(back).all()
    assert back.dtype == floats.dtype


def test_every_float_of_16_bits_comes_back():
    for dtype in (jnp.float16, jnp.bfloat16):
        floats = lax.bitcast_convert_type(jnp.arange(2**16, dtype=jnp.uint16), dtype)
        for kind in ("max", "min"):
            back = from_rank(to_rank(floats, kind), dtype)
            # As JAX compares: numbers that the backend takes for zero are zero.
            assert ((back == floats) | (jnp.isnan(back) & jnp.isnan(floats))).all()


def test_doubles_have_ranks_of_64_bits():
    with jax.enable_x64(True):
        floats = jnp.asarray([-np.inf, -1.0, -1e-300, 0.0, 1e-300, 1.0 + 1e-15, 2.0, np.inf])
        ranks = to_rank(floats, "max")
        assert ranks.dtype == jnp.int64
        assert (np.diff(ranks) > 0).all()
        np.testing.assert_array_equal(from_rank(ranks, floats.dtype), floats)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_no_number_is_above_and_below_all(layout, dtype):
    data = numbers().astype(jnp.dtype(dtype))

    def fn(x):
        x = x.array
        windows = (lax.reduce_window_max_p, lax.reduce_window_min_p)
        full = {"window_dimensions": (1, 16), "window_strides": (1, 1), "padding": ((0, 0), (0, 0))}
        slid = [p.bind(x, **full, base_dilation=(1, 1), window_dilation=(1, 1)) for p in windows]
        return x.max(1), x.min(1), x.max(), x.min(0), jnp.ptp(x, 1), jnp.isnan(jnp.abs(x).max()), slid

    checked(fn, (ml.tensor(data, A, B),), layout, mesh=X2Y2, data=(ml.tensor(data, A, B),))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_go_to_the_extremes(layout):
    def fn(x):
        def total(x):
            return (x.max(1) ** 2).sum() + x.min(0).sum() + jnp.linalg.norm(x, jnp.inf, 1).sum() + jnp.ptp(x)

        return jax.grad(total)(x.array)

    for data in (np.random.default_rng(4).normal(size=(8, 16)), numbers()):
        checked(fn, (TABLE,), layout, mesh=X2Y2, data=(data.astype(np.float32),))


def both(x):
    x = x.array
    return x.max(1), x.argmax(1), x.argmin(1), jax.nn.softmax(x, 1), x.min(1)


@pytest.mark.parametrize("dtype", [ml.f32, ml.bf16, ml.i32, ml.u8])
@pytest.mark.parametrize(("mesh", "layout"), [(X4, "b:x"), (X2Y2, "a:x b:y"), (X2Y2, "b:y+x"), (ml.mesh(x=8), "b:x")])
def test_the_greatest_and_its_place_share_it(mesh, layout, dtype):
    def fn(x):
        return x.array.max(1), x.array.argmax(1), x.array.argmin(1), x.array.min(1)

    plan = checked(fn, (dtype[A, B],), layout, mesh=mesh)
    # The greatest, the least, and two places.
    assert len(plan.collectives) == 4


@pytest.mark.parametrize(("size", "devices"), [(16, 8), (8, 8), (13, 4), (6, 4)])
def test_they_share_it_with_a_softmax_on_shards_of_one_and_on_padded_ones(size, devices):
    program = ml.trace(both, ml.f32[A, ml.Dim("b", size)])
    plan = program.plan(ml.mesh(x=devices), "b:x", pad=True)
    data = numbers()[:, :size]
    for given in ((), (data,)):
        report = plan.check(*given)
        assert report.ok, f"{report}\n{plan.explain()}"
    assert [kind for kind, *_ in moved(plan)] == ["all-reduce"] * 5
