"""Measures the step on the board: what a page is sent adds up to the profile, and goes with its layout.

The times are those of threads, and no test says anything about them.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from typing import Any

import pytest

import meshlab as ml
from meshlab.api.profile import Profile
from meshlab.engine.errors import MeshlabError, RunError
from meshlab.measuring.joined import COMPUTE
from meshlab.opening.open_explorer import explore
from meshlab.widgets.background.latest import Job
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import CancelMeasure, Measure, Refused, Start
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer, shared_state
from meshlab.widgets.views.asked.profiled import profile_part
from meshlab.widgets.views.asked.profiled_steps import ELSEWHERE, shares_of
from tests.widgets import small

LAYOUT = "batch:data hidden:model"


def opened() -> Explorer:
    explorer = explore(small.program(), ml.mesh("v5e", data=2, model=4), LAYOUT, run=small.training(steps=2))
    explorer.view()
    return explorer


@pytest.fixture(scope="module")
def measured() -> tuple[Explorer, Profile]:
    explorer = opened()
    return explorer, explorer.profile(runs=1)


def step_of(explorer: Explorer) -> dict[str, Any]:
    """What a page is sent of the step, as JSON has it."""
    reply = answer(explorer, {"v": 2, "kind": "read", "id": 1, "what": "step", "args": {}})
    assert reply["kind"] == "read", reply
    return json.loads(json.dumps(reply["data"], allow_nan=False))


def part(explorer: Explorer) -> dict[str, Any]:
    shown: Any = profile_part(explorer)["profile"]
    assert shown is not None
    return shown


def last(explorer: Explorer) -> Job:
    assert explorer.profiles.last is not None
    return explorer.profiles.last


def test_each_lane_has_the_shares_of_the_profile(measured: tuple[Explorer, Profile]) -> None:
    explorer, profile = measured
    view = step_of(explorer)
    assert view["measured"]
    slices, what = view["slices"], view["what"]
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row, seconds, of in zip(slices["row"], slices["seconds"], slices["what"], strict=True):
        if row >= view["depth"]:
            for i, column in enumerate(("took", "waited")):
                sums[view["lanes"][row - view["depth"]]][i] += what[column][of] * seconds
        else:  # frames are of kernels, which have it
            assert what["took"][of] == what["waited"][of] == 0
    wanted: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for each in profile.steps:
        wanted["+".join(each.axes)][0] += each.seconds / profile.seconds
        wanted["+".join(each.axes)][1] += each.waiting / profile.seconds
    assert sums.keys() == wanted.keys() == {"", "data", "model"}
    for lane, shares in wanted.items():
        assert sums[lane] == pytest.approx(shares, rel=1e-5), lane


def test_each_collective_has_what_it_took_itself(measured: tuple[Explorer, Profile]) -> None:
    explorer, profile = measured
    view = step_of(explorer)
    strings, what, slices = view["strings"], view["what"], view["slices"]
    found: dict[tuple[str, str], float] = defaultdict(float)
    for row, seconds, of in zip(slices["row"], slices["seconds"], slices["what"], strict=True):
        if row > view["depth"]:
            lane = view["lanes"][row - view["depth"]]
            found[lane, strings[what["collective"][of]]] += what["took"][of] * seconds
    wanted = [("+".join(c.axes), c.seconds / profile.seconds) for c in profile.collectives]
    assert all(c.executions for c in profile.collectives)
    by_lane = [(lane, took) for (lane, _), took in found.items()]
    assert [lane for lane, _ in sorted(by_lane)] == [lane for lane, _ in sorted(wanted)]
    assert [took for _, took in sorted(by_lane)] == pytest.approx([took for _, took in sorted(wanted)], rel=1e-5)
    assert {each["id"] for each in explorer.view()["collectives"]["rows"]} == {name for _, name in found}


def test_steps_without_a_prediction_count_with_the_one_before(measured: tuple[Explorer, Profile]) -> None:
    _, profile = measured
    total = sum(row.seconds for row in profile.steps) / profile.seconds
    kernels = sorted({(row.steps[0], row.kind, row.axes) for row in profile.steps if row.kind == COMPUTE})
    sends = {(row.steps[0], row.kind, row.axes) for row in profile.steps if row.kind != COMPUTE}
    (first, *_), few = kernels, {kernels[0], kernels[-1], *sends}
    assert len(kernels) > 2
    found = shares_of(profile, few)
    assert found.keys() == few
    assert sum(each.seconds for each in found.values()) == pytest.approx(total)
    before = sum(row.seconds for row in profile.steps if row.kind == COMPUTE and row.steps[0] < kernels[-1][0])
    assert found[first].seconds == pytest.approx(before / profile.seconds)
    # What is in no lane is not left out either.
    assert shares_of(profile, [])[ELSEWHERE].seconds == pytest.approx(total)


def test_a_page_is_sent_no_seconds_of_simulated_devices(measured: tuple[Explorer, Profile]) -> None:
    explorer, profile = measured
    shown = part(explorer)
    assert (shown["phase"], shown["error"], shown["here"], shown["layout"]) == ("done", "", True, LAYOUT)
    profiled = shown["profiled"]
    assert (profiled["simulated"], profiled["seconds"], profiled["runs"]) == (True, None, 1)
    assert profiled["devices"] == profile.devices
    assert profiled["busy"] + profiled["waiting"] + profiled["idle"] == pytest.approx(1)
    assert profiled["busy"] == pytest.approx(profile.busy / profile.seconds)
    assert set(shared_state(explorer, "profile")) == {"profile", "rev"}


def test_it_goes_with_its_layout_and_comes_back() -> None:
    explorer = opened()
    told: list[str] = []
    explorer.subscribe(told.append)
    assert not step_of(explorer)["measured"]
    explorer.profile(runs=1)
    assert told == ["profile", "profile"]
    explorer.load("batch:data")
    explorer.view()
    shown = part(explorer)
    assert (shown["here"], shown["layout"], shown["phase"]) == (False, LAYOUT, "done")
    step = step_of(explorer)
    assert not step["measured"]
    assert not any(step["what"]["took"])
    explorer.undo()
    explorer.view()
    assert part(explorer)["here"]
    assert any(step_of(explorer)["what"]["took"])
    # A pin of a search, and what a cost model assumes, change nothing of what runs.
    explorer.pin("hidden", "model")
    explorer.assume(prefetch=True)
    assert part(explorer)["here"]
    explorer.resize_axis("data", 4)
    assert not part(explorer)["here"]


def test_a_run_and_a_measurement_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = opened()
    go = threading.Event()
    profile: Any = object()
    plan: Any = type(explorer.plan)
    monkeypatch.setattr(plan, "profile", lambda self, *args, runs: profile if go.wait(60) else None)
    assert explorer.apply(Measure())
    refusal = explorer.apply(Start())
    assert isinstance(refusal, Refused)
    assert str(refusal) == (
        "Refused: The step is being measured, and a run would be measured too. Fix: Wait for it, or cancel it."
    )
    assert explorer.cancel_profile()
    assert last(explorer).phase == "cancelled"
    assert isinstance(explorer.apply(CancelMeasure()), Refused)
    go.set()
    monkeypatch.setattr("meshlab.widgets.state.runs.Run.active", True)
    assert explorer.apply(Start())
    with pytest.raises(ExplorerError, match="A run is going on, which would be measured too. Wait for it"):
        explorer.profile()
    assert isinstance(explorer.apply(Measure()), Refused)


def test_what_cannot_be_measured_is_said() -> None:
    explorer = opened()
    with pytest.raises(RunError, match="number of runs 0") as raised:
        explorer.plan.profile(runs=0)
    with pytest.raises(MeshlabError, match="number of runs 0"):
        explorer.profile(runs=0)
    shown = part(explorer)
    assert (shown["phase"], shown["profiled"]) == ("failed", None)
    assert shown["error"] == str(raised.value)
    assert not step_of(explorer)["measured"]


def test_arguments_are_those_of_the_step() -> None:
    explorer = opened()
    with pytest.raises(MeshlabError, match="takes 3 arguments"):
        explorer.profile(small.params())
