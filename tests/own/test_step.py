"""What XLA's program takes on a machine, by the clock of plans: as long where the programs are the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import meshlab as ml
from meshlab.engine.devices import devices
from meshlab.models import zoo
from meshlab.own.naming.errors import OwnError
from meshlab.own.step import Step

ON = ml.mesh("h100:1x8", data=8)


def jax_mesh() -> Mesh:
    """Made anew: another file may have simulated other devices since."""
    return Mesh(np.array(devices(8)), ("data",), axis_types=(AxisType.Auto,))


def planned(name: str, preset: str) -> ml.Plan:
    program = next(each for each in zoo.models() if each.name == name).trace()
    axis = {"model": "data"} if preset == "tensor_parallel" else {"data": "data"}
    return program.plan(ON, getattr(ml.layouts, preset)(program, ON, **axis))


def given(shape, *spec, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(jax_mesh(), P(*spec)))


def both(plan: ml.Plan) -> tuple[Step, Step]:
    beside = ml.explain(plan).beside
    assert beside.planned_step is not None
    assert beside.inserted_step is not None, beside.notes
    return beside.planned_step, beside.inserted_step


@pytest.mark.parametrize(
    ("name", "preset"),
    [("block", "data_parallel"), ("mlp_sgd", "tensor_parallel"), ("block", "tensor_parallel")],
)
def test_where_both_are_the_same_program_both_take_as_long(name, preset):
    plan = planned(name, preset)
    mine, xla = both(plan)
    assert (xla.compute, xla.flops) == pytest.approx((plan.time.compute, plan.time.flops))
    assert (xla.lower, xla.upper) == pytest.approx((plan.time.lower, plan.time.upper))
    assert vars(xla) == pytest.approx(vars(mine))


def test_xla_sums_at_once_where_the_plan_scales_the_terms_first():
    """`rate * grad` of the terms is a kernel of its own in front of the sum: for both weights."""
    plan = planned("mlp_sgd", "data_parallel")
    mine, xla = both(plan)
    assert xla.communication == pytest.approx(mine.communication)
    assert mine.compute - xla.compute == pytest.approx(2 * float(plan.time.scenario.launch))
    assert "step, if nothing overlaps" in str(ml.explain(plan).beside)


def test_what_every_device_computes_by_itself_counts_on_each():
    """The constraint goes back to what is multiplied: XLA gathers `x`, and each device computes both products."""

    def chain(x, w):
        middle = jax.lax.with_sharding_constraint(x @ w, NamedSharding(jax_mesh(), P()))
        return middle @ w

    arguments = given((64, 32), "data"), given((32, 32))
    report = ml.explain(jax.jit(chain, out_shardings=NamedSharding(jax_mesh(), P())), *arguments, mesh=ON)
    product = 2 * 64 * 32 * 32
    assert report.step.flops == 2 * product
    assert report.step.communication == report.seconds
    assert report.step.upper == report.step.compute + report.step.communication
    split = ml.explain(jax.jit(lambda x, w: x @ w @ w), *arguments, mesh=ON).step
    assert split.flops == 2 * product / 8
    assert split.communication == 0


def test_the_turns_of_a_loop_count():
    def layers(x, weights):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]

    step = ml.explain(jax.jit(layers), given((64, 32), "data"), given((5, 32, 32), None, "data"), mesh=ON).step
    assert step.flops == 5 * 2 * 64 * 32 * 32 / 8
    assert step.communication > 0


def test_a_sum_over_what_is_split_is_divided():
    report = ml.explain(jax.jit(jnp.matmul), given((64, 32), None, "data"), given((32, 16), "data"), mesh=ON)
    assert [c.kind for c in report.collectives] == ["all-reduce"]
    assert report.step.flops == 2 * 64 * 32 * 16 / 8


def test_what_has_no_price():
    arguments = given((64, 32), "data"), given((32, 32))
    with pytest.raises(OwnError, match="needs a machine"):
        _ = ml.explain(jax.jit(jnp.matmul), *arguments).step
    by_hand = jax.shard_map(lambda x: jax.lax.psum(x, "data"), mesh=jax_mesh(), in_specs=P("data"), out_specs=P())
    with pytest.raises(ml.MeshlabError, match="already says what each device does"):
        _ = ml.explain(jax.jit(by_hand), arguments[0], mesh=ON).step
