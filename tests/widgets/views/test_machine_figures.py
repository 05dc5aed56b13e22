"""A machine's figures on the board: each with its source, and those that a part of the time rests on."""

from __future__ import annotations

import pytest

import meshlab as ml
from benchmarks.nccl import EXCHANGES, RINGS
from meshlab.cost.machines.hardware import known
from meshlab.widgets.views.machine_figures import figure_view, figures_behind, figures_view

WAYS = [*(f"rings.{name}" for name in RINGS), *(f"exchanges.{name}" for name in EXCHANGES)]
FIGURES = ["base", "step", "bandwidth"]
KERNELS = ("base", "share", "smaller", "prologue", "joining", "partial", "sustained")
SUMS = [f"network.protocols.in_switch.{what}" for what in FIGURES]
MATMULS = [f"matmuls.{what}" for what in KERNELS]


def test_each_figure_has_its_source() -> None:
    for machine in known().values():
        views = figures_view(machine)
        assert len(views) == len(machine.figures)
        assert all(view["source"] and view["text"] for view in views)
        assert {view["name"] for view in views if view["recalled"]} == set(machine.recalled)
    v5e = known()["v5e"]
    assert figure_view("bandwidth", v5e.bandwidth)["text"] == "memory bandwidth 810 GB/s"
    assert figure_view("flops.bf16", v5e.flops["bf16"])["text"] == "matmuls in bf16 197 TFLOP/s"
    assert figure_view("network.hop_latency", v5e.figures["network.hop_latency"])["text"] == "hop latency 1 µs"
    assert figure_view("efficiency.memory", v5e.efficiency.memory)["text"] == "kernels reach 91.1% of memory bandwidth"
    assert figure_view("memory", v5e.memory)["text"] == "memory 16 GB"


@pytest.mark.parametrize(
    ("machine", "axes", "part", "names"),
    [
        ("v5e:2x4", "data=2 model=4", "compute", ["flops.bf16", "efficiency.matmul"]),
        ("h100", "data=2 model=4", "compute", ["flops.f32", *MATMULS, "efficiency.attention"]),
        ("v5p:2x2x2", "data=2 model=4", "compute", ["flops.bf16", "efficiency.matmul", "efficiency.attention"]),
        ("h100", "data=2 model=4", "memory", ["bandwidth", "efficiency.memory", "matmuls.memory", "efficiency.launch"]),
        ("v100", "data=2 model=4", "compute", ["flops.f32", "efficiency.matmul"]),
        ("v5e:2x4", "data=2 model=4", "memory", ["bandwidth", "efficiency.memory", "efficiency.launch"]),
        ("v5e:2x4", "data=2 model=4", "model", ["network.link", "network.hop_latency", "efficiency.network"]),
        ("v5e:2*2x2", "data=2 model=4", "data", ["inter_node.link", "inter_node.latency"]),
        ("v2:2x2", "data=4 model=2", "model", ["network.chip"]),
        (
            "h100:2x4",
            "data=2 model=4",
            "model",
            [*(f"network.protocols.{way}.{what}" for way in WAYS for what in FIGURES), "network.protocols.copy", *SUMS],
        ),
        ("h100:2x4", "data=2 model=4", "data", ["inter_node.link", "inter_node.latency", "network.base"]),
    ],
)
def test_what_a_part_rests_on(program, machine: str, axes: str, part: str, names: list[str]) -> None:
    sizes = {name: int(size) for name, size in (each.split("=") for each in axes.split())}
    mesh = ml.mesh(machine, **sizes)
    figures = figures_behind(part, mesh.on, program.code)
    assert [figure["name"] for figure in figures] == [name for name in names if name in mesh.on.hardware.figures]
    assert figures
