"""The goal of a board follows its layout: at once where the plan says it, and after costs where these do."""

from __future__ import annotations

import threading

import pytest

import meshlab as ml
from meshlab.cost.machines.units import bytes_text
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer, shared_state
from meshlab.widgets.render.snapshot import Snapshot
from meshlab.widgets.views.board import board_view
from meshlab.widgets.views.goal import goal_part
from tests.widgets import small
from tests.widgets.gates import Gate, costs_of

SENDS = ml.goal(sends="700 B", keeps={"batch": "data"})


def states(explorer: Explorer) -> list[str]:
    goal = goal_part(explorer)["goal"]
    assert goal is not None
    return [each["state"] for each in goal["conditions"]]


def test_a_board_without_a_goal_has_none(explorer: Explorer) -> None:
    assert explorer.goal is None
    assert goal_part(explorer) == {"goal": None}


def test_a_goal_follows_the_layout_and_undo() -> None:
    explorer = explore(small.program(), small.mesh(), "batch:data", goal=SENDS)
    assert explorer.goal is not None
    assert [each.met for each in explorer.goal.each] == [False, False, True]
    explorer.place("hidden", "model")
    assert explorer.goal.met
    assert explorer.goal == SENDS.judge(explorer.plan)
    assert states(explorer) == ["met"] * 3
    explorer.undo()
    assert not explorer.goal.met
    assert states(explorer) == ["missed", "missed", "met"]


def test_a_peak_and_a_step_that_miss_say_why_in_the_strip() -> None:
    goal = ml.goal(peak="1 B", step=1e-12, fits="h100", busy=False)
    explorer = explore(small.program(), ml.mesh("v5e", data=2), "batch:data", goal=goal)
    assert explorer.goal is not None  # waits for costs
    part = goal_part(explorer)["goal"]
    assert part is not None
    told = {each["text"].split()[0]: (each["state"], each["because"]) for each in part["conditions"]}
    assert told["uses"] == ("missed", explorer.plan.memory.donated.because)
    assert told["takes"] == ("missed", explorer.plan.time.because)
    assert told["fits"] == ("met", "")


def test_another_goal_and_none_are_set_on_the_board(explorer: Explorer) -> None:
    told: list[str] = []
    explorer.subscribe(told.append)
    before = explorer.revision
    explorer.set_goal(SENDS)
    assert states(explorer) == ["met", "missed", "missed"]
    explorer.set_goal(ml.goal(silent="data"))
    assert states(explorer) == ["missed", "met"]
    explorer.set_goal(None)
    assert explorer.goal is None
    assert told == ["goal"] * 3
    assert explorer.revision == before


def test_what_is_no_goal_or_does_not_fit_is_refused_and_changes_nothing(explorer: Explorer) -> None:
    explorer.set_goal(SENDS)
    with pytest.raises(ml.MeshlabError, match=r"goal=8000 must be a goal: ml.goal\(sends="):
        explorer.set_goal(8000)  # type: ignore[arg-type]
    with pytest.raises(ml.MeshlabError, match="has no axis of devices `modle`. Did you mean `model`") as caught:
        explorer.set_goal(ml.goal(silent="modle", step=1))
    assert "step needs a machine" in str(caught.value)
    assert explorer.goal is not None
    assert explorer.goal.goal is SENDS
    with pytest.raises(ml.MeshlabError, match="goal='sends' must be a goal"):
        explore(small.program(), small.mesh(), goal="sends")  # type: ignore[arg-type]
    with pytest.raises(ml.MeshlabError, match="the program has no dim `bach`"):
        explore(small.program(), small.mesh(), goal=ml.goal(keeps={"bach": None}))


def test_conditions_on_costs_are_pending_until_these_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    goal = ml.goal(fits=True, peak="1 GB", step="1 s", sends="700 B")
    explorer = explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data", goal=goal)
    explorer.view()
    gate, there = Gate(monkeypatch, explorer.costs), costs_of(explorer)
    explorer.place("hidden", "model")
    assert states(explorer) == ["pending", "met", "pending", "pending", "met"]
    view = goal_part(explorer)["goal"]
    assert view is not None
    assert (view["met"], view["pending"], view["heading"]) == (False, True, "goal: 2 of 5 conditions met")
    gate.open.set()
    assert there.wait(60)
    assert states(explorer) == ["met"] * 5
    assert explorer.goal == goal.judge(explorer.plan)


def test_a_peak_for_another_machine_is_worked_out_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = explore(small.program(), small.mesh(), "batch:data", goal=ml.goal(fits="v5e"))
    explorer.view()
    gate, there = Gate(monkeypatch, explorer.peaks), threading.Event()
    explorer.subscribe(lambda what: there.set() if what == "goal" else None)
    explorer.place("hidden", "model")
    assert states(explorer) == ["pending", "met"]
    gate.open.set()
    assert there.wait(60)
    explorer.on("v5e")
    peak = explorer.plan.memory.donated.peak_bytes
    explorer.on(None)
    assert explorer.goal is not None
    assert explorer.goal.each[0].value == f"{bytes_text(peak)} of 16.0 GB"


def test_costs_without_a_machine_are_as_the_plan_has_them() -> None:
    explorer = explore(small.program(), small.mesh(), "batch:data", goal=ml.goal(peak=10))
    assert explorer.goal is not None
    assert explorer.goal.each[0].value == bytes_text(explorer.plan.memory.donated.peak_bytes)
    view = explorer.view()
    assert (view["peak_memory"], view["pending"]) == (None, False)


