"""The layout beside the one on the board: which it is, what the page gets of it; without one nothing is sent."""

from __future__ import annotations

import json

import pytest

from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import Beside, Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer
from meshlab.widgets.state.handlers import read_intent
from meshlab.widgets.views.board import parts_view
from tests.widgets import small
from tests.widgets.gates import Gate


@pytest.fixture
def explorer() -> Explorer:
    explorer = explore(small.program(), small.mesh(), "batch:data")
    explorer.on("v5e")
    explorer.load("hidden:model", "mine")
    return explorer


def other(explorer: Explorer) -> dict:
    return parts_view(explorer, "beside")["beside"]["beside"]


def test_its_numbers_are_those_that_it_has_on_the_board(explorer: Explorer) -> None:
    explorer.beside("start")
    explorer.select("params/w1")
    shown = other(explorer), parts_view(explorer, "beside")["devices"]["beside_devices"]
    explorer.undo()
    board = explorer.view()
    assert (shown[0]["name"], shown[0]["card"]) == ("start", "0")
    for key in ("communication", "collectives", "memory", "layout", "groups", "work", "time", "peak_memory"):
        assert shown[0][key] == board[key], key
    assert shown[1]["shards"] == board["shards"]
    (row,) = shown[1]["places"]["rows"]
    assert row in board["places"]["rows"]
    assert other(explorer)["now"]


def test_any_layout_can_stand_there(explorer: Explorer) -> None:
    assert explorer.beside("fsdp")
    assert (other(explorer)["name"], other(explorer)["card"]) == ("FSDP", "")
    explorer.preset("fsdp")
    explorer.undo()
    assert other(explorer)["card"] == "2"  # it has a card by now
    assert explorer.beside("batch:model")
    assert other(explorer)["name"] == "batch:model"
    assert explorer.beside(explorer.tried.baseline)
    assert other(explorer)["name"] == "start"
    assert explorer.beside("")
    assert other(explorer)["name"] == "empty"
    assert [each.name for each in explorer.tried] == ["start", "mine", "FSDP"]  # to look at one is not to try it


def test_it_follows_the_machine_and_stays_where_it_is_while_the_layout_changes(explorer: Explorer) -> None:
    explorer.beside("start")
    slow = other(explorer)["time"]["estimate"]
    explorer.load("")
    assert other(explorer)["time"]["estimate"] == slow
    explorer.on("h100")
    explorer.view()
    assert other(explorer)["time"]["estimate"] != slow
    explorer.on(None)
    assert other(explorer)["time"] is None
    explorer.on("v5e")
    explorer.resize_axis("model", 2)  # the other one keeps its mesh
    assert [axis["size"] for axis in other(explorer)["mesh"]["axes"]] == [2, 4]


def test_nothing_is_sent_without_one(explorer: Explorer) -> None:
    for what in (None, "beside", "document"):
        parts = parts_view(explorer, what)
        assert parts["beside"] == {"beside": None}
        assert parts["devices"]["beside_devices"] is None
    changes: list[str] = []
    explorer.subscribe(changes.append)
    past = explorer.history
    explorer.beside("start")
    explorer.beside("start")
    explorer.beside()
    # Totals of the cards may come meanwhile.
    assert [change for change in changes if change != "totals"] == ["beside", "beside"]
    assert explorer.history is past
    assert explorer.other is None


def test_a_selection_sends_its_devices_alone(explorer: Explorer) -> None:
    explorer.beside("start")
    assert set(parts_view(explorer, "tensor")) == {"devices", "selection"}


def test_costs_that_take_long_follow_those_of_the_board(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, explorer.costs)
    explorer.beside("fsdp")
    assert other(explorer)["pending"]
    assert other(explorer)["peak_memory"] is None
    gate.open.set()
    explorer.costs.of(explorer.other.under(explorer.document))  # type: ignore[union-attr]
    assert not other(explorer)["pending"]
    assert other(explorer)["peak_memory"]["bytes"] > 0


def test_a_page_asks_by_document_or_preset(explorer: Explorer) -> None:
    start = explorer.tried.baseline.document
    assert explorer.apply(read_intent("beside", {"document": start.to_json()}))  # type: ignore[arg-type]
    assert explorer.other is explorer.tried.baseline
    assert read_intent("beside", {"preset": "fsdp"}) == Beside(preset="fsdp")
    assert read_intent("beside", {}) == Beside()
    message = {"v": 2, "kind": "intent", "id": "x-1", "op": "beside", "args": {"document": "{"}}
    assert answer(explorer, message)["kind"] == "nack"
    assert json.loads(explorer.to_json())["layout"] == {"hidden": "model"}


def test_what_cannot_stand_there_is_refused(explorer: Explorer) -> None:
    refusal = explorer.beside("batch:foo")
    assert isinstance(refusal, Refused)
    assert "no axis `foo`" in refusal.reason
    assert isinstance(explorer.beside("zero1"), Refused)
    with pytest.raises(ExplorerError, match=r"No layout named 'strat' was tried\. Did you mean `start`\?.*beside\("):
        explorer.beside("strat")
    assert explorer.other is None
