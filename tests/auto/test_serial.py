"""Axes in time are left out of searches for what devices send, and of presets."""

import pytest

import meshlab as ml
from meshlab.models.zoo import models

Batch, Rows, Cols = ml.dims(batch=8, rows=16, cols=8)
PROGRAM = ml.trace(lambda x, w: ml.dot(x, w, Rows), ml.f32[Batch, Rows], ml.f32[Rows, Cols])


def test_serial_axes_are_left_out_of_the_search_for_live_bytes():
    mesh = ml.mesh(data=2, micro=ml.serial(4))
    found, expected = (ml.auto.layout(PROGRAM, each, objective="live") for each in (mesh, ml.mesh(data=2)))
    assert found.layout == expected.layout
    assert found.plan.mesh == ml.mesh(data=2)
    with pytest.raises(ml.LayoutError, match="no axis `micro`"):
        ml.auto.layout(PROGRAM, mesh, pin="batch:micro", objective="live")


def test_presets_take_the_axis_of_devices():
    model = next(model for model in models() if model.name == "mlp")
    mesh = ml.mesh(devices=2, micro=ml.serial(4))
    expected = ml.layouts.data_parallel(model.trace(), ml.mesh(devices=2))
    assert ml.layouts.data_parallel(model.trace(), mesh) == expected
