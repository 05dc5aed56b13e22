"""Predicted time and memory on the board, held against the plan; their sources, their errors, and what is not known."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import meshlab as ml
from meshlab.cost.hardware import known
from meshlab.widgets import accuracy as accuracy_module
from meshlab.widgets.accuracy import NOT_YET, accuracy
from meshlab.widgets.explorer import Explorer, explore
from meshlab.widgets.protocol import answer
from meshlab.widgets.sources import figure_view, figures_behind, figures_view, scaled
from tests.widgets.test_machines import own

LAYOUTS = ["", "batch:data", "batch:data hidden:model", "batch:data+model"]


@pytest.mark.parametrize("machine", ["v5e", "h100", "v2", "cpu"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_view_shows_the_time_of_the_plan(explorer: Explorer, layout: str, machine: str) -> None:
    explorer.load(layout)
    explorer.on(machine)
    time, view = explorer.plan.time, explorer.view()["time"]
    for name in ("lower", "estimate", "upper", "compute", "exposed"):
        assert view[name] == getattr(time, name)
    parts = {part["key"]: part["seconds"] for part in view["parts"]}
    assert parts == {"products": time.products, "memory": time.memory, **time.communication}
    assert sum(parts.values()) == pytest.approx(view["upper"])
    assert view["limit"]["by"] == time.limited_by
    assert parts[view["limit"]["by"].removeprefix("communication over ")] == max(parts.values())
    assert json.loads(json.dumps(explorer.view())) == explorer.view()


def test_no_machine_no_time(explorer: Explorer) -> None:
    view = explorer.view()
    assert view["time"] is None
    assert view["held"] is None
    assert view["machine"]["on"] == ""
    assert "picture" not in view["machine"]


def test_what_is_assumed_is_costed(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    explorer.on("v5e")
    explorer.assume(attention="flash", prefetch=True)
    view = explorer.view()["time"]
    assert view["options"] == {"attention": "flash", "prefetch": True, "attentions": ["stored", "flash", "causal"]}
    assert view["estimate"] == explorer.plan.time.given(attention="flash", prefetch=True).estimate


def test_a_missing_figure_is_told_and_the_board_stays(explorer: Explorer) -> None:
    no_floats = dataclasses.replace(own(), flops={"int8": ml.Figure(1e14)})
    explorer.load("batch:data")
    assert explorer.on(no_floats)
    view = explorer.view()
    assert "has no figure for products in float32" in view["time"]["missing"]
    assert view["machine"]["title"] == "mine"
    assert view["held"]["limit"] == 1e9
    assert explorer.place("hidden", "model")
    assert explorer.view()["change"]["seconds"] is None
    told = answer(explorer, {"v": 1, "kind": "preview", "id": 1, "op": "remove", "args": {"dim": "batch"}})
    assert "seconds" not in told


def test_the_change_of_the_time(explorer: Explorer) -> None:
    explorer.on("cpu")
    assert explorer.view()["change"]["seconds"] is None
    before = explorer.time.estimate
    explorer.load("batch:data hidden:model")
    assert explorer.view()["change"]["seconds"] == explorer.time.estimate - before


def test_a_preview_tells_the_time_of_a_drop(explorer: Explorer) -> None:
    message = {"v": 1, "kind": "preview", "id": 1, "op": "place", "args": {"dim": "hidden", "axes": ["model"]}}
    assert "seconds" not in answer(explorer, message)
    explorer.on("v5e")
    explorer.assume(attention="flash")
    now, told = explorer.time.estimate, answer(explorer, message)
    explorer.place("hidden", "model")
    assert told["seconds"] == explorer.time.estimate
    assert told["seconds_change"] == explorer.time.estimate - now
    assert told["fits"] is None


def test_what_does_not_fit_is_said_in_words(explorer: Explorer) -> None:
    tiny = dataclasses.replace(own(), memory=ml.Figure(1000.0))
    explorer.on(tiny)
    held, memory = explorer.view()["held"], explorer.plan.memory
    assert (held["bytes"], held["limit"], held["fits"]) == (memory.argument_bytes, 1000, False)
    assert held["text"] == (
        "Does not fit: arguments alone take 2.21 kB, 1.21 kB more than the 1.00 kB of one device of mine."
    )
    told = [
        answer(explorer, {"v": 1, "kind": "preview", "id": 1, "op": "place", "args": {"dim": dim, "axes": ["model"]}})
        for dim in ("batch", "hidden")
    ]
    assert [each["fits"] for each in told] == [False, None]
    explorer.on("v5e")
    held = explorer.view()["held"]
    assert held["fits"] is None  # what a step holds besides is not known
    assert held["text"].startswith("Arguments take 2.21 kB, 1.38e-05% of the 16.0 GB of one device of Google TPU v5e.")


def test_each_figure_has_its_source() -> None:
    for machine in known().values():
        views = figures_view(machine)
        assert len(views) == len(machine.figures)
        assert all(view["source"] and view["text"] for view in views)
        assert {view["name"] for view in views if view["recalled"]} == set(machine.recalled)
    v5e = known()["v5e"]
    assert figure_view("bandwidth", v5e.bandwidth)["text"] == "memory bandwidth 810 GB/s"
    assert figure_view("flops.bf16", v5e.flops["bf16"])["text"] == "products in bf16 197 TFLOP/s"
    assert figure_view("network.hop", v5e.figures["network.hop"])["text"] == "a hop 1 µs"
    assert figure_view("efficiency.memory", v5e.efficiency.memory)["text"] == "memory reaches 91.1% of its bandwidth"
    assert figure_view("memory", v5e.memory)["text"] == "memory 16 GB"
    assert [scaled(value, "B") for value in (5, 1e3, 8.1e11)] == ["5 B", "1 kB", "810 GB"]


@pytest.mark.parametrize(
    ("machine", "axes", "part", "names"),
    [
        ("v5e:2x4", "data=2 model=4", "products", ["flops.bf16", "efficiency.products"]),
        ("h100", "data=2 model=4", "products", ["flops.f32", "efficiency.products"]),
        ("v5e:2x4", "data=2 model=4", "memory", ["bandwidth", "efficiency.memory", "efficiency.launch"]),
        ("v5e:2x4", "data=2 model=4", "model", ["network.link", "network.hop", "efficiency.network"]),
        ("v5e:2*2x2", "data=2 model=4", "data", ["outside.link", "outside.latency"]),
        ("v2:2x2", "data=4 model=2", "model", ["network.chip"]),
        (
            "h100:2x4",
            "data=2 model=4",
            "model",
            ["network.egress", "network.base", "network.step", "efficiency.network"],
        ),
        ("h100:2x4", "data=2 model=4", "data", ["outside.link", "outside.latency", "network.base"]),
    ],
)
def test_what_a_part_rests_on(program, machine: str, axes: str, part: str, names: list[str]) -> None:
    sizes = {name: int(size) for name, size in (each.split("=") for each in axes.split())}
    mesh = ml.mesh(machine, **sizes)
    found = figures_behind(part, mesh.on, program.code)
    assert [figure["name"] for figure in found] == [name for name in names if name in mesh.on.hardware.figures]
    assert found


def test_what_was_recalled_is_marked(explorer: Explorer) -> None:
    explorer.load("hidden:model")
    explorer.on("v5e")
    view = explorer.view()["time"]
    parts = {part["key"]: part["recalled"] for part in view["parts"]}
    assert parts == {"products": False, "memory": True, "model": True}
    assert view["recalled"] == ["a kernel begins 0 s", "links reach 100% of their bandwidth"]
    explorer.on("h100")
    assert explorer.view()["time"]["recalled"] == []


def test_errors_are_those_that_were_measured(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "accuracy.json"
    monkeypatch.setattr(accuracy_module, "FILE", file)
    assert accuracy("memory") == [{"where": "docs/accuracy.md#memory", "measured": False, "text": NOT_YET}]
    accuracy_module._statements.cache_clear()
    file.write_text(json.dumps({"memory": {"statement": "Within 5% of XLA in half of 160 layouts."}}))
    explorer.on("v5e")
    view = explorer.view()
    assert [each["text"] for each in view["held"]["accuracy"]] == ["Within 5% of XLA in half of 160 layouts.", NOT_YET]
    assert view["time"]["accuracy"] == [
        {"where": "docs/accuracy.md#published-runs", "measured": False, "text": NOT_YET}
    ]
    accuracy_module._statements.cache_clear()


def test_a_large_slice_costs_no_more(program) -> None:
    opened = explore(program, ml.mesh("v5p:16x16x24", data=64, model=96))
    assert len(json.dumps(opened.view())) < 200_000
    nodes = explore(program, ml.mesh("h100", data=8192, model=8))
    assert len(json.dumps(nodes.view())) < 200_000
