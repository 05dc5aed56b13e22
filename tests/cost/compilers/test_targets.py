"""What a plan can be compiled for, and what cannot be: told before any compiler starts."""

import dataclasses
import importlib.util
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest
from packaging.requirements import Requirement

import meshlab as ml
from meshlab.cost.compilers import targets
from meshlab.cost.compilers.targets import CompilerError, device_order, gpu_description, gpus
from meshlab.cost.compilers.targets import target as target_of
from meshlab.cost.machines.hardware import HardwareError, hardware
from meshlab.cost.machines.installed_compilers import check_installed
from meshlab.engine.devices import in_order, standing


def target(name, devices):
    return target_of(name, ml.mesh(x=devices))


@pytest.mark.parametrize(
    ("name", "devices", "full", "topology"),
    [
        ("v5e:4x4", 16, "v5e:4x4", "v5e:4x4"),
        ("v5e", 16, "v5e:4x4", "v5e:4x4"),
        ("trillium:2x4", 8, "v6e:2x4", "v6e:2x4"),
        ("v5p:2x2x2", 8, "v5p:2x2x2", "v5p:2x2x2"),
        ("v4:2x2x1", 8, "v4:2x2x1", "v4:2x2x1"),
        ("v4:2x2", 8, "v4:2x2x1", "v4:2x2x1"),
        ("v3", 32, "v3:4x4", "v3:4x4"),
        ("v2:2x2", 8, "v2:2x2", "v2:2x2"),
        ("v7x:2x2x1", 8, "v7x:2x2x1", "tpu7x:2x2x1"),
        ("h100:1x1x8", 8, "h100:1x1x8", "1x1x8"),
        ("h100:2x8", 16, "h100:1x2x8", "1x2x8"),
        ("h100", 4, "h100:1x1x4", "1x1x4"),
        ("b200", 32, "b200:1x4x8", "1x4x8"),
        ("gb200:72", 72, "gb200:1x1x72", "1x1x72"),
    ],
)
def test_names_of_machines_and_shapes(name, devices, full, topology):
    chosen = target(name, devices)
    assert (str(chosen), chosen.topology, chosen.devices) == (full, topology, devices)
    assert chosen.machine is hardware(name.partition(":")[0])
    assert chosen.platform == ("cuda" if chosen.machine.platform == "gpu" else "tpu")


def test_part_of_a_host_is_told_as_such():
    assert target("v5e:1x1", 1).options == {"chips_per_host_bounds": [1, 1, 1]}
    assert target("v6e:1x2", 2).options == {"chips_per_host_bounds": [1, 2, 1]}
    assert target("v5e:2x2", 4).options == {}


@pytest.mark.parametrize(
    ("name", "devices", "message"),
    [
        ("v5x:2x2", 4, r"There is no machine `v5x`. Did you mean `v7x` or `v5p`\?"),
        ("v5e:8", 8, "There is no slice v5e:8x1: hosts have 2 x 2 chips"),
        (
            "v5e:4by4",
            16,
            '`v5e:4by4` has an invalid shape: it must be numbers .*, such as "v5e:4x4"',
        ),
        ("h100:", 8, '`h100:` has an invalid shape: it must be numbers with an `x` between them, such as "h100:1x1x8"'),
        ("v5e:3x3", 9, "There is no slice v5e:3x3: hosts have 2 x 2 chips, and a slice of several hosts"),
        ("v5e:32x32", 1024, "has no slice 32x32 for this mesh: axis 0 is 32 long, and must be at most 16"),
        ("v5p:2x2x2x2", 16, "has no slice 2x2x2x2 for this mesh: it has 4 axes, and the machine 3"),
        ("v5e:4x4", 8, "v5e:4x4 has 16 devices, and the plan's mesh 8. Compile for a slice of 8 devices, or plan on a"),
        ("v4:2x2x1", 4, r"v4:2x2x1 has 8 devices \(2 on each chip\), and the plan's mesh 4"),
        ("h100:1x1x8", 16, "h100:1x1x8 has 8 devices, and the plan's mesh 16"),
        ("h100:16", 16, "has no slice 1x1x16 for this mesh: a node has 8 devices, not 16"),
        ("h100:1x1x1x8", 8, "There is no h100:1x1x1x8: the shape of GPUs is slices x hosts x GPUs of a host"),
        ("h100:0x8", 8, "There is no h100:1x0x8"),
        ("h100", 12, "12 devices are not a whole number of nodes of 8"),
        ("v5e", 7, "There is no slice v5e:1x7: hosts have 2 x 2 chips"),
    ],
)
def test_what_there_is_not(name, devices, message):
    with pytest.raises(HardwareError, match=message):
        target(name, devices)


