"""Predicted time on the board, held against the plan; its sources, its errors, and what is not known."""

from __future__ import annotations

import dataclasses
import html
import json
import queue
import threading
from pathlib import Path

import pytest

import meshlab as ml
from meshlab.cost.machines import accuracy as accuracy_module
from meshlab.cost.machines.accuracy import NOT_YET, accuracy
from meshlab.cost.machines.units import seconds_text, share_text
from meshlab.models import zoo
from meshlab.models.language import llama
from meshlab.models.parts.initial import shapes
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.costing import Costs
from meshlab.widgets.documents.intents import Remove
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import shared_state
from meshlab.widgets.state.prices import Price, prices_of
from tests.widgets.gates import Gate
from tests.widgets.state.test_machines import own

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
    every = {"compute": time.compute_bound, "memory": time.memory_bound, **time.communication}
    assert parts == {name: seconds for name, seconds in every.items() if seconds}
    assert sum(parts.values()) == pytest.approx(view["upper"])
    assert view["limit"]["by"] == time.limited_by
    assert parts[view["limit"]["by"].removeprefix("communication over ")] == max(parts.values())
    assert json.loads(json.dumps(explorer.view())) == explorer.view()


def test_what_a_stage_waits_is_a_part() -> None:
    program = next(model for model in zoo.models() if model.name == "transformer_sgd").trace()
    opened = explore(program, ml.mesh("v5e:2x2", data=2, pipe=ml.stages(2), micro=ml.serial(2)))
    opened.load("batch:data+micro layers:pipe")
    time, view = opened.plan.time, opened.view()["time"]
    (waiting,) = [part for part in view["parts"] if part["key"] == "waiting"]
    assert waiting["seconds"] == time.idle > 0
    assert (waiting["label"], waiting["sends"], waiting["figures"]) == ("waiting for other stages", False, [])
    kernels = sum(part["seconds"] for part in view["parts"] if not part["sends"])
    assert kernels + view["exposed"] == pytest.approx(view["estimate"])
    # It waits however much of the communication overlaps.
    assert view["lower"] >= kernels


@pytest.mark.parametrize(
    ("machine", "label", "limit"),
    [
        ("v5e", "memory-bound", "Memory-bound: kernels limited by memory bandwidth take "),
        (
            "h100",
            "memory- or launch-bound",
            "Memory- or launch-bound: kernels limited by memory bandwidth or launch latency take ",
        ),
    ],
)
def test_waiting_for_a_launch_is_told_where_there_is_one(program, machine: str, label: str, limit: str) -> None:
    opened = explore(program, ml.mesh(machine, data=2))
    view = opened.view()["time"]
    assert view["limit"]["by"] == opened.time.limited_by == "memory"
    assert [part["label"] for part in view["parts"] if part["key"] == "memory"] == [label]
    assert view["limit"]["text"].startswith(limit)
    assert label in [bar.y[0] for bar in opened.figure("time").data]


def test_what_takes_no_time_is_no_part_of_it(explorer: Explorer) -> None:
    explorer.on("h100")
    assert explorer.time.compute_bound == 0
    assert [part["label"] for part in explorer.view()["time"]["parts"]] == ["memory- or launch-bound"]
    html = explorer.snapshot().html
    assert ">compute-bound</text>" not in html
    assert "Exposed communication" not in html
    explorer.load("batch:data")
    assert "Exposed communication" in explorer.snapshot().html
    # Unless nothing takes any: a bar that is not there says less than one of no length.
    nothing = explore(ml.trace(lambda x: x, ml.f32[ml.Dim("batch", 8)]), ml.mesh("v5e", data=2))
    assert nothing.time.upper == 0
    assert [part["label"] for part in nothing.view()["time"]["parts"]] == ["compute-bound", "memory-bound"]


def test_the_view_says_what_is_sent_instead(explorer: Explorer) -> None:
    explorer.load({"batch": "data+model", "params/*": {"hidden": "data+model"}})
    explorer.on("v5e:2x4")
    assert explorer.view()["time"]["substituted"] == ""
    explorer.on("v5p:2x2x2")
    count = explorer.plan.time.substituted["reduce-scatter over data+model"]
    text = f"The compiler sends all-reduces, twice the bytes, instead of {count} × reduce-scatter over data + model."
    assert explorer.view()["time"]["substituted"] == text
    assert text in explorer.snapshot()._repr_html_()


