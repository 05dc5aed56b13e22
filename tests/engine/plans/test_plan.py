"""Plans say where everything lies, what it takes, and why it moves."""

import json

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.specs.layout import LayoutLike
from meshlab.models.basic import mlp
from meshlab.models.parts.initial import shapes
from tests.engine.small_programs import X4, A, B, C

# Mesh TensorFlow's README: image_batch [100, 28, 28, 3] on a mesh of 2 x 4.
Images = ml.dims(batch=100, rows=28, cols=28, channels=3)
MESH = ml.mesh(processor_rows=2, processor_cols=4)
PROGRAM = ml.trace(lambda images: images * 2.0, ml.f32[Images])


def shard(layout, coordinates):
    plan = PROGRAM.plan(MESH, layout)
    device = next(d for d in range(8) if tuple(MESH.coordinates(d).values()) == coordinates)
    return plan.shard("images", device)


def test_slices_are_those_of_mesh_tensorflows_readme():
    whole = ((0, 100), (0, 28), (0, 28), (0, 3))
    assert shard(None, (1, 2)) == whole
    for row in (0, 1):
        assert shard("batch:processor_cols", (row, 3)) == ((75, 100), *whole[1:])
    tile = shard("rows:processor_rows cols:processor_cols", (0, 1))
    assert tile == ((0, 100), (0, 14), (7, 14), (0, 3))


@pytest.mark.parametrize("layout", ["batch:processor_rows rows:processor_rows", "channels:processor_rows"])
def test_what_mesh_tensorflows_readme_calls_illegal_is(layout):
    with pytest.raises(ml.LayoutError):
        PROGRAM.plan(MESH, layout)


@pytest.mark.parametrize("layout", ["batch:x+y", "batch:y+x", "batch:x rows:y", {"images": {"rows": "y+x"}}])
def test_shards_are_what_the_devices_hold(layout):
    program = ml.trace(lambda images: images + 0.5, ml.f32[ml.dims(batch=8, rows=8)], carry={"images": 0})
    plan = program.plan(ml.mesh(x=2, y=2), layout)
    data = np.arange(64, dtype=np.float32).reshape(8, 8)
    out = plan.run(data).array
    for device, piece in zip(out.sharding.mesh.devices.flat, range(4), strict=True):
        (local,) = [s.data for s in out.addressable_shards if s.device == device]
        index = tuple(slice(*r) for r in plan.shard("out", piece))
        np.testing.assert_array_equal(local, data[index] + 0.5)


def test_a_device_or_a_place_that_is_not_there():
    with pytest.raises(ml.MeshError, match="Device 8 was asked for"):
        PROGRAM.plan(MESH).shard("images", 8)
    with pytest.raises(ml.MeshlabError, match="There is no value at `image`. Did you mean `images`?"):
        PROGRAM.plan(MESH).spec("image")


def test_specs_of_values_are_those_that_are_computed():
    def fn(x, y):
        product = ml.dot(x, y, "b")
        return ml.relu(product).sum("a")

    program = ml.trace(fn, ml.f32[A, B], ml.f32[B, C])
    plan = program.plan(ml.mesh(x=2, y=2), "a:x b:y")
    product = next(v for v in program.values if v.label == "product")
    # It was a partial sum over y, and is resolved, once, before the relu.
    assert plan.spec(product) == ml.Spec((("x",), ()))
    assert plan.spec("x").splits == (("x",), ("y",))
    assert plan.spec(program.place("y")).splits == (("y",), ())


def test_memory_is_that_of_the_compiled_program():
    config = mlp.Config(16, 8, 8, 32, 8)
    program = ml.trace(mlp.step, shapes(mlp.init, config), *mlp.inputs(config))
    plan = program.plan(
        ml.mesh(data=2, model=2), {"batch": "data", "hidden": "model", "params/w2": {"classes": "data"}}
    )
    memory, analysis = plan.stored, plan.compile().memory_analysis()
    assert analysis is not None
    assert memory.argument_bytes == analysis.argument_size_in_bytes
    w1, w2 = 8 * 8 * 32 * 4 // 2, 32 * 8 * 4 // 4
    assert dict(memory.parts) == {
        "params": w1 + w2,
        "images": 16 * 8 * 8 * 4 // 2,
        "labels": 16 * 4 // 2,
        "out/0": 4,
        "out/1": w1 + w2,
    }
    assert memory.output_bytes == 4 + w1 + w2


