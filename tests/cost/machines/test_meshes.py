"""Meshes on machines: by name and shape, over chips of several devices, nodes and slices, derived or requested."""

import dataclasses

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.machines.attached import attached, file_of
from meshlab.cost.machines.placed import CHIP, Leg, Nodes


def test_a_machine_is_named_with_its_slice():
    assert str(ml.mesh("v5e", data=4, model=4).on) == "Google TPU v5e, 4x4"
    assert ml.mesh(on="v5p:2x2x4", data=4, model=4).on.shape == (2, 2, 4)
    assert ml.mesh("h100:4x8", data=4, model=8).on.nodes == {"data": Nodes(1, 4), "model": Nodes(8, 1)}
    assert ml.mesh("h100:1x4x8", data=4, model=8) == ml.mesh("h100:4x8", data=4, model=8) != ml.mesh(data=4, model=8)
    assert ml.mesh(ml.hardware("v5e"), data=16).on == ml.mesh("v5e", data=16).on
    assert hash(ml.mesh("v5e", data=16)) == hash(ml.mesh(data=16))


def test_a_mesh_tells_its_machine():
    laid = ml.mesh("v5e:4x4", data=16)
    assert repr(laid) == "mesh(data=16) on Google TPU v5e, 4x4"
    assert str(laid) == "data=16 on Google TPU v5e, 4x4"
    assert repr(ml.mesh("v5e:2*4x4", data=8, model=4)) == "mesh(data=8, model=4) on Google TPU v5e, 2 slices of 4x4"
    assert (repr(ml.mesh("v5e")), str(ml.mesh("v5e"))) == (
        "mesh() on Google TPU v5e, 1x1",
        "one device on Google TPU v5e, 1x1",
    )
    assert repr(ml.mesh(data=16)) == "Mesh(shape=(('data', 16),), on=None)"
    assert str(ml.mesh(data=16)) == "data=16"


def test_the_first_axis_goes_over_slices():
    placed = ml.mesh("v5e:2*4x4", data=8, model=4).on
    assert (placed.count, placed.slices) == (2, {"data": 2, "model": 1})
    assert placed.describe("data") == "over 2 slices, 4 along axis 1, a line"
    assert str(placed) == "Google TPU v5e, 2 slices of 4x4"
    # What crosses the data-centre network waits for it: 16 MB of 64 over 3.125e9 bytes/s.
    seconds = ml.collective_time("all-gather", 64e6, ml.mesh("v5e:2*4x4", data=8, model=4), "data")
    assert seconds == pytest.approx(64e6 / 4 * (1 / 2) / 3.125e9 + 1e-5, rel=0.01)


def test_the_last_axis_takes_the_devices_of_a_chip():
    placed = ml.mesh("v7x:2x2x2", data=4, model=4).on
    assert placed.legs["model"] == (Leg(0, 2), Leg(CHIP, 2))
    assert placed.describe("model") == "2 along axis 0, a line, the 2 devices of a chip"
    assert ml.hardware("v7x").flops_per_second("bfloat16") == 2307e12 / 2
    # Both devices of a chip send over its links at once, unless they gather together.
    apart, together = ml.mesh("v7x:4x4x4", data=64, model=2), ml.mesh("v7x:4x4x4", data=128)
    assert ml.collective_time("all-gather", 1e9, apart, "data") == pytest.approx(2 * 1e9 * 63 / 64 / (3 * 2 * 90e9))
    assert ml.collective_time("all-gather", 1e9, together, "data") == pytest.approx(1e9 * 63 / 64 / (3 * 2 * 90e9))
    assert ml.collective_time("all-gather", 1e9, apart, "model") == pytest.approx(1e9 / 2 / 540e9)


