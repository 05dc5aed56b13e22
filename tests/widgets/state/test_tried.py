"""The layouts that were tried: which there are, what they are called, and the baseline."""

from __future__ import annotations

import dataclasses

import pytest

from meshlab.engine.specs.layout import Layout
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import Baseline, Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.handlers import read_intent
from meshlab.widgets.state.tried import MOST, Tried


def names(explorer: Explorer) -> list[str]:
    return [each.name for each in explorer.tried]


def test_layouts_are_tried_once_in_the_order_of_their_first_appearance(explorer: Explorer) -> None:
    explorer.load("batch:data")
    explorer.load("hidden:model", "mine")
    explorer.undo()
    explorer.on("v5e")
    explorer.load("hidden:model")
    explorer.reset()
    assert names(explorer) == ["start", "#1", "mine"]
    explorer.load("batch:data", "yours")
    explorer.load("batch:data", "ours")
    assert names(explorer) == ["start", "yours, ours", "mine"]
    assert [str(each.document.layout) for each in explorer.tried] == ["", "batch:data", "hidden:model"]


def test_what_is_undone_and_replaced_is_still_there(explorer: Explorer) -> None:
    explorer.load("batch:data")
    explorer.undo()
    explorer.load("hidden:model")
    assert names(explorer) == ["start", "#1", "#2"]


def test_the_layout_before_is_of_the_same_mesh(explorer: Explorer) -> None:
    before = lambda: explorer.tried.before(explorer.history)  # noqa: E731
    assert before() is None
    explorer.load("batch:data", "mine")
    assert before() is explorer.tried.all[0]
    explorer.load("hidden:model")
    explorer.on("v5e")
    found = before()
    assert found is not None
    assert found.name == "mine"
    explorer.undo()
    explorer.undo()
    assert before() is explorer.tried.all[0]
    assert explorer.resize_axis("data", 1)
    assert before() is None


def test_of_many_the_oldest_go_but_not_the_baseline_nor_the_present_one(explorer: Explorer) -> None:
    documents = [
        dataclasses.replace(explorer.document, layout=Layout.of(f"dim{number}:data")) for number in range(MOST + 2)
    ]
    tried = Tried.opened(documents[0]).with_document(documents[1], "", documents[1])
    for document in documents[2:]:
        tried = tried.with_document(document, "", documents[1])
    assert [each.name for each in tried] == ["start", "#1", *(f"#{number}" for number in range(4, MOST + 2))]
    assert len(tried) == MOST
    again = tried.with_document(documents[2], "", documents[2])
    assert (again.all[-1].name, again.all[1].name) == (f"#{MOST + 2}", "#4")


def test_the_baseline_is_chosen_and_undo_does_not_touch_it(explorer: Explorer) -> None:
    assert explorer.tried.baseline.name == "start"
    explorer.load("batch:data")
    revision = explorer.revision
    assert explorer.baseline("#1")
    assert (explorer.tried.baseline.name, explorer.revision) == ("#1", revision + 1)
    explorer.undo()
    assert (explorer.tried.baseline.name, str(explorer.layout)) == ("#1", "")
    assert explorer.baseline("hidden:model")
    assert (explorer.tried.baseline.name, str(explorer.layout)) == ("#2", "")
    assert explorer.baseline(explorer.documents.opened)
    assert explorer.baseline(explorer.tried.all[1])
    assert explorer.tried.baseline.name == "#1"
    assert explorer.baseline()
    assert explorer.tried.baseline.name == "start"


def test_a_baseline_that_is_the_baseline_already_changes_nothing(explorer: Explorer) -> None:
    """Its document has its dims in another order where it comes as JSON."""
    told: list[str] = []
    explorer.subscribe(told.append)
    intent = read_intent("baseline", {"document": explorer.to_json()})
    assert not isinstance(intent, Refused)
    assert explorer.apply(intent)
    assert (told, explorer.revision) == ([], 0)


def test_a_baseline_that_is_none_is_refused(explorer: Explorer) -> None:
    answer = explorer.baseline("batch:data rows:data")
    assert isinstance(answer, Refused)
    assert "cannot both be on `data`" in answer.reason
    with pytest.raises(ExplorerError, match=r"No layout named 'strat' was tried. Did you mean `start`"):
        explorer.baseline("strat")
    assert names(explorer) == ["start"]


def test_the_page_sends_a_document_or_none(explorer: Explorer) -> None:
    document = explorer.document
    explorer.load("batch:data")
    explorer.baseline("#1")
    opened = read_intent("baseline", {"document": document.to_json()})
    assert isinstance(opened, Baseline)
    assert explorer.apply(opened)
    assert names(explorer) == ["start", "#1"]
    assert explorer.tried.baseline.name == "start"
    assert read_intent("baseline", {"document": None}) == Baseline(None)


def test_what_was_saved_and_restored_is_the_same_layout(explorer: Explorer) -> None:
    text = explorer.to_json()
    explorer.load("batch:data")
    explorer.restore(text)
    assert names(explorer) == ["start", "#1"]
    assert explorer.document == explorer.documents.opened


def test_a_restored_document_on_another_mesh_keeps_its_own(explorer: Explorer) -> None:
    other = explorer.to_json().replace('["data", 2], ["model", 4]', '["data", 4], ["model", 2]')
    explorer.load("batch:data")
    assert explorer.restore(other)
    start, first, second = explorer.view()["comparison"]["cards"]
    assert (start["mesh"], first["load"]["op"]) == ("data × 2, model × 4", "restore")
    assert (second["mesh"], second["load"]["op"], second["now"]) == ("", "load", True)
