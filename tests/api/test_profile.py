"""A profile joins what devices ran to the plan: all collectives, and almost all of the kernels' time.

The times are those of threads, and no test says anything about them: it is the joining that is tested.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

import meshlab as ml
from meshlab.api import profile as profiles
from meshlab.api.profile import Profile
from meshlab.cost.machines.units import seconds_text
from meshlab.measuring.joined import COMPUTE
from meshlab.measuring.recorded import Event
from meshlab.models.zoo import models
from tests.given import ARRAY, MESH, PROGRAM, X, refused

ml.simulate(8)

MODELS = {model.name: model for model in models()}
MICRO = {"data": 2, "model": 4, "micro": ml.serial(2)}
PIPE = {"data": 4, "pipe": ml.stages(2), "micro": ml.serial(2)}
# By name a model of the zoo, the mesh, and the layout: steps of training, most with a scan over layers.
CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "two layers": ("mlp", {"data": 2, "model": 4}, "batch:data hidden:model"),
    "tensor": ("transformer_sgd", {"data": 2, "model": 4}, "batch:data heads:model ffn:model"),
    "micro-batches": ("llama_adamw", MICRO, "batch:data+micro ffn:model"),
    "pipeline": ("llama_adamw", PIPE, "batch:data+micro layers:pipe"),
    "ring": ("llama_adamw", {"data": 2, "cp": 4}, "batch:data seq:cp kv:cp"),
    "experts": ("moe_sgd", {"data": 2, "model": 4}, "batch:data experts:model"),
    "dropless": ("moe_dropless", {"data": 2, "model": 4}, "batch:data experts:model"),
    "fsdp": ("gpt2_adamw", {"data": 8}, {"batch": "data", "params/*": {"embed": "data"}}),
    "halo": ("convnet_sgd", {"data": 2, "model": 4}, "batch:data rows:model"),
}


@functools.cache
def measured(case: str) -> tuple[ml.Plan, Profile]:
    name, axes, layout = CASES[case]
    model = MODELS[name]
    plan = model.trace().plan(ml.mesh("v5e:2x4", **axes), layout)
    return plan, plan.profile(*model.data(0), runs=1)


@pytest.mark.share(4)
@pytest.mark.parametrize("case", CASES)
def test_time_and_collectives_are_joined(case: str):
    plan, profile = measured(case)
    # The share of names says how long the few kernels without one happened to take: no bound holds for threads.
    assert profile.joined >= 0.99
    assert 0 < profile.named <= profile.joined
    assert [c for c in profile.collectives if not c.executions] == []
    assert {(c.kind, c.axes) for c in profile.collectives} == {(c.kind, c.axes) for c in plan.collectives}
    assert plan.collectives


def test_each_event_is_divided_among_its_steps():
    _, profile = measured("two layers")
    parts: Counter[Any] = Counter()
    for share in profile.shares:
        parts[share.device, share.op, share.begin] += share.part  # pyright: ignore[reportArgumentType]
    assert parts == pytest.approx(dict.fromkeys(parts, 1.0))
    assert {share.device for share in profile.shares} == set(range(8))


def test_collectives_are_executed_as_often_as_planned():
    plan, profile = measured("two layers")
    wanted, found = Counter[Any](), Counter[Any]()
    for c in plan.collectives:
        wanted[c.kind, c.axes] += c.times
    for row in profile.collectives:
        found[row.kind, row.axes] += row.executions  # pyright: ignore[reportArgumentType]
    assert found == wanted


def test_predicted_seconds_are_those_of_the_plan():
    plan, profile = measured("two layers")
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for row in profile.steps:
        assert row.predicted is not None
        sums[row.axes] += row.predicted
    assert sums.pop(()) == pytest.approx(float(plan.time.compute))
    sent = {tuple(axes.split("+")): pytest.approx(float(seconds)) for axes, seconds in plan.time.communication.items()}
    assert sums == sent
    assert profile.predicted == plan.time.estimate


def test_parts_add_up():
    _, profile = measured("two layers")
    assert profile.busy + profile.waiting + profile.idle == pytest.approx(profile.seconds)
    for name in ("seconds", "waiting", "predicted"):
        of_steps, of_lines = (sum(getattr(row, name) for row in rows) for rows in (profile.steps, profile.lines))
        assert of_steps == pytest.approx(of_lines)
    for row in profile.steps:
        assert row.seconds == pytest.approx(sum(row.by_device) / 8)
    assert [row for row in profile.steps if row.kind == COMPUTE and row.waiting] == []


def test_it_prints_as_a_table():
    _, profile = measured("two layers")
    text = str(profile)
    assert "measured  waiting  predicted for Google TPU v5e, 2x4" in text
    assert "all-reduce over data" in text
    assert "Simulated devices are threads on this machine's cores: their times say nothing about speed." in text
    html = profile._repr_html_()
    assert all(part in html for part in ("<table>", "all-reduce over data", "say nothing about speed"))
    assert [len(line) for line in text.splitlines() if len(line) > 160] == []


def test_without_a_machine_nothing_is_predicted():
    profile = PROGRAM.plan(MESH, "batch:data hidden:model").profile(runs=1)
    assert profile.predicted is None
    assert all(row.predicted is None for row in (*profile.steps, *profile.lines))
    assert "predicted" not in str(profile)


def test_a_run_of_several_is_told():
    profile = PROGRAM.plan(MESH, "batch:data").profile(runs=3)
    assert profile.runs == 3
    assert "This is the run of median length of 3;" in str(profile)


def test_what_cannot_be_measured_is_refused(monkeypatch):
    plan: Any = PROGRAM.plan(MESH, "batch:data")
    refused(lambda: plan.profile(runs=0), ml.RunError, "the number of runs 0; it must be an integer of at least 1")
    refused(lambda: plan.profile(X), ml.RunError, r"The plan takes 2 arguments \(params, x\) and was given 1")
    refused(lambda: plan.profile(ARRAY, X), ml.RunError, "Give profile\\(\\) the same arguments as ml.trace")
    with monkeypatch.context() as patch:
        patch.setattr(profiles, "recorded", lambda call, module, times: [[Event("other", 0, 0.0, 1.0)]])
        match = r"on 4 simulated CPU devices \(.*\): its events have other names, such as 'other'"
        refused(lambda: plan.profile(runs=1), ml.RunError, match)
    monkeypatch.setattr(profiles, "MOST_DRAWN", 1000)
    match = "draws at most 1.00 kB of random ones; this program's take 4.61 kB"
    refused(lambda: plan.profile(), ml.RunError, match)
    monkeypatch.setattr(profiles, "is_joined", lambda: True)
    refused(lambda: plan.profile(), ml.RunError, "it does not compare the clocks of several")


def traced(profile: Any, path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The events of a trace, and what is said of it."""
    profile.write_trace(path)
    trace = json.loads(path.read_text())
    return trace["traceEvents"], trace["otherData"]


