"""Seconds of collectives: what must hold for all of them. Published figures are in tests/oracles."""

import dataclasses
import math

import hypothesis
import pytest
from hypothesis import strategies as st

from meshlab.cost.machines.collective_time import KINDS, seconds
from meshlab.cost.machines.hardware import Hardware, HardwareError, Switch, Torus, hardware
from meshlab.cost.machines.meshes import mesh
from meshlab.cost.machines.placement import place_mesh


def cost(name, shape, axes, *collective, book=False):
    kind, nbytes, over = collective
    return seconds(kind, nbytes, place_mesh(hardware(name).ideal, shape, mesh(**axes)), over, book=book)


def test_the_time_to_begin_overlaps_on_a_torus_and_adds_up_behind_switches():
    ring = place_mesh(hardware("v4"), (4, 4, 4), mesh(x=4, y=4, z=4))
    node = place_mesh(hardware("v100"), None, mesh(x=8))
    assert seconds("all-gather", 1.0, ring, ("x",)) == 2e-6
    assert seconds("all-gather", 1e12, ring, ("x",)) == pytest.approx(1e12 * 0.75 / 9e10)
    assert seconds("all-gather", 1.0, ring, ("x", "y", "z")) == 6e-6
    assert seconds("all-gather", 1.0, node, ("x",)) == pytest.approx(8.4e-6 + 7 * 3.4e-6)


@pytest.mark.parametrize(
    ("size", "wraps", "hops"),
    [(4, "all", 2), (5, "all", 2), (8, "all", 4), (4, "none", 3), (5, "none", 4), (2, "all", 1)],
)
def test_a_byte_takes_as_long_as_the_hops_to_the_farthest_device(size, wraps, hops):
    torus = Torus.of(size, link=1e11, hop_latency=1e-6, wraps=wraps)
    machine = made(torus)
    line = place_mesh(machine, (size,), mesh(x=size))
    for kind, times in (("all-gather", 1), ("all-to-all", 1), ("all-reduce", 2)):
        assert seconds(kind, 1.0, line, ("x",)) == pytest.approx(times * hops * 1e-6)
    assert seconds("collective-permute", 1.0, line, ("x",)) == pytest.approx(1e-6)


def test_what_the_devices_of_a_chip_and_slices_send_each_other():
    """Of an array of 1 GB: a gather fetches the half that is missing, an exchange a quarter, a permute the own half."""
    chip = place_mesh(hardware("v7x").ideal, (2, 2, 1), mesh(x=4, core=2))
    slices = place_mesh(hardware("v5e").ideal, (2, 2), mesh(s=2, x=4), count=2)
    parts = {"all-gather": 1 / 2, "all-reduce": 1, "all-to-all": 1 / 4, "collective-permute": 1 / 2}
    for placed, axis, link in ((chip, "core", 540e9), (slices, "s", 3.125e9)):
        for kind, part in parts.items():
            assert seconds(kind, 1e9, placed, (axis,)) == pytest.approx(part * 1e9 / link), kind
    # All of a slice's devices share what it fetches of an array that is split over both.
    assert seconds("all-gather", 1e9, slices, ("s", "x")) == pytest.approx(1e9 / 2 / 4 / 3.125e9)


def made(network, **more):
    return Hardware.of("m", flops={"bf16": 1e12}, memory=1e9, bandwidth=1e9, network=network, **more)


def machines():
    wraps = st.sampled_from(["all", "none"])
    torus = st.builds(lambda w: Torus.of(8, 8, link=1e10, hop_latency=0.0, wraps=w), wraps)
    switches = (st.just(Switch.of(8, 1e11)), st.just(Switch.of(64, 1e11)))
    return st.one_of(torus, *switches).map(lambda network: made(network, inter_node=H100.inter_node).ideal)


H100 = hardware("h100")
MESHES = st.sampled_from([{"x": 8, "y": 8}, {"x": 4, "y": 16}, {"x": 2, "y": 8, "z": 4}, {"x": 64}])


