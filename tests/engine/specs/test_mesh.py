"""Meshes number their devices row-major, as Mesh TensorFlow does."""

import pytest

import meshlab as ml
from meshlab.engine.errors import MeshError
from meshlab.engine.specs.mesh import Mesh, groups_of


def test_devices_are_numbered_row_major():
    mesh = ml.mesh(r=2, c=4)
    assert mesh.size == 8
    assert dict(mesh.axes) == {"r": 2, "c": 4}
    assert [mesh.coordinates(d) for d in (0, 1, 4, 7)] == [
        {"r": 0, "c": 0},
        {"r": 0, "c": 1},
        {"r": 1, "c": 0},
        {"r": 1, "c": 3},
    ]
    # Groups along r, as Mesh TensorFlow's processor_groups has them.
    columns = [[d for d in range(8) if mesh.coordinates(d)["c"] == c] for c in range(4)]
    assert groups_of(mesh, ["r"]).tolist() == columns == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_a_mesh_without_axes_is_one_device():
    assert ml.mesh().size == 1
    assert str(ml.mesh()) == "one device"
    assert ml.mesh().coordinates(0) == {}
    assert str(ml.mesh(data=2, model=4)) == "data=2 × model=4"


def test_meshes_are_values():
    assert ml.mesh(x=2, y=4) == ml.mesh(x=2, y=4)
    assert ml.mesh(x=2, y=4) != ml.mesh(y=4, x=2)
    assert len({ml.mesh(x=2), ml.mesh(x=2)}) == 1


def test_no_mesh_is_too_large():
    assert ml.mesh(x=256, y=256).coordinates(65_535) == {"x": 255, "y": 255}


@pytest.mark.parametrize("device", [-1, 8])
def test_a_device_that_is_not_there(device):
    with pytest.raises(MeshError, match=rf"Device {device} was asked for; this mesh \(x=8\) has the devices 0 to 7"):
        ml.mesh(x=8).coordinates(device)


@pytest.mark.parametrize("size", [0, -2, 2.5, "2", True, None])
def test_a_size_is_an_integer_of_at_least_one(size):
    with pytest.raises(MeshError, match="axis `x` was given the size .*; it must be an integer of at least 1"):
        ml.mesh(x=size)


def test_all_problems_of_a_mesh_are_told_at_once():
    with pytest.raises(
        MeshError, match="an axis was named 'a b'.*axis `x` was given the size 0.*axis `x` appears twice"
    ):
        Mesh((("a b", 2), ("x", 0), ("x", 2)))


@pytest.mark.parametrize(
    ("along", "found"),
    [
        (["model"], [[0, 1], [2, 3]]),
        (["data"], [[0, 2], [1, 3]]),
        (["data", "model"], [[0, 1, 2, 3]]),
        (["model", "data"], [[0, 2, 1, 3]]),
        ([], [[0], [1], [2], [3]]),
    ],
)
def test_groups_differ_along_their_axes_alone(along, found):
    assert groups_of(ml.mesh(data=2, micro=ml.serial(3), model=2), along).tolist() == found
