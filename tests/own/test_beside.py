"""A plan beside XLA's program for its shardings, and what collectives cost on a machine."""

from __future__ import annotations

import json

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

pytestmark = pytest.mark.share(2, of="file")

MACHINE = "h100:1x8"


def model(name: str) -> ml.Program:
    return next(each for each in zoo.models() if each.name == name).trace()


@pytest.mark.parametrize("name", ["mlp_sgd", "block", "transformer_sgd"])
def test_both_send_what_the_plan_and_plan_xla_say(name):
    program, mesh = model(name), ml.mesh(data=8)
    plan = program.plan(mesh, ml.layouts.fsdp(program, mesh, data="data"))
    report = ml.explain(plan)
    assert report.beside.planned == pytest.approx(plan.wire_bytes)
    assert report.beside.inserted == pytest.approx(report.wire_bytes)
    assert report.wire_bytes == pytest.approx(plan.xla("stored").inserted_wire_bytes)
    assert report.seconds is None
    assert "sent per device" in str(report)
    assert json.loads(report.to_json())["beside"]["rows"]


def test_a_line_at_which_both_send_the_same():
    Batch, Embed, Hidden = ml.dims(batch=8, embed=16, hidden=32)
    program = ml.trace(lambda x, w: ml.dot(x, w, "embed"), ml.f32[Batch, Embed], ml.f32[Embed, Hidden])
    report = ml.explain(program.plan(ml.mesh(model=4), "embed:model"))
    (row,) = report.beside.rows
    assert row.is_equal
    assert row.planned == 2 * 3 / 4 * 8 * 32 * 4
    assert (row.kind, row.axes) == ("all-reduce", ("model",))
    assert row.source.startswith("test_beside.py:")


def test_tags_that_have_rules_are_held():
    """Without its constraint XLA would leave the tagged value whole."""
    Batch, Embed, Hidden = ml.dims(batch=8, embed=16, hidden=32)

    def step(x, w):
        return ml.square(ml.tag(ml.dot(x, w, "embed"), "middle")).sum()

    program = ml.trace(step, ml.f32[Batch, Embed], ml.f32[Embed, Hidden])
    mesh = ml.mesh(model=4)
    assert not ml.explain(program.plan(mesh, "")).collectives
    (only,) = ml.explain(program.plan(mesh, {"middle": {"hidden": "model"}})).collectives
    assert only.kind == "all-reduce"
    assert only.started_by[0].startswith("the constraint P(None, 'model')")


def test_collectives_are_priced_as_a_plan_prices_them():
    program, mesh = model("transformer_sgd"), ml.mesh(MACHINE, data=8)
    plan = program.plan(mesh, ml.layouts.fsdp(program, mesh, data="data"))
    report = ml.explain(plan)
    sums = [c for c in report.collectives if c.kind == "all-reduce"]
    assert sums
    for c in sums:
        assert c.seconds == pytest.approx(ml.collective_time("all-reduce", c.payload_bytes, mesh, c.axes or ()))
    assert report.seconds == pytest.approx(sum((c.seconds or 0) * c.times for c in report.collectives))
    rows = report.beside.rows
    assert sum(row.inserted_seconds or 0 for row in rows) == pytest.approx(report.seconds)
    gathered = [c for c in plan.collectives if c.kind == "all-gather"]
    expected = sum(ml.collective_time(c.kind, 8 * c.payload_bytes, mesh, c.axes) * c.times for c in gathered)
    found = sum(row.planned_seconds or 0 for row in rows if row.kind == "all-gather")
    assert found == pytest.approx(expected)


