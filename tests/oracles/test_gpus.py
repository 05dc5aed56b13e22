"""Nodes of GPUs and networks between them: How to Scale Your Model, "How to Think About GPUs".

Source: https://jax-ml.github.io/scaling-book/gpus/. Experts (SB-77) and pipelines (SB-82) are not here; nor is what a
switch itself can pass on (SB-83, second half), of which no plan asks.
"""

import math

import pytest

import meshlab as ml
from meshlab.cost.machines.collective_time import seconds
from meshlab.cost.machines.hardware import hardware
from meshlab.cost.machines.placement import place_mesh
from tests.oracles.programs import block, communication_seconds, compute_seconds, crossing, machine
from tests.oracles.test_transformers import DAY, operations_of_a_token

NODE, NODES = ml.mesh(x=8), ml.mesh(m=16, x=8)


def cost(on, mesh, *collective, book=False):
    kind, nbytes, axes = collective
    return seconds(kind, nbytes, place_mesh(on, None, mesh), axes, book=book)


@pytest.mark.parametrize(
    ("kind", "mesh", "nbytes", "book", "expected"),
    [
        pytest.param("all-gather", NODE, 536_870_912, False, 1.0439e-3, id="SB-70"),
        pytest.param("all-gather", NODE, 2 * 1024 * 16384, False, 65.24e-6, id="SB-71 exact"),
        pytest.param("all-gather", NODE, 2 * 1024 * 16384, True, 74.57e-6, id="SB-71"),
        # Over M nodes of 8 V(M-1)/(M^2 W) with W = 400e9; the book's V/(2W) is this for two, twice.
        pytest.param("all-to-all", ml.mesh(m=2, x=8), 1e9, False, 1e9 / (4 * 400e9), id="SB-73 two nodes"),
        pytest.param("all-to-all", ml.mesh(m=4, x=8), 1e9, False, 3e9 / (16 * 400e9), id="SB-73 four nodes"),
        # Eight devices of a node gather over nodes what each of them holds a part of.
        pytest.param("all-gather", ml.mesh(m=128, x=8), 1e9, False, 1e9 * (127 / 128) / 400e9, id="1,024 H100"),
    ],
)
def test_collectives(kind, mesh, nbytes, book, expected):
    """On H100, with bandwidth alone."""
    seconds = cost(machine("h100"), mesh, kind, nbytes, tuple(mesh.axes), book=book)
    assert seconds == pytest.approx(expected, rel=1e-3)


def test_a_gather_over_nodes_of_what_each_device_has_alone():
    """All devices of a node send at once, each by its own 50e9."""
    seconds = cost(machine("h100"), ml.mesh(m=4, x=8), "all-gather", 1e9, ("m",))
    assert seconds == pytest.approx(1e9 * (3 / 4) / 50e9)


def test_a_gather_takes_the_cheaper_way_between_nodes():
    """Where devices reach other nodes faster than each other, each first gathers its node's part, then all of it."""
    fast = machine("h100", inter_node=4500e9)
    seconds = cost(fast, ml.mesh(m=4, x=8), "all-gather", 1e9, ("m", "x"))
    assert seconds == pytest.approx(1e9 / 4 * (7 / 8) / 450e9 + 1e9 * (3 / 4) / 4500e9)


def test_a_gather_in_practice():
    """SB-70: about 1.5 ms were measured, more than bandwidth alone takes."""
    assert cost(hardware("h100"), NODE, "all-gather", 536_870_912, ("x",)) == pytest.approx(1.5e-3, rel=0.1)


FULLY_SHARDED = {"batch": ("m", "x"), "params/*": {"embed": ("m", "x")}}


@pytest.mark.parametrize(
    ("on", "nodes", "expected"),
    [
        pytest.param(machine("h100", flops=990e12), 1, 2200, id="SB-76 H100, in a node"),
        pytest.param(machine("h100", flops=990e12), 16, 2475, id="SB-76 H100, over nodes"),
        pytest.param(machine("b200"), 1, 2500, id="SB-78 B200, in a node"),
        pytest.param(machine("b200"), 16, 5625, id="SB-78 B200, over nodes"),
    ],
)
def test_tokens_of_a_gpu_from_which_fsdp_is_bound_by_compute(on, nodes, expected):
    mesh = ml.mesh(m=nodes, x=8)

    def difference(tokens):
        plan = block(tokens * mesh.size, 8192, 28_672).plan(mesh, FULLY_SHARDED)
        return compute_seconds(plan, on) - communication_seconds(plan, on)

    assert crossing(difference, 128, 65_536) == pytest.approx(expected, rel=1e-3)


def test_how_far_tensor_parallelism_over_nodes_is_bound_by_compute():
    """SB-79: up to F/2,475, 11.58 for 28,672."""
    on, mesh, both = machine("h100", flops=990e12), ml.mesh(m=2, x=8), ("m", "x")
    tensor = {"ffn": both, "residual": {"embed": both}, "x": {"embed": both}, "out": {"embed": both}}

    def difference(ffn):
        plan = block(65_536, 8192, ffn).plan(mesh, tensor)
        return compute_seconds(plan, on) - communication_seconds(plan, on)

    widest = crossing(difference, 8192, 131_072) / mesh.size
    assert 28_672 / widest == pytest.approx(11.58, rel=1e-3)


def test_how_long_llama_trains_on_4096():
    """SB-80: at 45% of 990e12; 1% less, see SB-50."""
    total, rate = operations_of_a_token() * 15e12, machine("h100", flops=990e12).flops_per_second("bfloat16")
    assert total / (4096 * rate * 0.45) / DAY == pytest.approx(39.96, rel=1e-2)


def test_how_many_hold_700_gb():
    """SB-81."""
    needed = 700e9 / hardware("h100").memory_bytes
    assert (needed, math.ceil(needed)) == (8.75, 9)


def test_what_the_gpus_of_a_node_send_at_once():
    """SB-83: 8 x 450e9 bytes/s, of a gather of all there is."""
    took = cost(machine("h100"), NODE, "all-gather", 1e9, ("x",))
    assert 8 * 1e9 * (7 / 8) / took == pytest.approx(3.6e12)
