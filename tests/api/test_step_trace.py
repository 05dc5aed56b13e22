"""The trace of a predicted step is one that a viewer of Chrome traces reads, and has the seconds of `plan.time`."""

import json
from collections import defaultdict

import pytest

import meshlab as ml
from meshlab.api.step_slices import KERNELS, LOOPS, slices_of
from meshlab.api.step_trace import MOST
from meshlab.models.zoo import models
from tests.given import refused

TPU = ml.mesh("v5e:2x4", data=2, model=4)


def plan_of(name: str, mesh: ml.Mesh, layout: str) -> ml.Plan:
    return next(model for model in models() if model.name == name).trace().plan(mesh, layout)


def written(plan: ml.Plan, path) -> dict:
    plan.write_trace(path)
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    ("name", "layout"), [("mlp", "batch:data hidden:model"), ("llama_adamw", "batch:data heads:model ffn:model")]
)
def test_lanes_add_up_to_the_time(name, layout, tmp_path):
    plan = plan_of(name, TPU, layout)
    events = written(plan, tmp_path / "step.json")["traceEvents"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    sums: dict[str, float] = defaultdict(float)
    for event in events:
        if event["ph"] == "X":
            sums[threads[event["tid"]]] += event["dur"] / 1e6
    assert sums[KERNELS] == pytest.approx(float(plan.time.compute), rel=1e-9)
    assert plan.time.communication
    for axes, seconds in plan.time.communication.items():
        assert sums[f"over {axes}"] == pytest.approx(float(seconds), rel=1e-9)
    last = max(e["ts"] + e["dur"] for e in events if e["ph"] == "X")
    assert last / 1e6 == pytest.approx(float(plan.time.estimate), rel=1e-6)


@pytest.mark.parametrize("mesh", [TPU, ml.mesh("h100:1x4", data=4, micro=ml.serial(2))], ids=["v5e", "h100"])
def test_it_keeps_the_rules_of_the_format(mesh, tmp_path):
    """Slices of one thread are apart, or one is inside the other; each has what a viewer needs."""
    plan = plan_of("llama_adamw", mesh, "batch:data" if "model" in mesh.axes else "batch:data+micro")
    trace = written(plan, tmp_path / "step.json")
    assert trace["displayTimeUnit"] == "ms"
    by_thread = defaultdict(list)
    for event in trace["traceEvents"]:
        assert event["ph"] in ("X", "M")
        assert event["pid"] == 1
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["name"]
            by_thread[event["tid"]].append((event["ts"], -event["dur"], event["name"]))
    assert len(by_thread) >= 3
    for slices in by_thread.values():
        open_until: list[float] = []
        for begin, minus, name in sorted(slices):
            while open_until and open_until[-1] <= begin + 1e-6:
                open_until.pop()
            assert not open_until or begin - minus <= open_until[-1] + 1e-6, name
            open_until.append(begin - minus)


def test_iterations_are_written_one_by_one_until_they_are_too_many():
    plan = plan_of("llama_adamw", TPU, "batch:data")
    spans = plan.time.spent.spans
    each, few = list(slices_of(spans, MOST)), list(slices_of(spans, 10))
    assert any(s.iteration == 1 for s in each)
    assert all(s.iteration is None for s in few)
    assert any(s.times > 1 for s in few)
    for thread in (KERNELS, "data"):
        both = [sum(s.seconds for s in slices if s.thread == thread) for slices in (each, few)]
        assert both[0] == pytest.approx(both[1])
    assert sum(s.thread == LOOPS for s in few) >= 1


def test_collectives_say_why(tmp_path):
    plan = plan_of("mlp", TPU, "batch:data hidden:model")
    events = written(plan, tmp_path / "step.json")["traceEvents"]
    sent = [e for e in events if e.get("cat") == "all-reduce"]
    assert sent
    assert {e["args"]["because"] for e in sent} <= {c.because for c in plan.collectives}
    assert all(e["name"].startswith("all-reduce: ") and e["args"]["payload"] for e in sent)


def test_what_cannot_be_written_is_refused(tmp_path):
    plan = plan_of("mlp", TPU, "batch:data")
    refused(lambda: plan.write_trace(tmp_path / "none" / "step.json"), ml.MeshlabError, "cannot write .*No such file")
    refused(lambda: plan.write_trace(3), ml.MeshlabError, "was given 3 for its file")  # pyright: ignore[reportArgumentType]
    bare = plan_of("mlp", ml.mesh(data=2), "batch:data")
    refused(lambda: bare.write_trace(tmp_path / "step.json"), ml.HardwareError, "on none|no machine")


def test_what_kernels_are_in_is_around_them(tmp_path):
    plan = plan_of("llama_unrolled_adamw", TPU, "batch:data heads:model")
    events = written(plan, tmp_path / "step.json")["traceEvents"]
    by_kind = defaultdict(set)
    for event in events:
        if event["ph"] == "X":
            by_kind[event["cat"]].add(event["name"])
    assert {"attention", "ffn"} <= by_kind["scope"]
    assert "rms_norm" in by_kind["function"]
    assert any("softmax" in line for line in by_kind["line"])
    assert "repetition 2 of 2" in by_kind["repetition"] or len(by_kind["repetition"]) > 2
    # Each repetition says what it sends, and not only the one that stands for all of them.
    sent = [e for e in events if e.get("cat") in {c.kind for c in plan.collectives}]
    assert sent
    assert all(e["args"]["because"] for e in sent)