def test_the_view_says_how_a_step_uses_its_devices_and_what_published_steps_make_of_it() -> None:
    config = llama.Config(batch=8, seq=64)
    opened = explore(
        ml.trace(llama.predict, shapes(llama.init, config), llama.inputs(config)[0]),
        ml.mesh("v5e", data=4),
        "batch:data",
    )
    time = opened.time
    estimated = f"Estimated: {share_text(time.mfu)} MFU, {time.per_second('batch', 'seq'):,.0f} tokens/s per device."
    assert time.expected is not None
    assert time.factor is not None
    published = f"Expected: {seconds_text(time.expected)} ("
    use = opened.view()["time"]["use"]
    assert use.startswith(f"{estimated} {published}")
    assert use.endswith(f"): {time.factor.factor:g} times the estimate, as in {time.factor.runs} published runs.")
    assert use in html.unescape(opened.snapshot()._repr_html_())
    expected = opened.view()["time"]["expected"]
    assert time.factor.spread is not None
    low, high = (time.expected / (1 + sign * time.factor.spread) for sign in (1, -1))
    assert (expected["text"], expected["between"]) == (
        seconds_text(time.expected),
        f"{seconds_text(low)} to {seconds_text(high)}",
    )
    assert f"Expected: {expected['said']}." in use
    opened.on("l4")
    assert opened.view()["time"]["expected"] is None
    assert opened.view()["time"]["use"].startswith("Estimated: ")
    assert "published" not in opened.view()["time"]["use"]
    nothing = explore(ml.trace(lambda x: x, ml.f32[ml.Dim("rows", 8)]), ml.mesh("l4", data=2))
    assert nothing.view()["time"]["use"] == ""
    assert nothing.view()["time"]["rate"] is None


def test_the_rate_is_that_of_tokens_or_else_of_examples(explorer: Explorer) -> None:
    config = llama.Config(batch=8, seq=64)
    program = ml.trace(llama.predict, shapes(llama.init, config), llama.inputs(config)[0])
    language = explore(program, ml.mesh("v5e", data=4), "batch:data")
    tokens = f"{language.time.per_second('batch', 'seq'):,.0f}"
    assert language.view()["time"]["rate"] == {"text": tokens, "unit": "tokens/s per device", "step": "512 a step"}
    # What the plan says of itself is the same figure in the same words.
    assert ("tokens/s per device", tokens) in language.plan.time.rows()
    explorer.on("v5e")
    batch = explorer.program.dims["batch"]
    examples = f"{batch / explorer.mesh.size / explorer.time.estimate:,.0f}"
    rate = {"text": examples, "unit": "examples/s per device", "step": f"{batch} a step"}
    assert explorer.view()["time"]["rate"] == rate
    assert f"{examples} examples/s per device" in explorer.view()["time"]["use"]


def test_no_machine_no_time(explorer: Explorer) -> None:
    view = explorer.view()
    assert view["time"] is None
    assert view["peak_memory"] is None
    assert view["machine"]["on"] == ""
    assert "picture" not in view["machine"]