def test_a_mesh_lies_as_it_is_requested():
    mesh = ml.mesh("v5e:4x8", data=4, model=8)
    assert mesh.on.describe("model") == "8 along axis 1, a line"
    assert ml.lay(mesh, model=(1,), data=0) == mesh
    folded = ml.lay(ml.mesh("v5e:4x8", data=8, model=4), model=1)
    assert folded.on.legs == {"data": (Leg(1, 2, 4), Leg(0, 4)), "model": (Leg(1, 4),)}
    across = ml.lay(ml.mesh("h100", data=8, model=8), data="inside")
    assert across.on.nodes == {"data": Nodes(8, 1), "model": Nodes(1, 8)}
    assert ml.lay(across, "h200").on.nodes["model"] == Nodes(8, 1)
    assert ml.lay(ml.mesh(data=4, model=4), "v5e:4x4", model=1).on.legs["model"] == (Leg(1, 4),)
    assert ml.lay(ml.mesh(data=8), "v6e:2x4").on.describe("data") == "2 along axis 0, a line, 4 along axis 1, a line"


@pytest.mark.parametrize("machine", ["v2", "v3", "v4", "v7x", "h100"])
def test_one_device_of_a_chip_may_be_used_alone(machine):
    hidden, out = ml.dims(hidden=8192, out=8192)
    program = ml.trace(lambda x, w: ml.dot(x, w, hidden), ml.bf16[hidden], ml.bf16[hidden, out])
    alone, two = program.plan(ml.mesh(machine)), program.plan(ml.mesh(machine, x=2), "out:x")
    assert alone.mesh.on.shape == (1,) * len(alone.mesh.on.shape)
    assert alone.time.communication == {}
    assert two.time.estimate == pytest.approx(alone.time.estimate / 2, rel=0.1)


def test_what_a_mesh_lies_along_may_be_a_number_of_numpy():
    mesh = ml.mesh("v5e:4x8", data=8, model=4)
    assert ml.lay(mesh, model=np.int64(1)).on == ml.lay(mesh, model=1).on  # type: ignore[arg-type]


