"""A profile joins what devices ran to the plan: all collectives, and almost all of the kernels' time.

The times are those of threads, and no test says anything about them: it is the joining that is tested.
"""

from __future__ import annotations

import functools
import json
from collections import Counter, defaultdict
from typing import Any

import pytest

import meshlab as ml
from meshlab.api import profile as profiles
from meshlab.api.profile import Profile
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


def test_the_trace_has_lanes_of_each_device(tmp_path):
    plan, profile = measured("two layers")
    profile.write_trace(tmp_path / "profile.json")
    trace = json.loads((tmp_path / "profile.json").read_text())
    plan.write_trace(tmp_path / "step.json")
    predicted = json.loads((tmp_path / "step.json").read_text())
    assert [event for event in trace["traceEvents"] if event["pid"] == 1] == predicted["traceEvents"]
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["pid"] > 1:
            assert event["name"]
            lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert {process for process, _ in lanes} == set(range(2, 10))
    for slices in lanes.values():
        for (_, end), (begin, _) in zip(sorted(slices), sorted(slices)[1:], strict=False):
            assert begin >= end - 1e-3
    took = sum(end - begin for slices in lanes.values() for begin, end in slices) / 1e6
    assert took == pytest.approx(sum((share.end - share.begin) * share.part for share in profile.shares))
    assert "8 simulated CPU devices" in trace["otherData"]["measured"]


def test_the_trace_of_a_plan_without_a_machine(tmp_path):
    profile: Any = PROGRAM.plan(MESH, "batch:data").profile(runs=1)
    profile.write_trace(tmp_path / "profile.json")
    trace = json.loads((tmp_path / "profile.json").read_text())
    assert {event["pid"] for event in trace["traceEvents"]} == set(range(2, 6))
    refused(lambda: profile.write_trace(3), ml.MeshlabError, "write_trace\\(\\) was given 3 for its file")