def test_narrow_floats_are_priced_as_the_machine_sends_them():
    """XLA for CPUs sums bfloat16 as float32; the machine would send half of that."""
    mesh = Mesh(np.array(devices(8)), ("data",), axis_types=(AxisType.Auto,))

    def seconds(dtype):
        sharding = NamedSharding(mesh, P(None, "data"))
        x = jax.ShapeDtypeStruct((64, 1024), dtype, sharding=sharding)
        w = jax.ShapeDtypeStruct((1024, 4096), dtype, sharding=NamedSharding(mesh, P("data")))
        (only,) = ml.explain(jax.jit(jnp.matmul), x, w, mesh=ml.mesh(MACHINE, data=8)).collectives
        assert only.seconds
        return only.payload_bytes, only.seconds

    (wide, slow), (narrow, fast) = seconds(jnp.float32), seconds(jnp.bfloat16)
    assert wide == narrow == 64 * 4096 * 4
    assert fast < slow


def test_casts_of_a_gradient_name_a_mesh_without_axes():
    """JAX gives the cast of a cotangent the sharding of its value, on no mesh where none was set."""
    mesh = Mesh(np.array(devices(8)), ("data",), axis_types=(AxisType.Auto,))
    rows = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(mesh, P("data")))

    def step(w, x):
        narrow = lambda w: (x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).astype(jnp.float32).sum()  # noqa: E731
        return jax.grad(narrow)(w)

    whole = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    assert [c.kind for c in ml.explain(step, whole, rows).collectives] == ["all-reduce"]


def test_lines_say_what_they_save_on_the_machine():
    """A table is split over the batch's axis: without a constraint what is looked up goes on so."""
    mesh = Mesh(np.array(devices(8)).reshape(4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def given(shape, *spec, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))

    def lookup(table, tokens, up):
        rows = table[tokens]
        hidden = jnp.tanh(rows @ up)
        return hidden

    arguments = (
        given((512, 64), None, "data"),
        given((32, 64), "data", dtype=jnp.int32),
        given((64, 256), None, "model"),
    )
    report = ml.explain(jax.jit(lookup), *arguments, mesh=ml.mesh(MACHINE, data=4, model=2))
    (line,) = report.lines.lines
    assert line.saves.sent == report.lines.before.sent - report.lines.after.sent > 0
    assert report.seconds
    assert report.lines.after.seconds
    assert line.saves.seconds == pytest.approx(report.seconds - report.lines.after.seconds)
    assert line.saves.memory == report.memory.total - report.lines.after.memory
    assert " of collectives" in str(line)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (lambda plan, rows: ml.explain(plan, rows), "takes no arguments, kwargs, names or mesh beside the plan"),
        (lambda plan, rows: ml.explain(plan, kwargs={"x": rows}), "takes no arguments, kwargs, names or mesh"),
        (lambda plan, rows: ml.explain(plan, mesh=ml.mesh(model=4)), "takes no arguments, kwargs, names or mesh"),
        (
            lambda plan, rows: ml.explain(jnp.sum, rows, mesh=ml.mesh(MACHINE, other=8)),
            "was given the mesh other=8, but the shardings are on `data=8`",
        ),
        (lambda plan, rows: ml.explain(jnp.sum, rows).beside, r"report\.beside compares .* ml\.explain\(plan\)"),
    ],
)
def test_what_does_not_fit_is_refused(asked, says):
    Batch, Embed = ml.dims(batch=8, embed=16)
    plan = ml.trace(lambda x: x.sum("batch"), ml.f32[Batch, Embed]).plan(ml.mesh(model=4), "batch:model")
    mesh = Mesh(np.array(devices(8)), ("data",), axis_types=(AxisType.Auto,))
    rows = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(mesh, P("data")))
    with pytest.raises(OwnError, match=says):
        asked(plan, rows)


def test_an_axis_in_time_is_no_axis_of_xla_s():
    Batch, Embed = ml.dims(batch=8, embed=16)
    mesh = ml.mesh(data=2, micro=ml.serial(2))
    plan = ml.trace(lambda x: ml.square(x), ml.f32[Batch, Embed]).plan(mesh, "batch:data+micro")
    with pytest.raises(OwnError, match="has no serial axes"):
        ml.explain(plan)
