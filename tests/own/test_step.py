"""What XLA's program takes on a machine, by the models of plans: as long, and as much memory, if both are the same."""

from __future__ import annotations

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import meshlab as ml
from meshlab.cost.peak_memory.memory import memory_of
from meshlab.engine.devices import devices
from meshlab.models import zoo
from meshlab.own.compiled import Memory
from meshlab.own.naming.errors import OwnError
from meshlab.own.step import Step

ON = ml.mesh("h100:1x8", data=8)


def jax_mesh() -> Mesh:
    """Made anew: another file may have simulated other devices since."""
    return Mesh(np.array(devices(8)), ("data",), axis_types=(AxisType.Auto,))


def model(name: str) -> ml.Program:
    return next(each for each in zoo.models() if each.name == name).trace()


def planned(name: str, preset: str) -> ml.Plan:
    program = model(name)
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
    beside = ml.explain(plan).beside
    assert (beside.planned_peak, beside.inserted_peak) == (plan.memory.peak_bytes, plan.memory.peak_bytes)


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


@pytest.mark.parametrize("preset", ["data_parallel", "fsdp", "tensor_parallel"])
def test_the_peak_is_that_of_xla_s_program(preset):
    """Without a machine the model is that of XLA for CPUs, which has compiled it."""
    program, mesh = model("mlp"), ml.mesh(data=8)
    axis = {"model": "data"} if preset == "tensor_parallel" else {"data": "data"}
    report = ml.explain(program.plan(mesh, getattr(ml.layouts, preset)(program, mesh, **axis)))
    assert report.peak_bytes == pytest.approx(report.memory.total, rel=0.01)
    assert report.beside.inserted_peak == report.peak_bytes
    (row,) = [line for line in str(report.beside).splitlines() if "peak memory per device" in line]
    assert row.split()[-2:] == [f"{report.beside.planned_peak:,}", f"{report.peak_bytes:,}"]


def test_the_machine_s_model_predicts_the_peak():
    plan = planned("block", "tensor_parallel")
    beside = ml.explain(plan).beside
    assert beside.planned_peak == plan.memory.peak_bytes != memory_of(plan, "cpu").peak_bytes


def test_what_the_model_is_wrong_about_has_no_peak():
    """XLA has allocated half as much as the model says; the rest of the comparison stands."""
    report = ml.explain(planned("mlp_sgd", "data_parallel"))
    small = dataclasses.replace(report.made, memory=Memory(1, 1, report.peak_bytes // 2))
    less = dataclasses.replace(report, made=small)
    with pytest.raises(OwnError, match="its peak memory has no prediction"):
        _ = less.peak_bytes
    assert less.beside.inserted_peak is None
    assert any("its peak memory has no prediction" in note for note in less.beside.notes)
    assert less.beside.inserted_step == report.step
    data = json.loads(less.to_json())
    assert (data["peak_bytes"], data["step"]["upper"]) == (None, report.step.upper)
    assert len(data["unpriced"]) == 1


def test_a_mistake_in_a_prediction_leaves_the_rows(monkeypatch: pytest.MonkeyPatch):
    def fail(*_arguments):
        raise KeyError(17)

    monkeypatch.setattr("meshlab.own.report.as_plan", fail)
    report = ml.explain(planned("mlp_sgd", "data_parallel"))
    assert report.beside.rows
    assert report.beside.inserted_step is report.beside.inserted_peak is None
    assert [note for note in report.beside.notes if "KeyError(17)" in note]
    assert json.loads(report.to_json())["step"] is None


def test_fsdp_over_one_axis_uses_the_other_too():
    """XLA divides matmuls over devices that have the same: of a gradient, over those of `model`."""
    mesh = ml.mesh("h100:1x8", data=2, model=4)
    program = model("block")
    report = ml.explain(program.plan(mesh, ml.layouts.fsdp(program, mesh, data="data")))
    with pytest.raises(OwnError, match=r"multiplies 1\.02 MFLOPs on a device, its shardings ask for 1\.47 MFLOPs"):
        _ = report.step
    assert report.peak_bytes == pytest.approx(report.memory.total, rel=0.2)


def test_json_has_the_step_and_the_peak_on_a_machine():
    report = ml.explain(jax.jit(jnp.matmul), given((64, 32), None, "data"), given((32, 16), "data"), mesh=ON)
    data = json.loads(report.to_json())
    assert data["step"]["upper"] == report.step.upper
    assert data["peak_bytes"] == report.peak_bytes
    assert data["unpriced"] == []