def test_slices_are_found_on_the_largest_machines_at_once():
    huge = dataclasses.replace(ml.hardware("v5e"), network=ml.Torus.of(10**12, 10**12, link=1e10))
    assert ml.mesh(huge, data=2**20, model=3).on.shape == (1536, 2048)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ml.mesh("h10", data=8), r"There is no machine `h10`. Did you mean `h100`\?"),
        (lambda: ml.mesh("v5e:4,4", data=16), r"`4,4` in `v5e:4,4` is an invalid shape. Write sizes with an x between"),
        (lambda: ml.mesh("v5e:4x4", data=8), r"TPU v5e has no slice 4x4 for this mesh: it has 16 devices, and the"),
        (lambda: ml.mesh("v5e:4x32", data=128), r"axis 1 is 32 long, and must be at most 16"),
        (lambda: ml.mesh("v5e:2x2x2", data=8), r"it has 3 axes, and the machine 2"),
        (lambda: ml.mesh("v5e", data=512), r"No slice of Google TPU v5e has 512 devices: .* `v5e:2\*4x4`"),
        (lambda: ml.mesh("v7x", data=3), r"No slice of Google TPU v7x \(Ironwood\) has 3 devices"),
        (
            lambda: ml.mesh("v5e:4*2x2", data=8, model=3),
            r"no slice 4\*2x2 for this mesh: it has 16 devices",
        ),
        (lambda: ml.mesh(8, data=8), r"A mesh must be placed on a machine's name, .* not 8"),  # type: ignore[arg-type]
        (
            lambda: ml.lay(ml.mesh(data=8), data=0),
            r"The mesh data=8 is on no machine. Write ml.mesh",
        ),
        (lambda: ml.lay(ml.mesh("v5e", data=8), dat=0), r"the mesh has no axis `dat` \(Did you mean `data`\?\)"),
        (
            lambda: ml.lay(ml.mesh("v5e", data=8), data=2),
            r"`data` must be placed along one of the axes `0`, `1` of a slice of Google TPU v5e, .* not 2",
        ),
        (lambda: ml.lay(ml.mesh("v5e", data=8), data=(0, 2)), r"`data` must be placed along .* not \(0, 2\)"),
        (lambda: ml.lay(ml.mesh("v5e", data=8), data=True), r"`data` must be placed along .* not True"),
        (
            lambda: ml.lay(ml.mesh("h100", data=8), data=0),
            r'`data` must be placed "inside" a node or "across" nodes of NVIDIA',
        ),
        (
            lambda: ml.lay(ml.mesh("v5e:2x8", data=8, m=2), data=0),
            r"`data` of 8 does not fit along axis `0`",
        ),
        (
            lambda: ml.lay(ml.mesh("v5e", data=8), data="0"),  # type: ignore[arg-type]
            r"`data` must be placed along .* not '0'",
        ),
        (lambda: ml.lay(ml.mesh("v5e", data=8), data=()), r"`data` must be placed along .* not \(\)"),
        (lambda: ml.lay("v5e", data=0), r"ml.lay was given 'v5e', and needs a mesh: ml.mesh"),  # type: ignore[arg-type]
        (
            lambda: ml.mesh("v5e:0*4x4", data=16),
            r"no slice 0\*4x4 for this mesh: sizes, .* at least 1. Take `v5e:4x4`.$",
        ),
        (
            lambda: ml.mesh("v5e:0x4", data=4),
            r"no slice 0x4 for this mesh: sizes, .* must be at least 1. Take `v5e:2x2`.$",
        ),
        (lambda: ml.mesh("v5e:4x4", data=4), r"the mesh 4. Take `v5e:2x2`, or mesh sizes whose product is 16.$"),
        (lambda: ml.lay(ml.mesh(data=2), "v5e:4x4"), r"the mesh 2. Take `v5e:1x2`, or mesh sizes whose product is 16"),
        (lambda: ml.mesh("v5e:4x4", data=319), r"the mesh 319. Take mesh sizes whose product is 16.$"),
        (lambda: ml.mesh("v5e:4x32", data=319), r"devices, and the mesh 319.$"),
        (lambda: ml.mesh("v5e:" + "9" * 5000, data=16), r"is an invalid shape"),
        (lambda: ml.mesh("v5e:" + "9" * 20 + "x4", data=4), r"A number in it has more than nine digits. Write sizes"),
        (
            lambda: ml.mesh("atached", data=8),
            r"`atached`. Did you mean `attached`\? There are .* `attached` means the attached devices",
        ),
        (lambda: ml.mesh(3, data=8), r"^A mesh must be placed on a machine's name, .* not 3"),  # type: ignore[arg-type]
        (
            lambda: ml.lay(ml.mesh("h100:1x8", data=8), data="across"),
            r"Invalid placement: `data` of 8 cannot be placed \"across\" nodes, and one node of 8 is all",
        ),
        (
            lambda: ml.lay(ml.mesh("h100:2x8", data=16), data="inside"),
            r"Invalid placement: `data` of 16 cannot be placed \"inside\" a node, and one of 8 has room for 8",
        ),
        (
            lambda: ml.lay(ml.mesh("h100:2x8", data=4, model=4), data="inside", model="inside"),
            r"`data` of 4 cannot be placed \"inside\" a node, and one of 8 has room for 2",
        ),
        (lambda: ml.mesh("v3", data=3), r"\(2,048 devices, 2 to a chip\). .* ahead of the shape: `v3:2\*4x4`"),
        (lambda: ml.mesh("h100", data=12), r"12 devices are not a whole number of nodes of 8 .* machine: `h100:3x4`"),
        (lambda: ml.mesh("h100", data=4, model=12), r"48 devices|straddles a node boundary"),
        (lambda: ml.collective_time("all-gather", 1.0, ml.mesh(x=2), "x"), r"ml.collective_time needs a machine, and"),
        (lambda: ml.collective_time("all-gather", 1.0, ml.mesh("v5e", x=2), "y"), r"The mesh has no axis `y`."),
        (lambda: ml.collective_time("all-gather", 1.0, ml.mesh("v5e", x=2), 3), r"`axes` must be .* not 3"),  # type: ignore[arg-type]
        (lambda: ml.collective_time("gather", 1.0, ml.mesh("v5e", x=2), "x"), r"no collective `gather`. Did you mean"),
        (lambda: ml.collective_time(3, 1.0, ml.mesh("v5e", x=2), "x"), r"There is no collective `3`"),  # type: ignore[arg-type]
        (
            lambda: ml.collective_time("all-gather", -1, ml.mesh("v5e", x=2), "x"),
            r"`nbytes` must be the bytes of the full array, .* not -1",
        ),
        (
            lambda: ml.collective_time("all-gather", float("nan"), ml.mesh("v5e", x=2), "x"),
            r"`nbytes` must be .* not nan",
        ),
        (lambda: ml.collective_time("all-gather", 2**2000, ml.mesh("v5e", x=2), "x"), r"a finite number, 0 or more"),
        (lambda: ml.compile_for(3, "v5e:2x2"), r"ml.compile_for was given 3, and needs a plan"),  # type: ignore[arg-type]
        (lambda: ml.collective_time("all-gather", "1", ml.mesh("v5e", x=2), "x"), r"`nbytes` must be .* not '1'"),  # type: ignore[arg-type]
        (
            lambda: ml.collective_time("all-gather", 1, ml.mesh("v5e", x=2), ["x", "x"]),
            r"`axes` must name each mesh axis once",
        ),
    ],
)
def test_what_cannot_be_is_told(make, said):
    with pytest.raises(ml.HardwareError, match=said):
        make()


