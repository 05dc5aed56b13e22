"""Auto beside the manual layout: searching, found, taken over, failed, cancelled; and what follows on the board.

Searches are held at a gate, one for each objective, so that a test decides which of them ends first.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

import meshlab as ml
from meshlab.auto import Cancelled
from meshlab.auto.mesh_tf_ledger import planned_live_bytes
from meshlab.widgets.explorer import Explorer, explore
from meshlab.widgets.notebook.protocol import shared_state
from meshlab.widgets.state import searches as searches_module
from meshlab.widgets.state.intents import Auto, Refused
from meshlab.widgets.views import comparison as comparison_module
from tests.widgets import small
from tests.widgets.gates import FINDS, Found, Gate, Gates, costs_of


@pytest.fixture
def searching(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> Explorer:
    def best(program: Any, mesh: Any, objective: str, cancel: Any) -> Found:
        if objective == "beauty":
            raise ValueError("there is no objective `beauty`")
        return Found(program.plan(mesh, FINDS[objective]))

    monkeypatch.setattr(searches_module, "best", best)
    return explorer


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Gates:
    return Gates(monkeypatch)


def shown(explorer: Explorer) -> dict:
    return explorer.view()["comparison"]


def test_nothing_is_compared_before_a_search(explorer: Explorer) -> None:
    assert explorer.view()["comparison"] is None


def test_the_two_are_set_side_by_side(searching: Explorer) -> None:
    searching.load("batch:data")
    choice = searching.auto("traffic")
    shown = searching.view()["comparison"]
    assert (shown["phase"], shown["same"], shown["proof"]) == ("found", False, "the least of all legal layouts")
    manual, auto = shown["rows"]
    assert (manual["layout"], auto["layout"]) == ("batch:data", "hidden:model")
    assert manual["bytes"] == searching.plan.wire_bytes
    assert auto["bytes"] == choice.plan.wire_bytes == 480
    drawn = searching.figure("comparison")
    assert sum(sum(bar.x) for bar in drawn.data) == manual["bytes"] + auto["bytes"]
    second = searching.auto("memory")
    rows = searching.view()["comparison"]["rows"]
    assert list(searching.figure("comparison").data[0].x) == [row["live_bytes"] for row in rows]
    assert [row["live_bytes"] for row in rows] == [planned_live_bytes(plan) for plan in (searching.plan, second.plan)]
    assert searching.load(second.layout)
    assert searching.view()["comparison"]["same"]


def test_the_board_searches_in_the_background(searching: Explorer) -> None:
    done = threading.Event()
    phases = []

    def listen(what: str) -> None:
        phases.append(searching.view()["comparison"]["phase"])
        if phases[-1] == "found":
            done.set()

    searching.subscribe(listen)
    assert searching.apply(Auto("memory"))
    assert done.wait(30)
    assert phases == ["searching", "found"]


def test_a_search_that_fails_says_why(searching: Explorer) -> None:
    with pytest.raises(ValueError, match="there is no objective `beauty`"):
        searching.auto("beauty")
    shown = searching.view()["comparison"]
    assert (shown["phase"], shown["error"]) == ("failed", "there is no objective `beauty`")


def test_the_search_that_was_asked_for_last_counts_whichever_ends_last(explorer: Explorer, gates: Gates) -> None:
    gates.ask(explorer, "traffic")
    gates.ask(explorer, "memory")
    assert (shown(explorer)["objective"], shown(explorer)["phase"]) == ("memory", "searching")
    gates.end("memory")
    assert shown(explorer)["layout"] == {"batch": "data", "hidden": "model"}
    revision = explorer.revision
    gates.end("traffic")
    assert (shown(explorer)["objective"], shown(explorer)["layout"]) == ("memory", {"batch": "data", "hidden": "model"})
    assert explorer.revision == revision


def test_a_search_that_ends_first_does_not_end_the_next(explorer: Explorer, gates: Gates) -> None:
    gates.ask(explorer, "traffic")
    gates.ask(explorer, "memory")
    gates.end("traffic")
    assert (shown(explorer)["objective"], shown(explorer)["phase"]) == ("memory", "searching")
    gates.end("memory")
    assert shown(explorer)["phase"] == "found"


def test_a_search_is_cancelled(explorer: Explorer, gates: Gates) -> None:
    assert explorer.cancel_auto() == Refused("There is no search to cancel.", code="nothing")
    gates.ask(explorer, "traffic")
    search = explorer.comparison
    assert search is not None
    assert explorer.cancel_auto()
    assert search.stop.is_set()
    assert (shown(explorer)["phase"], shown(explorer)["error"]) == ("cancelled", "")
    assert not explorer.cancel_auto()
    gates.end("traffic")
    assert shown(explorer)["phase"] == "cancelled"


def test_a_script_that_waits_is_told_that_its_search_was_cancelled(explorer: Explorer) -> None:
    """The real search, cancelled as soon as the board says that it has begun."""

    def cancel(what: str) -> None:
        if shown(explorer)["phase"] == "searching":
            explorer.cancel_auto()

    explorer.subscribe(cancel)
    with pytest.raises(Cancelled, match="was cancelled before it had found the best layout"):
        explorer.auto("traffic")
    assert shown(explorer)["phase"] == "cancelled"


def test_a_search_for_a_mesh_that_lies_elsewhere_now_is_not_shown(explorer: Explorer, gates: Gates) -> None:
    gates.ask(explorer, "traffic")
    explorer.on("v5e")
    gates.end("traffic")
    assert shown(explorer)["phase"] == "cancelled"
    assert shown(explorer)["error"] == "The machine was changed meanwhile: search again."
    gates.ask(explorer, "memory")
    explorer.on("v5p")
    explorer.undo()
    explorer.load("batch:data")  # a search is for all layouts
    gates.end("memory")
    assert shown(explorer)["phase"] == "found"


def test_the_real_search_finds_what_it_is_asked_for() -> None:
    explorer = explore(small.program(), small.mesh())
    choice = explorer.auto("memory")
    view, auto = shown(explorer), shown(explorer)["rows"][1]
    assert view["layout"] == choice.layout.to_dict()
    assert (auto["live_bytes"], auto["bytes"]) == (choice.proof.value, choice.plan.wire_bytes)


def test_a_drop_does_not_wait_for_its_row(searching: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is worked out for a drop but what takes no time; the rest follows without a new revision."""
    searching.auto("traffic")
    row = shown(searching)["rows"][1]
    gate = Gate(monkeypatch, searching.holding)
    searching.place("batch", "data")
    revision, view = searching.revision, shared_state(searching)["view"]
    yours, auto = view["comparison"]["rows"]
    assert (yours["layout"], yours["live_bytes"], yours["bytes"]) == ("batch:data", None, searching.plan.wire_bytes)
    assert auto == row
    there = costs_of(searching)
    gate.open.set()
    assert there.wait(60)
    assert searching.revision == revision
    assert shared_state(searching)["view"]["comparison"]["rows"][0]["live_bytes"] == planned_live_bytes(searching.plan)


def test_a_found_row_is_made_once(searching: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    searching.auto("traffic")
    before = shown(searching)["rows"][1]
    monkeypatch.setattr(comparison_module, "plan_view", None)
    searching.load("batch:data")
    assert shown(searching)["rows"][1] == before
    assert before["live_bytes"] == planned_live_bytes(searching.program.plan(ml.mesh(data=2, model=4), "hidden:model"))
