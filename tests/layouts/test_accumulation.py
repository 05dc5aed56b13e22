"""Gradient accumulation as a layout, alone and with every other technique: the serial axis comes last."""

import pytest

import meshlab as ml
from meshlab.models.zoo import models

MODELS = {model.name: model for model in models()}
MESH = ml.mesh(data=2, model=2, micro=ml.serial(2))


@pytest.fixture(scope="module")
def program():
    return MODELS["mlp_adamw"].trace()


@pytest.mark.parametrize("preset", ["data_parallel", "fsdp", "zero1", "zero2", "tensor_parallel"])
def test_it_goes_with_every_other_preset(program, preset):
    other = getattr(ml.layouts, preset)(program, MESH)
    micro = ml.layouts.accumulate(program, MESH)
    both = other & micro
    assert both.rules["batch"] == (*other.rules.get("batch", ()), "micro")
    assert both == micro & other
    assert both == (both & micro) == (both & other)
    report = program.plan(MESH, both).check()
    assert report.ok, report


def test_gradients_are_reduced_once(program):
    layout = ml.layouts.data_parallel(program, MESH) & ml.layouts.accumulate(program, MESH)
    plan, plain = program.plan(MESH, layout), program.plan(MESH, "batch:data")
    assert sorted((c.kind, c.payload_bytes, c.times) for c in plan.collectives) == sorted(
        (c.kind, c.payload_bytes, c.times) for c in plain.collectives
    )
    assert all("added up over 2 micro-batches, reduced once" in c.because for c in plan.collectives)


def test_groups_of_the_batch_are_on_the_axis_as_well():
    assert ml.layouts.accumulate(MODELS["moe_sgd"].trace(), MESH).to_dict() == {"batch": "micro", "groups": "micro"}


def test_what_is_missing_is_said(program):
    with pytest.raises(ml.LayoutError, match=r"no serial axis\. Add one: ml\.mesh\(data=2, micro=ml\.serial\(8\)\)"):
        ml.layouts.accumulate(program, ml.mesh(data=2))
    with pytest.raises(ml.LayoutError, match=r"micro='mico' is not a serial axis of the mesh.*Did you mean `micro`\?"):
        ml.layouts.accumulate(program, MESH, micro="mico")
    two = ml.mesh(a=ml.serial(2), b=ml.serial(2))
    with pytest.raises(ml.LayoutError, match="The mesh has several serial axes. Its serial axes are `a`, `b`"):
        ml.layouts.accumulate(program, two)
    assert ml.layouts.accumulate(program, two, micro="b").to_dict() == {"batch": "b"}


def test_two_layouts_that_differ_on_devices_still_conflict(program):
    micro = ml.layouts.accumulate(program, MESH)
    with pytest.raises(ml.LayoutError, match=r"`batch` is on `data\+micro` in one and on `model` in the other"):
        _ = (micro & "batch:data") & "batch:model"