@pytest.mark.parametrize(
    ("given", "axes", "said"),
    [
        ((3,), {"data": 0}, r"invalid arguments:\n  1\. .*the size 0.*\n  2\. A mesh must be placed on .* not 3"),
        (
            ("nosuch", 3),
            {"data": 0},
            r"  1\. .*given 3 without.*\n  2\. .*the size 0.*\n  3\. .*machine `nosuch`",
        ),
        (("v5e:4,4",), {"a b": 2}, r"  1\. .*named 'a b'.*\n  2\. `4,4` in `v5e:4,4` is an invalid shape"),
    ],
)
def test_all_that_is_wrong_with_a_mesh_is_told_at_once(given, axes, said):
    with pytest.raises(ml.MeshError, match=said):
        ml.mesh(*given, **axes)


def test_what_cannot_be_had_wholly_goes_over_what_nodes_there_are():
    mesh = ml.mesh("h100:2x8", data=4, model=4, one=1)
    assert ml.lay(mesh, data="across", one="across").on.nodes["data"] == Nodes(2, 2)
    assert ml.lay(mesh, data="inside", one="inside").on.nodes["data"] == Nodes(4, 1)


class Accelerator:
    device_kind, platform = "NVIDIA H200", "gpu"


def test_attached_accelerators_are_measured_as_they_are(monkeypatch, tmp_path):
    monkeypatch.setenv("MESHLAB_HOME", str(tmp_path))
    monkeypatch.setattr(jax, "devices", lambda: [Accelerator()] * 8)
    said = (
        r"The attached devices \(NVIDIA H200\) have not .* no .*nvidia-h200.toml. Run `meshlab calibrate` in a terminal"
    )
    with pytest.raises(ml.HardwareError, match=said):
        ml.mesh("attached", data=8)


def test_attached_devices_have_to_be_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("MESHLAB_HOME", str(tmp_path))
    said = (
        r"The simulated devices \(cpu\) have not been measured: .* Run `meshlab calibrate --simulate 2` in a terminal"
    )
    with pytest.raises(ml.HardwareError, match=said):
        ml.mesh("attached", data=2)
    with pytest.raises(ml.HardwareError, match="Run `meshlab calibrate --simulate 64`"):  # no more can be simulated
        ml.mesh("attached", data=512)
    with pytest.raises(ml.HardwareError, match=f"Run `meshlab calibrate --simulate {len(jax.devices())}`"):
        attached()
    path = file_of(jax.devices()[0].device_kind)
    path.write_text("title = ")
    with pytest.raises(ml.HardwareError, match=r"cpu.toml cannot be read"):
        ml.mesh("attached", data=2)
    path.write_text("title = 'mine'\n[sources]\n")
    with pytest.raises(ml.HardwareError, match=r"cpu.toml lacks 'switch'. Compare it with"):
        ml.mesh("attached", data=2)


@pytest.mark.parametrize("text", ["x:4,y:2", "x:4;y:2", " x:4 y:2", "x:4, y:2"])
def test_axes_in_mesh_tensorflows_notation_are_answered_with_keywords(text):
    with pytest.raises(ml.MeshError, match=r"as a text; they must be keywords: ml\.mesh\(x=4, y=2\)"):
        ml.mesh(text)
    with pytest.raises(ml.MeshError, match="they must be keywords"):
        ml.mesh(text, data=8)
