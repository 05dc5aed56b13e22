"""Per-shard implementations are traced once for operations alike, and what they send is counted each time."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.engine.plans.per_shard_collectives import traced_implementations
from meshlab.models.operation_models import operations

A, B = ml.dims(a=4, b=8)


def plan_of(fn):
    """A plan of a function of two arrays, split along b."""
    program = ml.trace(lambda x, y: fn(x.array, y.array), ml.f32[A, B], ml.f32[A, B])
    return program.plan(ml.mesh(m=2), "b:m")


def test_operations_alike_have_one_form_and_send_each_their_own():
    plan = plan_of(lambda x, y: (x.max(1), y.max(1)))
    assert [c.kind for c in plan.collectives] == ["all-reduce", "all-reduce"]
    assert len(traced_implementations(plan.program)) == 1
    # What is counted of them serves for their costs.
    assert plan.memory.peak_bytes > 0
    assert len(traced_implementations(plan.program)) == 1
    assert plan.check().ok


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: (x.max(1), y.min(1)),
        lambda x, y: (jnp.roll(x, 1, 1), jnp.roll(y, 2, 1)),
        lambda x, y: (x.max(1), y[:2].max(1)),
        lambda x, y: (x.max(1), y.astype(jnp.bfloat16).max(1)),
        lambda x, y: (jax.lax.cumsum(x, 1), jax.lax.cumsum(y, 1, reverse=True)),
        lambda x, y: (jnp.pad(x, ((0, 0), (1, 1))), jnp.pad(y, ((0, 0), (1, 1)), constant_values=2.0)),
    ],
    ids=["primitives", "parameters", "shapes", "dtypes", "directions", "literals"],
)
def test_operations_that_differ_have_forms_of_their_own(fn):
    plan = plan_of(fn)
    assert plan.collectives
    assert len(traced_implementations(plan.program)) >= 2
    assert plan.check().ok


def test_another_layout_has_forms_of_its_own():
    plan = plan_of(lambda x, _: x.max((0, 1)))
    again = plan.program.plan(ml.mesh(m=2), "a:m")
    wider = plan.program.plan(ml.mesh(m=4), "b:m")
    assert [p.check().ok for p in (plan, again, wider)] == [True] * 3
    assert len(traced_implementations(plan.program)) == 3


@pytest.mark.parametrize(("gather", "times"), [("once", 1), ("each", 2)])
def test_of_what_each_iteration_gathers_it_is_sent_in_each(gather, times):
    """The bias is gathered over `x`, and then its halves are exchanged over `y`."""
    model = next(model for model in operations() if model.name == "documents")
    core = {"heads": "x", "kv": "zigzag(y)", "seq": "zigzag(y)"}
    layout = {"batch": "t", "kv": "x+y", "seq": "x+y", "@core": core}
    plan = ml.trace(model.step, *model.shapes).plan(ml.mesh(x=2, y=2, t=ml.serial(2, gather=gather)), layout)
    of_bias = [c.times for c in plan.collectives if c.value in ("bias", "halves of bias")]
    assert of_bias == [times] * 3, "a permute, an all-gather, and the exchange of halves"
    assert plan.check(*model.data(0)).ok