def test_machines_without_a_compiler():
    with pytest.raises(CompilerError, match="No compiler here knows NVIDIA L4. There are compilers for `v2`, .*`h100`"):
        target("l4", 8)
    with pytest.raises(CompilerError, match=r"`v5e:2\*4x4` has several slices, and the compiler takes one"):
        target("v5e:2*4x4", 32)
    with pytest.raises(CompilerError, match='such as "v5e:4x4" or "h100:1x1x8"; compile_for was given 8'):
        target(8, 8)  # pyright: ignore[reportArgumentType]
    mine = dataclasses.replace(ml.hardware("h100"), name="mine", title="My machine")
    with pytest.raises(CompilerError, match="No compiler here knows My machine. There are compilers for"):
        target_of(None, ml.mesh(mine, data=8))


def test_a_mesh_that_lies_on_a_slice_is_compiled_for_it():
    assert str(target_of(None, ml.mesh("v5e:2x4", data=2, model=4))) == "v5e:2x4"
    assert str(target_of(None, ml.mesh("h100:2x8", data=2, model=8))) == "h100:1x2x8"
    with pytest.raises(CompilerError, match="expected, such as .*; the plan's mesh is on no machine"):
        target_of(None, ml.mesh(data=8))
    with pytest.raises(CompilerError, match="v5e, 2 slices of 2x4, and the compiler takes one slice.*v5e:2x4"):
        target_of(None, ml.mesh("v5e:2*2x4", data=4, model=4))


def test_devices_stand_where_the_mesh_lies():
    mesh = ml.mesh("v5e:2x4", data=2, model=4)
    assert mesh.on.describe("model") == "4 along axis 1, a line"
    order = device_order(target_of(None, mesh), mesh)
    assert order == [(x, y, 0, 0) for x in range(2) for y in range(4)]
    turned = ml.lay(ml.mesh("v5e:4x4", data=4, model=4), model=0)
    assert device_order(target_of(None, turned), turned) == [(x, y, 0, 0) for y in range(4) for x in range(4)]
    folded = ml.mesh("v5e:4x4", data=2, expert=2, model=4)
    places = device_order(target_of(None, folded), folded)
    assert places is not None
    assert len(set(places)) == 16
    chips = ml.mesh("v7x:2x2x1", data=4, model=2)
    assert [core for *_, core in device_order(target_of(None, chips), chips) or ()] == [0, 1] * 4
    # An axis in time has no devices.
    in_time = ml.mesh("v5e:2x4", data=2, model=4, micro=ml.serial(2))
    assert device_order(target_of(None, in_time), in_time) == order
    assert device_order(target_of("v5e:4x4", mesh16 := ml.mesh(data=16)), mesh16) is None
    assert device_order(target_of("h100", mesh8 := ml.mesh("h100", data=8)), mesh8) is None


@pytest.mark.parametrize("name", gpus())
def test_the_figures_of_a_gpu_fit_those_of_the_machine(name):
    """XLA's figures are measured, ours are the vendor's: they agree on what a device holds and how fast it reads it."""
    figures, machine = gpus()[name], hardware(name)
    assert figures["device_memory_size"] == pytest.approx(machine.memory_bytes, rel=0.08)
    assert figures["memory_bandwidth"] == pytest.approx(machine.bytes_per_second, rel=0.05)


