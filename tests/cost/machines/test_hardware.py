"""Machines: every figure has a source, and what there is not is told."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from meshlab.cost.machines.hardware import (
    Efficiency,
    Figure,
    Hardware,
    HardwareError,
    InterNode,
    Switch,
    Torus,
    hardware,
    known,
    read,
)
from meshlab.cost.machines.meshes import mesh
from meshlab.cost.machines.placed import Leg, Nodes
from meshlab.cost.machines.placement import place_mesh, slice_shape
from meshlab.cost.machines.protocols import Protocol, Protocols
from meshlab.cost.machines.toml import to_toml

GIVEN: Any = {"memory": 64e9, "bandwidth": 2e12, "network": Switch.of(8, 2e11)}
WAY = Protocol.of(1e-6, 0.0, 1e9)
MINE = Hardware.of("mine", flops={"bf16": 4e14}, **GIVEN)


@pytest.mark.parametrize("machine", known().values(), ids=known())
def test_every_figure_has_a_source(machine):
    assert machine.figures
    for name, figure in machine.figures.items():
        assert figure.value > 0 or name.endswith(("launch", "step"))
        assert len(figure.source) > 10


def test_what_was_recalled_says_so():
    assert "flops.bf16" in hardware("v2").recalled
    assert str(hardware("v2").figures["memory"]).startswith("1.71799e+10 (recalled, not looked up in its source: ")
    assert "recalled" not in str(hardware("h100").figures["flops.bf16"])


def test_a_machine_is_found_by_any_of_its_names():
    assert hardware("V5litepod") is hardware("v5e") is hardware(hardware("v5e"))
    with pytest.raises(HardwareError, match=r"There is no machine `h10`. Did you mean `h100`\? There are `a100`"):
        hardware("h10")


def test_ones_own_machine_takes_a_few_lines():
    assert MINE.flops_per_second("bfloat16") == MINE.flops_per_second("float16") == 4e14
    assert (MINE.memory_bytes, MINE.bytes_per_second) == (64e9, 2e12)
    assert MINE.figures["memory"] == Figure(64e9, "given by the user")
    torus = dataclasses.replace(MINE, network=Torus.of(4, 4, link=1e11))
    assert torus.figures["network.link"].value == 1e11


def test_figures_of_a_device_are_its_part_of_the_chip():
    one, two = hardware("v5p"), hardware("v7x")
    assert (one.memory_bytes, one.bytes_per_second) == (one.memory.value, one.bandwidth.value)
    assert (2 * two.memory_bytes, 2 * two.bytes_per_second) == (two.memory.value, two.bandwidth.value)
    assert 2 * two.flops_per_second("bfloat16") == two.rate("bfloat16").value


def test_plain_numbers_alone_make_a_machine_that_reaches_them_at_once():
    assert MINE.ideal == MINE
    assert isinstance(MINE.network, Switch)
    assert (MINE.network.base.value, MINE.network.step.value, MINE.efficiency.launch.value) == (0, 0, 0)
    assert MINE.devices_per_chip == 1


@pytest.mark.parametrize("machine", known().values(), ids=known())
def test_programs_see_no_more_of_a_link_than_its_maker_specifies(machine):
    if isinstance(machine.network, Torus) and machine.network.specified:
        assert machine.network.link.value <= machine.network.specified.value


@pytest.mark.parametrize("machine", known().values(), ids=known())
def test_what_was_looked_up_can_be_looked_up_again(machine):
    """Every figure that is not marked as recalled names a page, or what it was measured with."""
    for name, figure in machine.figures.items():
        if figure.verified:
            assert "https://" in figure.source or "measured" in figure.source or "libtpu" in figure.source, name


def test_narrow_and_wide_floats_have_rates_of_their_own():
    assert hardware("v5e").flops_per_second("float32") == 197e12  # one pass of 16 bits
    assert hardware("h100").flops_per_second("float32") == 494.5e12
    assert hardware("h100").flops_per_second("float8_e4m3fn") == 1979e12
    assert hardware("v5e").flops_per_second("float8_e4m3fn") == 197e12
    assert hardware("v5e").flops_per_second("int8") == 394e12
    with pytest.raises(HardwareError, match="NVIDIA T4 has no figure for matmuls in int8; it has `f16`, `f32`"):
        hardware("t4").rate("int8")


@pytest.mark.parametrize(
    ("name", "shape", "rings"),
    [
        ("v5e", (8, 16), (False, True)),
        ("v6e", (16, 16), (True, True)),
        ("v4", (2, 4, 4), (False, False, False)),
        ("v5p", (4, 4, 4), (True, True, True)),
        ("v7x", (2, 4, 4), (False, False, False)),
        ("v2", (16, 8), (True, False)),
    ],
)
def test_slices_wrap_as_they_are_published_to(name, shape, rings):
    """MaxText, accelerator_to_spec_map.py."""
    network = hardware(name).network
    assert isinstance(network, Torus)
    assert network.rings(shape) == rings


def test_what_is_given_as_a_torus_wraps_unless_said_otherwise():
    assert Torus.of(4, 2, link=1.0).rings((4, 2)) == (True, False)
    assert Torus.of(4, 2, link=1.0, wraps="none").rings((4, 2)) == (False, False)


def test_dtypes_of_ones_own_machine_go_by_either_name():
    named = Hardware.of("mine", flops={"bfloat16": 4e14, "float8_e4m3fn": 8e14}, **GIVEN)
    assert named.flops == {"bf16": Figure(4e14), "fp8": Figure(8e14)}
    assert named.flops_per_second("float4_e2m1fn") == 8e14
    assert own(flops={"int8": 1e14}).flops_per_second("uint4") == 1e14


def own(**given: Any):
    return Hardware.of("mine", **({"flops": {"bf16": 4e14}} | GIVEN | given))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: own(memory="64GB"),
            r"`memory` must be a finite number of bytes, bytes/s, FLOP/s or seconds, above zero, not '64GB'",
        ),
        (lambda: own(bandwidth=float("nan")), r"`bandwidth` must be a finite number .*, not nan"),
        (
            lambda: own(flops={"bf16": -1.0}),
            r"`flops` must have a finite number .*, above zero for 'bf16', not -1.0",
        ),
        (
            lambda: own(flops={"bf16": "4e14"}, memory="64GB", bandwidth=-1, network="switch"),
            r"for 'bf16', not '4e14'; `memory` .* not '64GB'; `bandwidth` .* above zero, not -1; `network` .* 'switch'",
        ),
        (lambda: own(flops={"fp32": 1e14}), r"Invalid machine 'mine': `flops` has 'fp32'. Did you mean `f32`"),
        (lambda: own(flops=1e14), r"`flops` must give FLOP/s by dtype, .* not 100000000000000.0"),
        (lambda: own(flops={"f32": 0}), r"`flops` has 0 for 'f32'; leave it out"),
        (
            lambda: dataclasses.replace(MINE, flops={"f32": 1e14}),
            r"`flops` must have an ml.Figure for 'f32', not 100000000000000.0",
        ),
        (lambda: own(bandwidth=0), r"Invalid machine 'mine': `bandwidth` must be above zero, not 0"),
        (lambda: own(tiles=3), r"A machine has no `tiles`. Did you mean `tile` or `title`\? It has `name`"),
        (lambda: own(platform="GPU"), r"`platform` is 'GPU'. Did you mean `gpu` or .* There are `tpu`, `gpu`"),
        (
            lambda: own(tile=0, devices_per_chip=1.5),
            r"`tile` must be a positive integer, not 0; `devices_per_chip`",
        ),
        (lambda: own(network="ring"), r"`network` must be an ml.Torus or an ml.Switch, not 'ring'"),
        (lambda: own(efficiency=0.5), r"`efficiency` must be an ml.Efficiency, not 0.5"),
        (lambda: own(inter_node=1e9), r"`inter_node` must be an ml.InterNode, not 1000000000.0"),
        (lambda: own(title=""), r"`title` must be a name, not ''"),
        (lambda: dataclasses.replace(MINE, host=1e9), r"`host` must be an ml.Figure, not 1000000000.0"),
        (lambda: Figure("x"), r"A figure must be a finite number of bytes, .* not 'x' \(given by the user\)"),  # type: ignore[arg-type]
        (lambda: Figure(True), r"A figure must be a finite number"),
        (
            lambda: Torus((2,), "all", Figure(1e9), Figure(0.0), None, None, "yes", 1),  # type: ignore[arg-type]
            r"`reduce_scatter_as_all_reduce` must be True or False, not 'yes'; `all_gather_as_all_reduce` must",
        ),
        (
            lambda: Torus.of(link=1e9),
            r"Invalid torus: `limits` must be the longest of each axis, as in \(16, 16\), not \(\)",
        ),
        (lambda: Torus.of(4, 0, link=1e9), r"`limits` must be .*, not \(4, 0\)"),
        (
            lambda: Torus.of(4, link=0, wraps="cube"),
            r"`link` must be above zero, not 0; `wraps` is 'cube'. Did you",
        ),
        (lambda: Switch.of(0, 1e9), r"Invalid switch: `domain` must be a positive integer, not 0"),
        (lambda: Switch.of(8, -1), r"`egress` must be a finite number of bytes, .* or seconds, above zero, not -1"),
        (lambda: Switch.of(8, 1e9, base=-1), r"`base` must be a finite number .*, 0 or more, not -1"),
        (lambda: Switch.of(8, egress=0), r"Invalid switch: `egress` must be above zero, not 0"),
        (lambda: Protocol.of(1e-6, 0, 0), r"Invalid protocol: `bandwidth` must be above zero, not 0"),
        (lambda: Protocol.of(-1, 0, 1e9), r"`base` must be a finite number .*, 0 or more, not -1"),
        (lambda: Protocols({}, {"one": WAY}, Figure(1e12)), r"`rings` must give protocols by name, .*, not {}"),
        (lambda: Protocols({"LL": 3}, {"one": WAY}, Figure(1e12)), r"`rings` must give protocols by name"),  # type: ignore[dict-item]
        (lambda: Protocols({"LL": WAY}, {"one": WAY}, Figure(1e12), 3), r"`in_switch` must be an ml.Protocol, not 3"),  # type: ignore[arg-type]
        (
            lambda: Protocols({"LL": WAY}, {"one": WAY}, Figure(0.0)),
            r"Invalid protocols: `copy` must be above zero, not 0",
        ),
        (lambda: dataclasses.replace(Switch.of(8, 1e9), protocols=3), r"`protocols` must be an ml.Protocols, not 3"),
        (lambda: Efficiency.of(matmul=0), r"Invalid efficiency: `matmul` must be above zero, not 0"),
        (lambda: Efficiency.of(memory=1.5), r"`memory` must be a share of the figures, 0 < memory ≤ 1, not 1.5"),
        (lambda: Figure(10**400), r"A figure must be a finite number"),
        (lambda: InterNode(Figure(0.0), Figure(1e-6)), r"Invalid inter-node network: `link` must be above zero"),
    ],
)
def test_a_machine_that_cannot_be_is_refused_where_it_is_made(make, said):
    with pytest.raises(HardwareError, match=said):
        make()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("[64000000000.0, ", "[-1.0, ", r"mine.toml cannot be used: A figure must be a finite number .* not -1.0"),
        ("[64000000000.0, ", '["64GB", ', r"cannot be used: A figure must be a finite number .* not '64GB'"),
        ('[64000000000.0, "source0"]', "64e9", r'A figure must be \[value, "source"\] or .*, not 64000000000.0'),
        ('0.0, "source0"]\nbandwidth', '0.0, "source0", "recaled"]\nbandwidth', r"'recaled'\]"),
        ('"source0"]\nbandwidth', '"sorce"]\nbandwidth', r"lacks 'sorce'"),
        ("tile = 128", "tiles = 128", r"There is no key `tiles`. Did you mean `tile` or `title`"),
        ("tile = 128", 'tile = "128"', r"`tile` must be a positive integer, not '128'"),
        ('"gpu"', '"gpus"', r"`platform` is 'gpus'. Did you mean `gpu`"),
        ("domain = 8", "domain = 0", r"`domain` must be a positive integer, not 0"),
        ("[memory]", "memory = 3\n[memories]", r"mine.toml cannot be used: "),
    ],
)
def test_a_file_that_is_no_machine_is_told(before, after, said, tmp_path):
    path, text = tmp_path / "mine.toml", to_toml(MINE)
    path.write_text(text)
    assert read(path) == MINE
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(HardwareError, match=said):
        read(path)


@pytest.mark.parametrize("damaged", [b"\xff\xfe\x00", b"a = " + b"1" * 5000, b"a = " + b"[" * 10000, b"a = "])
def test_a_file_that_is_no_text_or_no_toml_is_told(damaged, tmp_path):
    path = tmp_path / "cpu.toml"
    path.write_bytes(damaged)
    with pytest.raises(HardwareError, match=r"The machine in .*cpu.toml cannot be read: "):
        read(path)


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        (jnp.int32, r"in int32; it has `bf16`, `int8`. Machines have figures for `bf16`, `f16`, .*, `int4` alone"),
        (np.complex64, r"in complex64; it has"),
        (None, r"in None; it has"),
        (3, r"in 3; it has"),
        ("bf17", r"in bf17; it has `bf16`, `int8`. Did you mean `bf16`\? Machines have"),
        ("float64", r'machine.flops, "f64": ml.Figure\(...\)}\)'),
    ],
)
def test_a_dtype_without_a_figure_is_told(dtype, said):
    with pytest.raises(HardwareError, match=said):
        hardware("v5e").rate(dtype)
    assert hardware("v5e").rate(jnp.bfloat16) == hardware("v5e").rate("bf16")


def test_products_of_16_bits_are_computed_in_32_on_cpus():
    cpu = hardware("cpu")
    assert not {"bf16", "f16"} & cpu.flops.keys()
    assert cpu.rate("bfloat16") == cpu.rate("float16") == cpu.rate("float32")
    lonely = dataclasses.replace(MINE, flops={"f32": Figure(1e13)})  # a GPU, which has units of their own for them
    with pytest.raises(HardwareError, match="no figure for matmuls in bfloat16"):
        lonely.rate("bfloat16")


# How a mesh lies


@pytest.mark.parametrize(
    ("name", "devices", "shape"),
    [
        ("v5e", 8, (2, 4)),
        ("v5e", 256, (16, 16)),
        ("v5p", 64, (4, 4, 4)),
        ("v5p", 8960, (16, 20, 28)),
        ("h100", 32, (4, 8)),
    ],
)
def test_a_slice_is_as_even_as_it_can_be(name, devices, shape):
    assert slice_shape(hardware(name), devices) == shape


@pytest.mark.parametrize(
    ("names", "devices", "shape"),
    [
        # https://cloud.google.com/tpu/docs/v5e and v6e list all of theirs
        (("v5e", "v6e"), 1, (1, 1)),
        (("v5e", "v6e"), 4, (2, 2)),
        (("v5e", "v6e"), 8, (2, 4)),
        (("v5e", "v6e"), 16, (4, 4)),
        (("v5e", "v6e"), 32, (4, 8)),
        (("v5e", "v6e"), 64, (8, 8)),
        (("v5e", "v6e"), 128, (8, 16)),
        (("v5e", "v6e"), 256, (16, 16)),
        # https://cloud.google.com/tpu/docs/v5p, and v4: one host is 2x2x1; of cubes each axis is a multiple of 4
        (("v4", "v5p"), 4, (2, 2, 1)),
        (("v4", "v5p"), 8, (2, 2, 2)),
        (("v4", "v5p"), 16, (2, 2, 4)),
        (("v4", "v5p"), 32, (2, 4, 4)),
        (("v4", "v5p"), 64, (4, 4, 4)),
        (("v4", "v5p"), 128, (4, 4, 8)),
        (("v4", "v5p"), 192, (4, 4, 12)),  # 4x6x8 is more even, and nobody's
        (("v4", "v5p"), 256, (4, 8, 8)),
        (("v4", "v5p"), 384, (4, 8, 12)),  # 6x8x8
        (("v4", "v5p"), 512, (8, 8, 8)),
        (("v5p",), 6144, (16, 16, 24)),
        # With two devices on each chip
        (("v7x",), 8, (2, 2, 1)),
        (("v7x",), 384, (4, 4, 12)),
        (("v2", "v3"), 8, (2, 2)),
        (("v2", "v3"), 32, (4, 4)),
        (("v2", "v3"), 128, (8, 8)),
        (("v2", "v3"), 256, (8, 16)),
        (("v2", "v3"), 512, (16, 16)),
        (("v3",), 2048, (32, 32)),
        # Nothing of so many is to be had: a part of a slice
        (("v4", "v5p"), 2, (1, 1, 2)),
        (("v4", "v5p"), 96, (4, 4, 6)),
        (("v5e", "v6e"), 2, (1, 2)),
        (("v5e", "v6e"), 12, (3, 4)),
    ],
)
def test_a_derived_slice_is_one_that_can_be_rented(names, devices, shape):
    assert {slice_shape(hardware(name), devices) for name in names} == {shape}


def test_mesh_axes_take_whole_axes_of_the_slice_or_share_them():
    v5e, v5p = hardware("v5e"), hardware("v5p")
    assert place_mesh(v5e, None, mesh(data=4, model=4)).legs == {"data": (Leg(1, 4),), "model": (Leg(0, 4),)}
    cube = place_mesh(v5p, (4, 4, 4), mesh(data=16, model=4)).legs
    assert cube == {"data": (Leg(1, 4, ring=True), Leg(2, 4, ring=True)), "model": (Leg(0, 4, ring=True),)}
    folded = place_mesh(v5e, (16, 16), mesh(data=8, model=32)).legs
    assert folded == {"data": (Leg(1, 8, 2, True),), "model": (Leg(1, 2), Leg(0, 16, ring=True))}
    assert place_mesh(v5e, None, mesh(data=1, model=4)).legs["data"] == ()
    parts = place_mesh(v5e, (4, 6), mesh(a=8, b=3)).legs
    assert parts == {"a": (Leg(1, 2, 3), Leg(0, 4)), "b": (Leg(1, 3),)}


def test_behind_switches_neighbours_are_in_one_node():
    parts = place_mesh(hardware("h100"), None, mesh(a=4, b=16, c=2)).nodes
    assert parts == {"c": Nodes(2, 1), "b": Nodes(4, 4), "a": Nodes(1, 4)}


@pytest.mark.parametrize(
    ("name", "shape", "axes", "message"),
    [
        ("v5e", (4, 3), {"d": 8}, "has no slice 4x3 for this mesh: it has 12 devices, and the mesh 8"),
        ("v5e", (4, 2, 1), {"d": 8}, "it has 3 axes, and the machine 2"),
        ("v5e", (32, 1), {"d": 32}, "axis 0 is 32 long, and must be at most 16"),
        ("v5e", None, {"d": 512}, r"No slice of Google TPU v5e has 512 devices: axes go up to 16 x 16 \(256 devices\)"),
        ("h100", None, {"d": 12}, "12 devices are not a whole number of nodes of 8"),
        ("h100", (1, 16), {"d": 16}, "a node has 8 devices, not 16"),
        (
            "h100",
            None,
            {"a": 8, "b": 3},
            "`b` of 3 straddles a node boundary: the axes after it leave 8 of the 8 devices of a node. Choose",
        ),
    ],
)
def test_what_does_not_fit_is_told(name, shape, axes, message):
    with pytest.raises(HardwareError, match=message):
        place_mesh(hardware(name), shape, mesh(**axes))