def lanes(events: list[dict[str, Any]]) -> dict[int, dict[str, list[dict[str, Any]]]]:
    """The slices of a trace by process and lane, in the order in which lanes are drawn."""
    order: dict[tuple[int, int], int] = {}
    names: dict[tuple[int, int], str] = {}
    for event in events:
        if event["name"] == "thread_sort_index":
            order[event["pid"], event["tid"]] = event["args"]["sort_index"]
        if event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
    found: dict[int, dict[str, list[dict[str, Any]]]] = defaultdict(dict)
    for process, thread in sorted(names, key=lambda each: (each[0], order[each])):
        slices = [e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == (process, thread)]
        found[process][names[process, thread]] = slices
    return found


def processes(events: list[dict[str, Any]]) -> dict[int, str]:
    return {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}


def length(slices: list[dict[str, Any]]) -> float:
    return max(e["ts"] + e["dur"] for e in slices) - min(e["ts"] for e in slices)


def test_the_trace_has_lanes_of_each_device_below_the_predicted_ones(tmp_path):
    plan, profile = measured("two layers")
    events, said = traced(profile, tmp_path / "profile.json")
    plan.write_trace(tmp_path / "step.json")
    predicted = json.loads((tmp_path / "step.json").read_text())
    slices = [event for event in events if (event["pid"], event["ph"]) == (1, "X")]
    assert slices == [event for event in predicted["traceEvents"] if event["ph"] == "X"]
    names = processes(events)
    assert names[1] == "predicted for Google TPU v5e, 2x4, each device"
    assert [*names] == [1, *range(2, 10)]
    assert [e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"] == [*names]
    above, *below = lanes(events).values()
    for each in below:
        assert [name for name in each if "," not in name] == [name for name in above if "," not in name]
        for run in each.values():
            assert all(event["name"] for event in run)
            for one, other in itertools.pairwise(run):
                assert other["ts"] >= one["ts"] + one["dur"] - 1e-3
    assert said["measured"].startswith("8 simulated CPU devices")


def test_steps_have_their_names_in_both_parts_of_the_trace(tmp_path):
    above, *below = lanes(traced(measured("two layers")[1], tmp_path / "profile.json")[0]).values()
    for name in above:
        for each in below:
            # A fusion has the names of the steps in it; so have collectives that XLA combined.
            sent = [event["name"].removeprefix("waiting, ").partition(": ") for event in each.get(name, [])]
            there = {f"{kind}: {part}" for kind, _, parts in sent for part in parts.split(", ")}
            if name.startswith("over "):
                assert there == {event["name"] for event in above[name]}
    kernels = {part for each in below for event in each["kernels"] for part in event["name"].split(", ")}
    assert {event["name"] for event in above["kernels"]} <= kernels


def test_the_step_of_simulated_devices_is_drawn_as_long_as_the_predicted_one(tmp_path):
    plan, profile = measured("two layers")
    events, said = traced(profile, tmp_path / "profile.json")
    run = [event for event in events if event["ph"] == "X" and event["pid"] > 1]
    assert length(run) == pytest.approx(1e6 * float(plan.time.estimate))
    took = sum(event["dur"] for event in run) / length(run)
    assert took == pytest.approx(sum((s.end - s.begin) * s.part for s in profile.shares) / profile.seconds)
    shares = sum(float(event["args"]["share of the step"].removesuffix("%")) for event in run) / 100
    assert shares == pytest.approx(took, rel=0.02)
    said_of = "simulated devices: shares, not speeds; the step is drawn as long as the predicted one"
    assert all(name.endswith(said_of) for process, name in processes(events).items() if process > 1)
    # No seconds are said: the length of the predicted step is the only one.
    assert " on " not in said["measured"]
    assert said["step"].endswith("predicted by meshlab")


def test_the_trace_of_attached_devices_has_one_scale(tmp_path):
    _, profile = measured("two layers")
    events, said = traced(dataclasses.replace(profile, simulated=False), tmp_path / "profile.json")
    run = [event for event in events if event["ph"] == "X" and event["pid"] > 1]
    assert length(run) == pytest.approx(1e6 * profile.seconds)
    assert processes(events)[2] == "measured on device 0"
    assert said["measured"].startswith(seconds_text(profile.seconds))


def test_the_trace_of_a_plan_without_a_machine(tmp_path):
    profile: Any = PROGRAM.plan(MESH, "batch:data").profile(runs=1)
    events, _ = traced(profile, tmp_path / "profile.json")
    names = processes(events)
    assert [*names] == [*range(2, 6)]
    assert names[2] == "measured on device 0; simulated devices: shares, not speeds; 1 ms is 1% of the step"
    assert length([event for event in events if event["ph"] == "X"]) == pytest.approx(100_000)
    refused(lambda: profile.write_trace(3), ml.MeshlabError, "write_trace\\(\\) was given 3 for its file")
