"""The step over time: lanes that add up, loops stretched over all iterations, and memory that keeps its peak."""

from __future__ import annotations

from typing import Any

import pytest

import meshlab as ml
from meshlab.engine.planning.steps import Nested
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.views.timeline import TimelineView, timeline_view
from tests.widgets import small

MODELS = {model.name: model for model in zoo.models()}
LAYOUT = {"batch": "data", "heads": "model", "ffn": "model", "params/*": {"embed": "data"}}


def timeline(name: str, layout: Any = LAYOUT) -> tuple[ml.Plan, TimelineView]:
    plan = MODELS[name].trace().plan(ml.mesh("v5e", data=2, model=4), layout)
    return plan, timeline_view(plan.time, plan.memory)


def busy(view: TimelineView) -> dict[str, float]:
    lanes = {lane["key"]: lane["segments"] for lane in view["lanes"]}
    return {key: sum(each["end"] - each["begin"] for each in segments) for key, segments in lanes.items()}


@pytest.mark.parametrize("name", ["transformer_adamw", "llama_adamw", "moe_sgd", "mlp"])
def test_segments_stay_within_the_step_and_follow_each_other(name: str) -> None:
    plan, view = timeline(name, LAYOUT if name != "mlp" else "batch:data hidden:model")
    assert view["seconds"] == plan.time.estimate
    for lane in view["lanes"]:
        ends = [0.0, *(segment["end"] for segment in lane["segments"])]
        assert max(ends) <= view["seconds"] * (1 + 1e-9)
        begins = [segment["begin"] for segment in lane["segments"]]
        assert all(begin >= end - 1e-12 for begin, end in zip(begins, ends, strict=False))


def test_lanes_are_as_busy_as_the_times_say() -> None:
    plan, view = timeline("transformer_adamw")
    seconds = busy(view)
    assert seconds.pop("") == pytest.approx(plan.time.compute, rel=0.02)
    assert seconds == pytest.approx(dict(plan.time.communication), rel=0.05)


def test_a_stage_s_kernels_waiting_and_hops_are_as_long_as_the_times_say() -> None:
    mesh = ml.mesh("v5p:2x2x2", data=2, pipe=ml.stages(4), micro=ml.serial(8))
    plan = ml.named_models()["llama3-8b"].trace(batch=16).plan(mesh, "batch:data+micro layers:pipe")
    view, time = timeline_view(plan.time, plan.memory), plan.time
    sums: dict[str, float] = {}
    for lane in view["lanes"]:
        for each in lane["segments"]:
            key = "waiting" if each["kind"] == "waiting" else lane["key"]
            sums[key] = sums.get(key, 0.0) + each["seconds"]
    assert time.idle > 0.1 * time.estimate
    assert (sums.pop("waiting"), sums.pop("")) == pytest.approx((time.idle, time.compute), rel=1e-6)
    assert sums == pytest.approx(dict(time.communication), rel=1e-6)
    assert sum(each["seconds"] for each in view["exposed"]) == pytest.approx(time.exposed, rel=1e-6)


def test_a_loop_is_one_iteration_over_the_time_of_all() -> None:
    plan, view = timeline("llama_adamw")
    loops = [step.times for step in plan.steps if isinstance(step, Nested) and step.times > 1]
    assert [loop["times"] for loop in view["loops"]] == loops
    assert {segment["times"] for lane in view["lanes"] for segment in lane["segments"]} >= set(loops)


def test_phases_cover_the_step() -> None:
    _, view = timeline("transformer_adamw")
    assert [phase["name"] for phase in view["phases"]] == ["forward", "backward", "update"]
    edges = [edge for phase in view["phases"] for edge in (phase["begin"], phase["end"])]
    assert edges == sorted(edges)
    assert (edges[0], edges[-1]) == (0.0, view["seconds"])


def test_memory_keeps_its_peak() -> None:
    plan, view = timeline("transformer_adamw")
    assert max(count for _, count in view["memory"]) == plan.memory.peak_bytes
    times = [time for time, _ in view["memory"]]
    assert times == sorted(times)
    assert times[-1] <= view["seconds"]


def test_a_step_of_any_length_is_a_few_hundred_segments() -> None:
    _, view = timeline("gpt2_adamw")
    assert sum(len(lane["segments"]) for lane in view["lanes"]) < 600


def test_there_is_none_without_a_machine() -> None:
    explorer: Explorer = explore(small.program(), small.mesh(), "batch:data")
    assert explorer.view()["timeline"] is None
    explorer.on("v5e")
    assert [lane["key"] for lane in explorer.view()["timeline"]["lanes"]] == ["", "data"]


def layouts() -> list[tuple[str, Any, dict]]:
    """Models with loops, with branches, with what devices exchange inside of operations, and with attention."""
    return [
        ("transformer_adamw", LAYOUT, {}),
        ("transformer_adamw", LAYOUT, {"attention": "flash"}),
        ("transformer_adamw", LAYOUT, {"attention": "causal", "prefetch": True}),
        ("llama_adamw", LAYOUT, {}),
        ("llama_adamw", LAYOUT, {"prefetch": True}),
        ("moe_sgd", LAYOUT, {}),
        ("unet3d_sgd", "batch:data depth:model", {}),
        ("convnet", "batch:data rows:model", {}),
        ("mlp", "batch:data hidden:model", {}),
        ("mlp", "", {}),
    ]


@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "layout", "options"), layouts())
def test_what_is_drawn_adds_up_to_the_times(name: str, layout: Any, options: dict) -> None:
    plan = MODELS[name].trace().plan(ml.mesh("v5e", data=2, model=4), layout)
    time = plan.time.given(**options)
    view = timeline_view(time, plan.memory.given(options.get("attention", "stored")))
    lanes = {lane["key"]: sum(segment["seconds"] for segment in lane["segments"]) for lane in view["lanes"]}
    exposed = sum(segment["seconds"] for segment in view["exposed"])
    assert lanes.pop("") == pytest.approx(time.compute, rel=1e-9)
    assert lanes == pytest.approx({key: seconds for key, seconds in time.communication.items() if seconds}, rel=1e-9)
    assert exposed == pytest.approx(time.exposed, rel=1e-9, abs=1e-9 * time.estimate)
    assert time.compute + exposed == pytest.approx(time.estimate, rel=1e-9)


def test_what_operations_send_themselves_is_in_the_lane_of_its_axes() -> None:
    plan, view = timeline("unet3d_sgd", "depth:model")
    kinds = {segment["kind"] for lane in view["lanes"] if lane["key"] == "model" for segment in lane["segments"]}
    assert "collective-permute" in {c.kind for c in plan.collectives}
    assert "collective-permute" in kinds
