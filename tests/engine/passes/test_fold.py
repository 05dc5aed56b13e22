"""Padding is folded into the windows that read it, and transposes into the matmuls that read them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from tests.engine.small_programs import X2Y2, X4, checked, moved, sent

N, H, C, M = ml.dims(n=4, h=16, c=4, m=8)
SIGNAL, FILTERS = ml.f32[N, H, C], ml.f32[ml.Dim("t", 3), C, M]
ROW = 4 * 4 * 4


def causal(x, w):
    padded = jnp.pad(x, ((0, 0), (2, 0), (0, 0)))
    return lax.conv_general_dilated(padded, w, (1,), "VALID", dimension_numbers=("NHC", "HIO", "NHC"))


def pooled(x, size, stride, start=0.0, reduction=lax.add):
    return lax.reduce_window(x, start, reduction, (1, size, 1), (1, stride, 1), "SAME")


def test_a_causal_convolution_looks_back_alone():
    plan = checked(lambda x, w: causal(x.array, w.array), (SIGNAL, FILTERS), "h:x")
    assert moved(plan) == [("collective-permute", ("x",), 2 * ROW, 1)]
    assert plan.program.place("out").dims == ("n", "h", "m")


@pytest.mark.parametrize("layout", ["h:x", "h:y+x", "n:x h:y", "h:x c:y"])
def test_what_the_padding_made_is_not_computed_in_the_gradient(layout):
    def fn(x, w, change):
        return jax.vjp(causal, x.array, w.array)[1](change.array)

    plan = checked(fn, (SIGNAL, FILTERS, ml.f32[N, H, M]), layout, mesh=X2Y2)
    assert "all-gather" not in sent(plan)
    assert [op.name for op in plan.program.code.block.operations].count("pad") == 0


@pytest.mark.parametrize(("size", "stride"), [(2, 2), (3, 2), (3, 1), (3, 4)])
def test_the_gradient_of_a_mean_over_windows_exchanges_edges(size, stride):
    def fn(x):
        return x.array - jax.grad(lambda x: jnp.sin(pooled(x, size, stride)).sum())(x.array)

    plan = checked(fn, (SIGNAL,), "h:x")
    assert set(sent(plan)) <= {"collective-permute"}


def test_padding_that_counts_stays():
    ones = lambda x: jnp.pad(x.array, ((0, 0), (2, 0), (0, 0)), constant_values=1)  # noqa: E731
    for fn in (
        lambda x: pooled(ones(x), 3, 1),
        lambda x: pooled(ones(x), 3, 1, -jnp.inf, lax.max),
        lambda x: pooled(jnp.pad(x.array, ((0, 0), (2, 0), (0, 0))), 3, 1, -jnp.inf, lax.max),
    ):
        assert "all-gather" in sent(checked(fn, (SIGNAL,), "h:x"))


def test_padding_of_what_does_not_slide_stays():
    def fn(x, w):
        padded = jnp.pad(x.array, ((2, 2), (1, 1), (0, 0)))
        return lax.conv_general_dilated(padded, w.array, (1,), "VALID", dimension_numbers=("NHC", "HIO", "NHC"))

    checked(fn, (SIGNAL, FILTERS), "c:x", mesh=X4)


def test_a_table_that_is_looked_up_and_multiplied_transposed_is_gathered_once():
    V, E = ml.dims(v=16, e=8)

    def fn(table, ids):
        return jnp.tanh(table.array[ids.array]) @ table.array.T

    plan = checked(fn, (ml.f32[V, E], ml.i32[N]), {"n": "x", "table": {"e": "x"}}, mesh=X4)
    assert moved(plan) == [("all-gather", ("x",), 16 * 8 * 4 // 4, 1)]
    assert [op.name for op in plan.program.code.block.operations].count("transpose") == 0


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("layout", ["n:x", "h:x", "c:x", "n:x h:y", "c:y h:x"])
def test_batched_and_contracted_axes_may_be_turned(layout, turned):
    """[n, h, c] read as [h, c, n], in either place: batch h, contracted c, free n."""
    numbers = (((1,), (1,)), ((0,), (0,)))

    def fn(x, y):
        a, b = (x.array.transpose(1, 2, 0), y.array) if turned else (y.array, x.array.transpose(1, 2, 0))
        return lax.dot_general(a, b, numbers)

    plan = checked(fn, (SIGNAL, ml.f32[H, C, M]), layout, mesh=X2Y2)
    assert [op.name for op in plan.program.code.block.operations].count("transpose") == 0


def test_a_product_whose_axes_would_change_places_reads_what_is_transposed():
    def fn(x, w):
        return lax.dot_general(x.array.transpose(1, 0, 2), w.array, (((2,), (0,)), ((), ())))

    plan = checked(fn, (SIGNAL, ml.f32[C, M]), "n:x h:y", mesh=X2Y2)
    assert plan.program.place("out").dims == ("h", "n", "m")
    assert [op.name for op in plan.program.code.block.operations].count("transpose") == 1


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "bfloat16"])
def test_nothing_is_sent_for_what_has_no_elements(dtype):
    """Edges of nothing, as `jnp.pad` makes them for a dim that it does not pad."""

    def fn(x):
        x = x.astype(dtype)
        return jnp.pad(x, ((0, 0), (1, 1)), mode="edge"), jnp.sort(x, 0)[:0], jnp.concatenate([x[:0], x]) * x

    x = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    program = ml.trace(fn, ml.named(x, "a b"))
    for layout in ("a:x", "b:x", "a:x b:y"):
        report = program.plan(ml.mesh(x=2, y=2), layout).check(x)
        assert report.ok, f"{layout}: {report}"
    plan = ml.trace(lambda x: jnp.sort(x[2:] * x.max(), 0)[:0], ml.named(x, "a b")).plan(ml.mesh(x=2), "a:x")
    assert plan.check(x).ok
    assert not plan.collectives