def test_assumptions_of_the_board_are_those_of_the_goal() -> None:
    model = ml.named_models()["gpt2_adamw"]
    mesh = ml.mesh("v5e:2x2", data=2, model=2)
    explorer = explore(model.trace(), mesh, "batch:data", goal=ml.goal(peak=1, step=1e-9))
    explorer.assume(attention="stored")
    assert explorer.goal is not None
    stored = [each.value for each in explorer.goal.each[:2]]
    explorer.assume(attention="flash")
    assert [each.value for each in explorer.goal.each[:2]] != stored
    peak = explorer.plan.memory.given("flash").donated.peak_bytes
    assert explorer.goal.each[0].value == bytes_text(peak)


def test_what_the_board_no_longer_has_is_missed_with_the_reason() -> None:
    goal = ml.goal(
        fits=True, step="1 s", silent="model", keeps={"hidden": None}, collectives={"all-to-all over model": 0}
    )
    explorer = explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data", goal=goal)
    assert states(explorer) == ["met", "met", "missed", "met", "met", "met"]
    explorer.on(None)
    explorer.rename_axis("model", "tensor")
    explorer.rename_dim("hidden", "ffn")
    assert states(explorer) == ["missed"] * 6
    assert explorer.goal is not None
    reasons = [each.because for each in explorer.goal.each]
    assert reasons[0] == "The mesh is on no machine, so there is no memory limit."
    assert reasons[1] == "The board is on no machine: choose one."
    assert "no axis of devices `model`" in reasons[3]
    assert reasons[4] == "The program has no dim `hidden`."
    assert "no axis of devices `model`" in reasons[5]
    for _ in range(3):
        explorer.undo()
    assert states(explorer) == ["met", "met", "missed", "met", "met", "met"]


def test_a_document_is_opened_with_a_goal(tmp_path) -> None:
    path = tmp_path / "board.json"
    first = explore(small.program(), small.mesh(), "batch:data hidden:model")
    first.save(path)
    opened = explore(small.program(), small.mesh(), document=path, goal=SENDS)
    assert opened.goal is not None
    assert opened.goal.met


def test_prices_and_bounds_are_the_same_numbers() -> None:
    """The page ticks a drop by its price: where the price says that a condition is met, it is after the drop."""
    mesh = ml.mesh("v5e", data=2, model=4)
    bounds = {"sends": 700, "step": 1e-5, "peak": 40_000, "fits": True}
    explorer = explore(small.program(), mesh, "batch:data", goal=ml.goal(**bounds))
    intents = [{"op": "place", "args": {"dim": "hidden", "axes": [axis]}} for axis in ("data", "model")]
    intents.append({"op": "place", "args": {"dim": "hidden", "axes": ["model"], "at": "params/*"}})
    message = {"v": 2, "kind": "prices", "id": 1, "intents": intents, "peak": True}
    prices = answer(explorer, message)["prices"]  # type: ignore[typeddict-item]
    judged = 0
    for intent, price in zip(intents, prices, strict=True):
        if price.get("refused"):
            continue
        goal = goal_part(explorer)["goal"]
        assert goal is not None
        said = [price[each["price"]] <= each["most"] for each in goal["conditions"]]  # type: ignore[literal-required]
        explorer.place("hidden", *intent["args"]["axes"], at=intent["args"].get("at"))
        assert explorer.goal is not None
        assert [each.met for each in explorer.goal.each] == said
        explorer.undo()
        judged += 1
    assert judged == 2


def test_a_quiet_goal_sends_nothing_that_gives_the_answer_away() -> None:
    explorer = explore(small.program(), small.mesh(), "batch:data", goal=ml.goal(sends="700 B", quiet=True))
    goal = goal_part(explorer)["goal"]
    assert goal is not None
    assert goal["quiet"]
    assert [(each["value"], each["because"], each["price"]) for each in goal["conditions"]] == [("", "", None)] * 2
    explorer.place("hidden", "model")
    goal = goal_part(explorer)["goal"]
    assert goal is not None
    assert (goal["met"], goal["quiet"]) == (True, False)
    assert [each["value"] for each in goal["conditions"]] == ["660 B", "12.5% each"]


def test_a_drop_sends_the_goal_with_the_layout_and_a_selection_does_not(explorer: Explorer) -> None:
    explorer.set_goal(SENDS)
    assert "goal" in shared_state(explorer, "document")
    assert "goal" in shared_state(explorer, "costs")
    assert set(shared_state(explorer, "goal")) == {"goal", "rev"}
    assert "goal" not in shared_state(explorer, "selection")


def test_a_snapshot_has_the_goal(explorer: Explorer) -> None:
    assert "Goal" not in explorer.snapshot().html
    explorer.set_goal(SENDS)
    explorer.load("batch:data")
    drawn = explorer.snapshot().html.replace(' style="background:none;color:inherit"', "")
    for part in ("Goal: 1 of 3 conditions met", "✗ sends at most 700 B", "1.67 kB", "✓ keeps <code>batch</code> on"):
        assert part in drawn
    explorer.load("batch:data hidden:model")
    assert "Goal met: all 3 conditions hold" in explorer.snapshot().html


def test_a_snapshot_does_not_wait_for_the_costs_of_a_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = ml.mesh("v5e", data=2, model=4)
    explorer = explore(small.program(), mesh, "batch:data", goal=ml.goal(step="1 s"))
    gate = Gate(monkeypatch, explorer.costs)
    explorer.place("hidden", "model")
    drawn = Snapshot(board_view(explorer)).html
    gate.open.set()
    assert "… takes at most 1 s a step" in drawn