def test_what_is_assumed_is_costed(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    explorer.on("v5e")
    explorer.assume(attention="flash", prefetch=True)
    view = explorer.view()["time"]
    listed = ["default", "stored", "flash", "causal"]
    assert view["options"] == {"attention": "flash", "prefetch": True, "attentions": listed, "run": "flash"}
    assert view["estimate"] == explorer.plan.time.given(attention="flash", prefetch=True).estimate
    assert "Without attention scores" in explorer.view()["peak_memory"]["note"]


def test_a_missing_figure_is_told_and_the_board_stays(explorer: Explorer) -> None:
    no_floats = dataclasses.replace(own(), flops={"int8": ml.Figure(1e14)})
    explorer.load("batch:data")
    assert explorer.on(no_floats)
    view = explorer.view()
    assert "has no figure for matmuls in float32" in view["time"]["missing"]
    assert view["machine"]["title"] == "mine"
    assert view["peak_memory"]["limit"] == 1e9
    assert explorer.place("hidden", "model")
    (price,) = prices_of(explorer.documents, [Remove("batch")], peak=True)
    assert isinstance(price, Price)
    assert price.seconds is None
    assert price.peak_bytes


def test_what_takes_long_is_costed_in_the_background(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer.on("v5e")
    explorer.view()
    gate = Gate(monkeypatch, explorer.costs)
    changes: queue.Queue[str] = queue.Queue()
    explorer.subscribe(changes.put)
    explorer.place("hidden", "model")
    assert changes.get(timeout=60) == "document"
    revision, shared = explorer.revision, shared_state(explorer)
    state = shared["costs"]
    assert (state["pending"], state["time"], state["peak_memory"]) == (True, None, None)
    gate.open.set()
    assert changes.get(timeout=60) == "costs"
    assert explorer.revision == revision
    later = shared_state(explorer, "costs")["costs"]
    assert later["pending"] is False
    assert later["time"]["estimate"] == explorer.time.estimate
    explorer.place("batch", "data")
    assert explorer.view()["pending"] is False  # a script waits


def test_what_is_known_does_not_wait_for_what_is_worked_out(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes a drop back sees its costs at once."""
    explorer.on("v5e")
    before = explorer.view()["time"]
    gate = Gate(monkeypatch, explorer.costs)
    explorer.place("hidden", "model")
    assert shared_state(explorer)["costs"]["pending"]
    assert gate.reached.wait(60)
    explorer.undo()
    assert shared_state(explorer)["costs"]["time"] == before
    gate.open.set()


def test_costs_that_were_in_flight_when_all_was_forgotten_are_worked_out_anew(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    explorer.on(own())
    gate = Gate(monkeypatch, explorer.costs)
    costs: list[Costs] = []
    waiting = threading.Thread(target=lambda: costs.append(explorer.costs.of(explorer.document)))
    waiting.start()
    assert gate.reached.wait(60)
    # The machine of that name is another one now, with half the memory's bandwidth.
    slower = dataclasses.replace(own(), bandwidth=ml.Figure(own().bandwidth.value / 2))
    assert explorer.known(slower) == "mine"
    gate.open.set()
    waiting.join(60)
    assert costs[0].time is not None
    assert costs[0].time.memory_bound == explorer.time.memory_bound == explorer.plan.time.memory_bound
    assert explorer.plan.mesh.on.hardware == slower


def test_what_was_recalled_is_marked(explorer: Explorer) -> None:
    explorer.load("hidden:model")
    explorer.on("v5e")
    view = explorer.view()["time"]
    parts = {part["key"]: part["recalled"] for part in view["parts"]}
    assert parts == {"compute": False, "memory": True, "model": True}
    assert view["recalled"] == ["kernel launch latency 0 s", "collectives reach 100% of link bandwidth"]
    explorer.on("h100")
    assert explorer.view()["time"]["recalled"] == []


def test_errors_are_those_that_were_measured(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    explorer.on("v5e")
    monkeypatch.setattr(accuracy_module, "FILE", tmp_path / "none.json")
    assert accuracy("memory", ml.hardware("v5e")) == {"measured": False, "where": "docs/accuracy.md", "text": NOT_YET}
    file = tmp_path / "accuracy.json"
    monkeypatch.setattr(accuracy_module, "FILE", file)
    sections = {
        "memory": {"anchor": "memory", "texts": {"tpu": "Within 5%."}},
        "time": {"anchor": "x", "texts": {"v4": "!"}},
    }
    file.write_text(json.dumps(sections))
    view = explorer.view()
    measured = {"measured": True, "where": "docs/accuracy.md#memory", "text": "Within 5%."}
    assert view["peak_memory"]["accuracy"] == measured
    error = view["time"]["accuracy"]
    assert (error["measured"], error["text"]) == (False, "Not measured for v5e yet, only for `v4`.")


def test_a_large_slice_costs_no_more(program) -> None:
    opened = explore(program, ml.mesh("v5p:16x16x24", data=64, model=96))
    assert len(json.dumps(opened.view())) < 200_000
    nodes = explore(program, ml.mesh("h100", data=8192, model=8))
    assert len(json.dumps(nodes.view())) < 200_000
