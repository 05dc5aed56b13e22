"""Operations of one device: those of products equal what XLA counts."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import meshlab as ml
from meshlab.cost.flops import PRODUCTS, step_flops
from meshlab.cost.setting import Setting
from meshlab.engine.parts import counted
from meshlab.engine.steps import Compute

B, S, E, F = ml.dims(b=8, s=16, e=32, f=64)
X2Y2 = ml.mesh(x=2, y=2)
IMAGES, FILTERS = ml.f32[B, ml.Dim("h", 16), E], ml.f32[ml.Dim("taps", 3), E, F]


def convolved(x, w):
    return lax.conv_general_dilated(x.array, w.array, (1,), "VALID", dimension_numbers=("NHC", "HIO", "NHC"))


def sizes(plan):
    return Setting(plan, {}, plan.grid, ())


def products(plan):
    """The operations of all products of one run on one device."""
    steps = ((step, times) for step, times in counted(plan.planned.steps) if isinstance(step, Compute))
    found = ((step, times) for step, times in steps if step.operation.name in PRODUCTS)
    return sum(times * step_flops(step, sizes(plan)) for step, times in found)


@pytest.mark.parametrize(
    ("fn", "args", "layout"),
    [
        (lambda x, w: x.array @ w.array, (ml.f32[B, E], ml.f32[E, F]), "b:x f:y"),
        (lambda x, w: x.array @ w.array, (ml.f32[B, E], ml.f32[E, F]), "e:x+y"),
        (lambda x, y: jnp.einsum("bse,bfe->bsf", x.array, y.array), (ml.f32[B, S, E], ml.f32[B, F, E]), "b:x s:y"),
        (convolved, (IMAGES, FILTERS), "b:x f:y"),
        (convolved, (IMAGES, FILTERS), "e:x"),
    ],
)
def test_products_count_as_xla_counts_them(fn, args, layout):
    """XLA adds the elements of the all-reduce behind a sum that is split."""
    plan = ml.trace(fn, *args).plan(X2Y2, layout)
    found = plan.compile().cost_analysis()["flops"]
    assert products(plan) == pytest.approx(found, rel=0.07)


def test_a_loop_counts_as_often_as_it_turns():
    def fn(x, w):
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x.array, None, length=5)[0]

    square = ml.named(jax.ShapeDtypeStruct((32, 32), jnp.float32), "e _")
    plan = ml.trace(fn, ml.f32[B, E], square).plan(X2Y2, "b:x")
    assert products(plan) == 5 * 2 * 4 * 32 * 32


def test_what_is_no_product_counts_its_elements():
    plan = ml.trace(lambda x: jnp.tanh(x.array).sum(0), ml.f32[B, E]).plan(X2Y2, "b:x")
    found = [step_flops(step, sizes(plan)) for step in plan.steps if isinstance(step, Compute)]
    assert found == [4 * 32, 4 * 32]
    plan = ml.trace(lambda x, y: (x + y) * 2.0, ml.f32[B, E], ml.f32[B, E]).plan(X2Y2, "b:x")
    assert [step_flops(s, sizes(plan)) for s in plan.steps if isinstance(s, Compute)] == [4 * 32, 4 * 32]