def test_a_gpu_is_described_in_the_words_of_xla():
    text = gpu_description("h100")
    assert "  core_count: 132\n" in text
    assert "cuda_compute_capability { major: 9 minor: 0 feature_extension: ACCELERATED_FEATURES }" in text
    assert 'platform_name: "CUDA"' in text
    assert "device_interconnect_info { active_links: 18 }" in text
    assert "device_interconnect_info" not in gpu_description("a100")


def test_the_compilers_that_tests_install_go_with_jax():
    wanted = {r.name: r.specifier for r in map(Requirement, metadata.requires("jax") or ())}
    text = (Path(__file__).parents[3] / "scripts" / "compilers.txt").read_text()
    installed = dict(line.split("==") for line in text.splitlines() if not line.startswith("#"))
    assert set(installed) == {"libtpu", "jax-cuda12-plugin", "jax-cuda12-pjrt"}
    assert installed["libtpu"] in wanted["libtpu"]
    assert installed["jax-cuda12-pjrt"] == installed["jax-cuda12-plugin"] in wanted["jax-cuda12-plugin"]


def test_figures_of_gpus_have_a_source():
    text = targets._GPUS.read_text()
    assert "https://github.com/openxla/xla" in text
    assert all("spec" in figures for name, figures in tomllib.loads(text).items() if name != "common")


@pytest.mark.parametrize(
    ("platform", "module", "message"),
    [
        ("tpu", "libtpu", r"The TPU compiler is not installed here \(`libtpu`.* pip install 'meshlab\[tpu-compiler\]'"),
        ("cuda", "jax_plugins", r"XLA's compiler for NVIDIA GPUs is not .* pip install 'meshlab\[gpu-compiler\]'"),
    ],
)
def test_what_is_not_installed_is_said_with_the_command(platform, module, message, monkeypatch, tmp_path):
    if importlib.util.find_spec(module) is not None:
        pytest.skip("the compiler is installed beside JAX here; `make test` keeps it in a folder of its own")
    monkeypatch.setenv("MESHLAB_COMPILERS", str(tmp_path))
    with pytest.raises(CompilerError, match=message):
        check_installed(platform)
    monkeypatch.delenv("MESHLAB_COMPILERS")
    with pytest.raises(CompilerError, match=message):
        check_installed(platform)


def attached(shape, corner=(0, 0, 0), cores=1):
    """TPUs as JAX lists them: numbered in an order of their own, coordinates counted from the corner of the pod."""
    places = [
        (x, y, z, core)
        for z in range(shape[2])
        for y in range(shape[1])
        for x in range(shape[0])
        for core in range(cores)
    ]
    return [
        SimpleNamespace(id=i, coords=tuple(a + b for a, b in zip(place, corner, strict=False)), core_on_chip=place[3])
        for i, place in enumerate(places)
    ]


def test_what_runs_lies_on_attached_devices_as_it_was_priced():
    mesh = ml.mesh("v5e:2x4", data=2, model=4)
    for corner in ((0, 0, 0), (4, 8, 0)):
        listed = attached((2, 4, 1), corner)
        found = in_order(listed, mesh.order)
        assert [d.id for d in found or ()] == [x + 2 * y for x in range(2) for y in range(4)]
    # A part of what is attached, and devices of which a chip has two.
    part = in_order(attached((4, 4, 1)), mesh.order)
    assert [standing(d)[:2] for d in part or ()] == [(x, y) for x in range(2) for y in range(4)]
    chips = ml.mesh("v7x:2x2x1", data=4, model=2)
    two = in_order(attached((2, 2, 1), cores=2), chips.order)
    assert [standing(d) for d in two or ()] == chips.order
    # No order is known, or the slice is another: as they are listed.
    assert in_order(listed, None) is None
    assert in_order(attached((8, 1, 1)), mesh.order) is None
    assert in_order(jax.devices("cpu"), mesh.order) is None
    assert ml.mesh(data=8).order is None
    assert ml.mesh("h100", data=8).order is None
    assert ml.mesh("v5e:2*2x4", data=4, model=4).order is None
