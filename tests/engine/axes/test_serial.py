"""A serial axis has a size and no devices."""

import dataclasses
import json

import pytest

import meshlab as ml
from meshlab.engine.axes.serial import Serial
from meshlab.engine.specs.in_time import accumulator_dtype, part_in_time, without
from meshlab.engine.specs.spec import Spec

MESH = ml.mesh(data=2, micro=ml.serial(8), model=2)


def test_devices_are_counted_without_it():
    assert MESH.size == 4
    assert dict(MESH.axes) == {"data": 2, "micro": 8, "model": 2}
    assert MESH.devices == ml.mesh(data=2, model=2)
    assert dict(MESH.in_time) == {"micro": Serial(8)}
    assert MESH.coordinates(3) == {"data": 1, "model": 1}
    assert ml.mesh(data=2).devices == ml.mesh(data=2)


def test_it_is_told_apart_from_an_axis_of_devices():
    assert ml.mesh(micro=ml.serial(8)) != ml.mesh(micro=8)
    assert ml.mesh(micro=ml.serial(8)) != ml.mesh(micro=ml.serial(8, reduce="each"))
    assert str(MESH) == "data=2 × micro=serial(8) × model=2"
    assert MESH.resized({"micro": 4, "data": 8}) == ml.mesh(data=8, micro=ml.serial(4), model=2)
    assert str(ml.mesh(micro=ml.serial(1))) == "micro=serial(1)"


def test_a_machine_is_filled_by_axes_of_devices():
    mesh = ml.mesh("v5e:2x2", data=2, micro=ml.serial(8), model=2)
    assert mesh.on == ml.mesh("v5e:2x2", data=2, model=2).on
    assert ml.lay(mesh, model=0).shape == mesh.shape


def test_as_data():
    assert Serial(8).to_dict() == {"serial": 8}
    assert Serial(8, "each", "once").to_dict() == {"serial": 8, "reduce": "each", "gather": "once"}


@pytest.mark.parametrize("size", [Serial(8), Serial(2, "each"), Serial(2, None, "once"), Serial(4, "once", "each")])
def test_a_mesh_is_made_again_of_its_data(size):
    mesh = ml.mesh(data=2, micro=size, model=2)
    assert ml.mesh(**mesh.to_dict()) == mesh
    assert ml.mesh(**json.loads(json.dumps(mesh.to_dict()))) == mesh
    assert ml.mesh("v5e:2x2", **mesh.to_dict()).devices.on is not None


@pytest.mark.parametrize("size", [{"serial": 0}, {"size": 8}, {}, {"serial": 8, "reduce": "no"}, {"serial": 2, "x": 1}])
def test_data_of_no_serial_axis_are_refused(size):
    message = r"""axis `micro` was given the size \{.*; a serial axis has \{"serial": 8\}, and "reduce" and"""
    with pytest.raises(ml.MeshError, match=message):
        ml.mesh(data=2, micro=size)


@pytest.mark.parametrize("size", [0, -1, 2.5, "8", None, True])
def test_an_invalid_size_is_refused(size):
    with pytest.raises(ml.MeshError, match=r"ml\.serial\(\) was given the size .*at least 1. Write ml\.serial\(8\)"):
        ml.serial(size)


def test_an_invalid_option_is_refused_with_the_size():
    with pytest.raises(ml.MeshError, match=r"the size 0.*and reduce='never', which must be \"once\", \"each\" or None"):
        ml.serial(0, reduce="never")


def test_no_collective_goes_over_it():
    mesh = ml.mesh("v5e:2x2", data=4, micro=ml.serial(8))
    with pytest.raises(ml.HardwareError, match="`micro` is a serial axis: .* nothing is sent over it.*`data`"):
        ml.collective_time("all-reduce", 1e6, mesh, "micro")


def test_specs_without_it():
    spec = Spec((("data", "micro"), ()), ("model",))
    assert without(spec, "micro") == Spec((("data",), ()), ("model",))
    assert without(spec, "pipe") is spec
    assert part_in_time(spec, "micro") == (0, False)
    assert part_in_time(spec, "model") == (None, True)


def test_sums_have_32_bits_at_least():
    dtypes = [accumulator_dtype(each.dtype) for each in (ml.bf16[()], ml.f16[()], ml.f32[()], ml.i32[()])]
    assert [str(dtype) for dtype in dtypes] == ["float32", "float32", "float32", "int32"]


def test_a_mesh_is_frozen_with_it():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ml.serial(8).size = 4  # type: ignore[misc]
