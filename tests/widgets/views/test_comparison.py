"""Every layout that was tried beside the others, and the search: searching, found, taken over, failed, cancelled.

Searches are held at a gate, one for each objective, so that a test decides which of them ends first.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

import meshlab as ml
from meshlab.auto import Cancelled
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.intents import Auto, Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import shared_state
from meshlab.widgets.state import searches as searches_module
from meshlab.widgets.state.handlers import read_intent
from meshlab.widgets.state.searches import Search
from meshlab.widgets.views.board import board_view
from tests.widgets import small
from tests.widgets.gates import FINDS, Found, Gate, Gates


@pytest.fixture
def searching(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> Explorer:
    def best(search: Search, progress: Any) -> Found:
        if search.objective == "live":
            raise ValueError("there is no answer")
        return Found(search.program.plan(search.mesh, FINDS[search.objective]), search.objective)

    monkeypatch.setattr(searches_module, "best", best)
    return explorer


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Gates:
    return Gates(monkeypatch)


def shown(explorer: Explorer) -> dict:
    return explorer.view()["search"]


def cards(explorer: Explorer) -> dict[str, dict]:
    return {card["name"]: card for card in explorer.view()["comparison"]["cards"]}


def test_a_new_board_has_one_card_which_is_the_baseline(explorer: Explorer) -> None:
    comparison = explorer.view()["comparison"]
    (card,) = comparison["cards"]
    assert (card["name"], card["now"], card["baseline"]) == ("start", True, True)
    assert (shown(explorer), comparison["limit"]) == (None, None)


def test_each_layout_is_a_card_with_the_totals_of_the_score_line(explorer: Explorer) -> None:
    explorer.on("v5e")
    explorer.load("batch:data")
    explorer.load("batch:data hidden:model", "both")
    explorer.undo()
    view = explorer.view()
    assert [card["name"] for card in view["comparison"]["cards"]] == ["start", "DP", "both"]
    (now,) = (card for card in view["comparison"]["cards"] if card["now"])
    assert now["totals"] == {
        "bytes": view["communication"]["total"],
        "arguments": view["memory"]["arguments"],
        "work": view["work"],
        "collectives": view["collectives"]["count"],
        "seconds": view["time"]["estimate"],
        "peak": view["peak_memory"]["bytes"],
        "fits": view["peak_memory"]["fits"],
    }
    assert view["comparison"]["limit"] == view["peak_memory"]["limit"]
    both = cards(explorer)["both"]
    load = both["load"]
    intent = read_intent(load["op"], load["args"])
    assert not isinstance(intent, Refused)
    assert explorer.apply(intent)
    assert explorer.view()["time"]["estimate"] == both["totals"]["seconds"]
    assert len(explorer.figure("comparison").data) == 3


def test_the_cards_follow_the_machine_and_the_assumptions(explorer: Explorer) -> None:
    explorer.load("batch:data")
    assert cards(explorer)["start"]["totals"]["seconds"] is None
    explorer.on("v5e")
    slow = cards(explorer)["start"]["totals"]["seconds"]
    explorer.on("v5p")
    assert slow > cards(explorer)["start"]["totals"]["seconds"] > 0


def test_the_result_of_a_search_stays_beside_mine(searching: Explorer) -> None:
    searching.load("batch:data")
    choice = searching.auto("traffic")
    search, found = shown(searching), cards(searching)["Auto (traffic)"]
    assert (search["phase"], search["same"], search["said"]) == (
        "found",
        False,
        "480 bytes; no searched layout costs less",
    )
    assert search["proof"].startswith("A device sends 480 bytes: no gap (hand, ")
    assert (search["card"], found["layout"], found["totals"]["bytes"]) == (found["key"], "hidden:model", 480)
    assert searching.load(choice.layout)
    assert shown(searching)["same"]
    after = cards(searching)
    assert list(after) == ["start", "DP", "Auto (traffic)"]
    assert (after["DP"]["layout"], after["Auto (traffic)"]["now"]) == ("batch:data", True)


def test_a_search_that_finds_what_was_tried_names_it(searching: Explorer) -> None:
    searching.load("hidden:model")
    searching.auto("traffic")
    assert list(cards(searching)) == ["start", "Auto (traffic)"]


def test_the_condition_of_each_search_is_said(explorer: Explorer) -> None:
    said = {one["name"]: one["condition"] for one in explorer.view()["comparison"]["objectives"]}
    assert list(said) == ["traffic", "memory", "live"]  # what is asked for first is what `explorer.auto()` finds
    assert said == {
        "memory": "least peak memory, with arguments donated, whatever the work",
        "traffic": "fewest bytes sent per step, within 1% of the least work",
        "live": "fewest live bytes (Mesh TensorFlow's count), whatever the work",
    }
    explorer.on("v5e")
    first = explorer.view()["comparison"]["objectives"][0]
    condition = "least step time; its peak memory, with arguments donated, is at most 90% of a device's"
    assert first == {"name": "time", "label": "fastest that fits", "condition": condition}


def test_the_board_searches_in_the_background(searching: Explorer) -> None:
    done = threading.Event()
    phases = []

    def listen(what: str) -> None:
        if what == "comparison":
            phases.append(shown(searching)["phase"])
            if phases[-1] == "found":
                done.set()

    searching.subscribe(listen)
    assert searching.apply(Auto("memory"))
    assert done.wait(30)
    assert phases == ["searching", "found"]


def test_a_search_that_fails_says_why(searching: Explorer) -> None:
    with pytest.raises(ValueError, match="there is no answer"):
        searching.auto("live")
    search = shown(searching)
    assert (search["phase"], search["error"]) == ("failed", "there is no answer")
    with pytest.raises(ml.MeshlabError, match="given the objective 'beauty'; the objectives are `time`, "):
        searching.auto("beauty")


def test_the_search_that_was_asked_for_last_counts_whichever_ends_last(explorer: Explorer, gates: Gates) -> None:
    gates.ask(explorer, "traffic")
    gates.ask(explorer, "memory")
    assert (shown(explorer)["objective"], shown(explorer)["phase"]) == ("memory", "searching")
    gates.end("memory")
    assert found(explorer) == "batch:data hidden:model"
    revision = explorer.revision
    gates.end("traffic")
    assert (shown(explorer)["objective"], found(explorer)) == ("memory", "batch:data hidden:model")
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
    search = explorer.searches.last
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
        if what == "comparison" and shown(explorer)["phase"] == "searching":
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
    assert shown(explorer)["error"] == "The machine has changed since: search again."
    gates.ask(explorer, "memory")
    explorer.on("v5p")
    explorer.undo()
    explorer.load("batch:data")  # a search is for all layouts
    gates.end("memory")
    assert shown(explorer)["phase"] == "found"


def test_the_real_search_finds_what_it_is_asked_for() -> None:
    explorer = explore(small.program(), small.mesh())
    choice = explorer.auto("memory")
    assert found(explorer) == str(choice.layout)
    assert cards(explorer)["Auto (memory)"]["totals"]["bytes"] == round(choice.plan.wire_bytes)


def found(explorer: Explorer) -> str:
    (card,) = (card for card in cards(explorer).values() if card["key"] == shown(explorer)["card"])
    return card["layout"]


def test_a_drop_does_not_wait_for_the_cards(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not known follows without a new revision, the cards after the present layout."""
    explorer.load("batch:data")
    explorer.load("hidden:model")
    explorer.on("v5e")
    gate, complete = Gate(monkeypatch, explorer.costs), threading.Event()

    def listen(what: str) -> None:
        comparison = shared_state(explorer, "totals")["comparison"]["comparison"]
        if all(card["totals"] and card["totals"]["peak"] for card in comparison["cards"]):
            complete.set()

    revision, drawn = explorer.revision, shared_state(explorer)["comparison"]["comparison"]["cards"]
    assert [card["totals"] and card["totals"]["seconds"] for card in drawn] == [None, None, None]
    assert [card["totals"] is not None for card in drawn] == [False, False, True]
    explorer.subscribe(listen)
    gate.open.set()
    assert complete.wait(60)
    assert explorer.revision == revision