def simple(layout: LayoutLike = "b:x"):
    def fn(x, y):
        logits = ml.dot(x, y, "b")
        return ml.relu(logits)

    return ml.trace(fn, ml.f32[A, B], ml.f32[B, C]).plan(X4, layout)


def test_an_explanation_has_the_line_the_cause_and_the_remedy():
    (row,) = simple().explain().rows
    assert (row.kind, row.axes, row.dims, row.dtype) == ("all-reduce", ("x",), ("a", "c"), "float32")
    assert (row.payload_bytes, row.wire_bytes, row.times) == (256, 384, 1)
    assert row.value == "logits"
    assert row.source is not None
    assert row.source.code == 'logits = ml.dot(x, y, "b")'
    assert row.because == "`b` is summed while split over `x`."
    assert row.remedy.startswith("Take `b` off `x`")
    assert "all-reduce over x · logits [a c] · 256 B payload, 384 B sent · test_plan.py:" in str(simple().explain())
    nothing = "No device sends anything: the plan has no collectives."
    assert str(simple(None).explain()) == f"{nothing}\nEach device does 100% of the FLOPs; an even split would be 25%."


def test_what_is_stored_otherwise_is_explained_by_its_place():
    (row,) = simple({"y": {"c": "x"}}).explain().rows
    assert row.kind == "all-gather"
    assert row.because == "`y` is stored with `c` split over `x`; `dot_general` computes with it whole."
    (row,) = simple({"a": "x", "out": {"a": None}}).explain().rows
    assert row.because == "`out` is stored with `a` whole, but it is made split over `x`."
    assert row.remedy == 'Store it split: {"out": {"a": "x"}}.'


def test_the_greatest_over_a_split_axis_is_explained():
    plan = ml.trace(lambda x: x.max("a"), ml.f32[A, B]).plan(X4, "a:x")
    (row,) = plan.explain().rows
    assert row.because == "The greatest value over `a` is taken while it is split over `x`."
    plan = ml.trace(lambda x: x.array.min(0), ml.f32[A, B]).plan(X4, "a:x")
    assert "The least value over `a`" in plan.explain().rows[0].because


def test_a_plan_is_json_that_adds_up():
    plan = simple()
    written = json.loads(plan.to_json())
    assert written["mesh"] == {"x": 4}
    assert written["layout"] == {"b": "x"}
    assert written["memory"] == dict(plan.stored.parts)
    assert written["wire_bytes"] == plan.wire_bytes == sum(c["wire_bytes"] * c["times"] for c in written["collectives"])
    assert written["collectives"][0]["source"].startswith("test_plan.py:")


def test_a_plan_shows_itself():
    text = str(simple())
    for part in ("x=4", "b:x", "1 a step", "384 B a step", "over x"):
        assert part in text
    assert "<table>" in simple()._repr_html_()
    # A notebook shows what a plan is by its `repr`.
    assert repr(simple()) == text


def test_html_is_escaped():
    plan = ml.trace(lambda x: x * 2.0, ml.f32[A]).plan(X4)
    assert "nothing is sharded" in plan._repr_html_()
    assert "<script" not in plan._repr_html_()


def test_programs_are_not_changed_by_planning():
    program = ml.trace(lambda x: jax.numpy.tanh(x.array).sum(0), ml.f32[A, B])
    first = program.plan(X4, "a:x")
    program.plan(X4, "b:x")
    again = program.plan(X4, "a:x")
    assert [str(c) for c in first.collectives] == [str(c) for c in again.collectives]