@hypothesis.given(machines(), MESHES, st.integers(1, 10**10), st.data())
def test_what_holds_for_all_machines(machine, axes, nbytes, data):
    placed = (
        place_mesh(machine, (8, 8), mesh(**axes))
        if isinstance(machine.network, Torus)
        else place_mesh(machine, None, mesh(**axes))
    )
    over = data.draw(st.permutations(list(axes)).flatmap(lambda p: st.integers(1, len(p)).map(lambda n: tuple(p[:n]))))
    time = {kind: seconds(kind, nbytes, placed, over) for kind in KINDS}
    close = 1 + 1e-9
    assert all(t > 0 and math.isfinite(t) for t in time.values())
    assert time["all-reduce"] == pytest.approx(time["all-gather"] + time["reduce-scatter"])
    assert time["reduce-scatter"] <= time["all-reduce"]
    assert time["all-to-all"] <= time["all-gather"] * close
    assert all(seconds(kind, 2 * nbytes, placed, over) >= time[kind] for kind in KINDS)
    assert all(seconds(kind, 0, placed, over) == 0 for kind in KINDS)
    # A relayout in two steps is no cheaper than in one: gathering all of an array over its axes one after the other.
    parts = sum(
        seconds("all-gather", nbytes / math.prod(axes[a] for a in over[i + 1 :]), placed, (axis,))
        for i, axis in enumerate(over)
    )
    assert time["all-gather"] <= parts * close


@pytest.mark.parametrize("kind", KINDS)
def test_one_device_sends_nothing_and_rings_are_no_slower_than_lines(kind):
    assert cost("v4", (4, 4, 4), {"x": 64, "y": 1}, kind, 1e9, ("y",)) == 0
    assert cost("h100", None, {"x": 8, "y": 1}, kind, 1e9, ("y",)) == 0
    ring, line = (made(Torus.of(8, link=1e10, wraps=w)) for w in ("all", "none"))
    assert seconds(kind, 1e9, place_mesh(ring, (8,), mesh(x=8)), ("x",)) <= seconds(
        kind, 1e9, place_mesh(line, (8,), mesh(x=8)), ("x",)
    )


def test_twice_the_link_is_half_the_time():
    slow, fast = (made(Torus.of(8, link=link, hop_latency=0.0)) for link in (1e10, 2e10))
    for kind in KINDS:
        one, other = (seconds(kind, 1e9, place_mesh(m, (8,), mesh(x=8)), ("x",)) for m in (slow, fast))
        assert one == pytest.approx(2 * other)


def test_what_cannot_be_priced_is_told():
    placed = place_mesh(H100, None, mesh(data=2, model=8))
    with pytest.raises(HardwareError, match=r"There is no collective `allgather`. Did you mean `all-gather`\?"):
        seconds("allgather", 1.0, placed, ("data",))
    with pytest.raises(HardwareError, match=r"The mesh has no axis `modle`. Did you mean `model`\? Its axes are"):
        seconds("all-gather", 1.0, placed, ("modle",))
    alone = dataclasses.replace(H100, inter_node=None)
    with pytest.raises(
        HardwareError, match="no figure for the network between nodes, and this collective crosses 2 of them"
    ):
        seconds("all-gather", 1.0, place_mesh(alone, None, mesh(data=2, model=8)), ("data",))
    with pytest.raises(HardwareError, match=r"must run over different mesh axes, not `data`, `data`. Name each"):
        seconds("all-gather", 1.0, placed, ("data", "data"))
    for nbytes in (-5.0, math.nan):
        with pytest.raises(
            HardwareError, match=f"`nbytes` must be the bytes of the full array, 0 or more, not {nbytes}"
        ):
            seconds("all-gather", nbytes, placed, ("data",))
    v7x = hardware("v7x")
    assert isinstance(v7x.network, Torus)
    cut = dataclasses.replace(v7x, network=dataclasses.replace(v7x.network, chip=None))
    with pytest.raises(HardwareError, match=r"no figure for the link between the devices of one chip. Give it"):
        seconds("all-gather", 1.0, place_mesh(cut, (2, 2, 1), mesh(data=8)), ("data",))