def test_what_is_known_of_a_card_is_not_computed_again(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer.on("v5e")
    explorer.load("batch:data")
    before = cards(explorer)
    monkeypatch.setattr(explorer.totals, "of", None)
    monkeypatch.setattr(explorer.costs, "known", None)
    assert board_view(explorer)["comparison"]["cards"] == list(before.values())


def test_the_fastest_is_found_on_machines_only(explorer: Explorer) -> None:
    said = explorer.apply(Auto("time"))
    assert said == Refused(
        "A search for 'time' was asked for, and the mesh is on no machine.",
        "Ask for one of `memory`, `traffic`, `live`.",
        "unknown_objective",
    )
    explorer.on("v5e")
    choice = explorer.auto("time")
    assert explorer.load(choice.layout)
    assert choice.proof.value == explorer.view()["time"]["estimate"]


def test_a_search_tells_the_best_so_far(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found before the search was cancelled is shown, and a click takes it."""
    explorer.on("v5e")

    def best(search: Search, progress: Any) -> Found:
        plan = search.program.plan(search.mesh, "batch:data")
        progress(ml.auto.Found(None, math.inf, 0.0, 1, 0.1))
        assert shown(explorer)["said"] == "no layout that fits yet; 1 plan, 100 ms"
        assert shown(explorer)["bracket"] is None
        progress(ml.auto.Found(plan, 2e-6, 0.0, 3, 0.1))
        assert shown(explorer)["said"] == "2 µs; no lower bound yet; 3 plans, 100 ms"
        progress(ml.auto.Found(plan, 2e-6, 1.9e-6, 5, 0.1))
        assert explorer.cancel_auto()
        progress(ml.auto.Found(plan, 1e-6, 1e-6, 9, 0.1))  # nobody waits for it any more
        raise Cancelled("It was cancelled.")

    monkeypatch.setattr(searches_module, "best", best)
    with pytest.raises(Cancelled):
        explorer.auto()
    search = shown(explorer)
    assert (search["objective"], search["phase"]) == ("time", "cancelled")
    assert search["said"] == "2 µs; gap 5%; 5 plans, 100 ms"
    intent = read_intent(search["load"]["op"], search["load"]["args"])
    assert not isinstance(intent, Refused)
    assert explorer.apply(intent)
    assert str(explorer.layout) == search["layout"] == "batch:data"
