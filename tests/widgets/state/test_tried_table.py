"""Layouts that were tried with labels and notes, deleted and brought back, and what they are called without a label."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from meshlab.engine.specs.layout import Layout
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import OpenSaved, Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer, shared_state
from meshlab.widgets.state.marks_of_layouts import LABEL, NOTE
from meshlab.widgets.state.saved_boards import board_text
from meshlab.widgets.state.tried import MOST, UNDONE
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    explorer = explore(small.program(), small.mesh())
    for layout in ("batch:data", "hidden:model", "cols:data"):
        explorer.load(layout)
    return explorer


def titles(explorer: Explorer) -> list[str]:
    return list(explorer.titles().values())


def cards(explorer: Explorer) -> dict[str, dict]:
    return {card["key"]: card for card in explorer.view()["comparison"]["cards"]}


def test_numbers_give_way_to_the_layouts_own_names_and_to_labels(explorer: Explorer) -> None:
    """B21: 17 layouts were called 1 to 17."""
    assert titles(explorer) == ["start", "DP", "TP", "#3"]
    assert explorer.label("#2", "wide", note="nothing to gather")
    assert [card["name"] for card in cards(explorer).values()] == ["start", "DP", "wide", "#3"]
    assert {key: cards(explorer)["2"][key] for key in ("label", "note")} == {
        "label": "wide",
        "note": "nothing to gather",
    }
    assert "label" not in cards(explorer)["1"]


def test_no_two_are_called_alike(explorer: Explorer) -> None:
    explorer.load("batch:model")
    explorer.load("batch:model+data")
    assert titles(explorer)[-2:] == ["DP over model", "DP over model+data"]
    explorer.load("rows:data", "mine")
    explorer.load("rows:model", "mine")
    assert titles(explorer)[-2:] == ["mine", "mine #7"]
    explorer.label("#7", "DP")
    assert (explorer.titles()[1], explorer.titles()[7]) == ("DP over data", "DP")


def test_names_are_those_of_the_layouts_whatever_searches_keep_to(explorer: Explorer) -> None:
    explorer.forbid("hidden", "data")
    explorer.on("v5e")
    assert titles(explorer) == ["start", "DP", "TP", "#3"]


def test_a_layout_is_found_by_its_label_its_name_and_its_number(explorer: Explorer) -> None:
    explorer.label("TP", "wide")
    for name in ("wide", "#2"):
        assert explorer.baseline(name)
        assert explorer.tried.baseline.number == 2
        explorer.baseline()
    assert explorer.label(explorer.tried.all[1], note="what we run")
    assert explorer.tried.all[1].note == "what we run"


def test_labels_and_notes_are_made_neat_and_taken_away(explorer: Explorer) -> None:
    explorer.label("#1", "  two\nlines ", " a note\nof two lines ")
    assert (explorer.tried.all[1].label, explorer.tried.all[1].note) == ("two lines", "a note\nof two lines")
    told: list[str] = []
    explorer.subscribe(told.append)
    assert explorer.label("#1", "two lines")
    assert told == []
    assert explorer.label("#1", "", "")
    assert (told, titles(explorer)[1]) == (["comparison"], "DP")


@pytest.mark.parametrize(
    ("label", "note", "reason"),
    [
        ("#3", "", "'#3' is not a label: layouts are numbered so."),
        ("wide", "", "'wide' is the label of #2 already."),
        ("a" * (LABEL + 1), "", "A label has at most 60 characters; this has 61. Write the rest as a note."),
        ("", "a" * (NOTE + 1), "A note has at most 1,000 characters; this has 1,001."),
    ],
)
def test_labels_and_notes_that_cannot_be(explorer: Explorer, label: str, note: str, reason: str) -> None:
    explorer.label("#2", "wide")
    answer = explorer.label("#1", label, note)
    assert isinstance(answer, Refused)
    assert answer.reason == reason
    assert not explorer.tried.all[1].is_marked


def test_what_is_no_layout_or_no_text_is_refused(explorer: Explorer) -> None:
    unknown = explorer.label("#9", "wide")
    assert isinstance(unknown, Refused)
    assert unknown.reason == "No layout named '#9' was tried. There are `start`, `DP`, `TP`, `#3`."
    assert not explorer.forget("DP", "#9")
    assert len(explorer.tried) == 4  # all of them or none
    with pytest.raises(ExplorerError, match=r"label\(\) was given 7 for the note; it must be a text"):
        explorer.label("#1", note=7)  # type: ignore[arg-type]
    with pytest.raises(ExplorerError, match=r"forget\(\) was given 7 for a layout; write its number or name"):
        explorer.forget(7)  # type: ignore[arg-type]


def test_what_is_deleted_comes_back_as_it_was(explorer: Explorer) -> None:
    explorer.label("#2", "wide", "a note")
    before = explorer.tried.all
    deleted = explorer.forget("DP", "wide")
    assert deleted
    assert "Deleted 2 layouts. Undo brings them back." in repr(deleted)
    assert titles(explorer) == ["start", "#3"]
    assert explorer.view()["history"]["undo"] == 5  # three layouts, a label, a deletion
    back = explorer.undo()
    assert "2 layouts are back." in repr(back)
    assert explorer.tried.all == before
    assert str(explorer.layout) == "cols:data"


@pytest.mark.parametrize("names", [("#1", "#1"), ("#1", "first"), ("first", "#1", "#1")])
def test_a_layout_that_is_named_twice_is_deleted_once(explorer: Explorer, names: tuple[str, ...]) -> None:
    explorer.label("#1", "first")
    before = explorer.tried.all
    assert "Deleted `first`. Undo brings it back." in repr(explorer.forget(*names))
    assert "`first` is back." in repr(explorer.undo())
    assert explorer.tried.all == before


@pytest.mark.parametrize("gone", [True, False], ids=["deleted", "called otherwise"])
def test_no_two_have_one_label_when_one_is_brought_back(explorer: Explorer, gone: bool) -> None:
    """A file of such a board was refused."""
    explorer.label("#1", "A", "a note")
    assert explorer.forget("A") if gone else explorer.label("#1", "B")
    other = explore(small.program(), small.mesh())
    other.load("rows:model")
    other.label("#1", "A")
    assert explorer.apply(OpenSaved(board_text(other.document, other.tried), tried_alone=True))
    assert explorer.undo()
    assert [(each.sign, each.label) for each in explorer.tried if each.is_marked] == [("#1", ""), ("#4", "A")]
    assert explorer.tried.all[1].note == "a note"
    again = Explorer.from_json(board_text(explorer.document, explorer.tried), small.program())
    assert again.tried.all == explorer.tried.all


def test_undo_goes_back_in_the_order_of_what_was_done(explorer: Explorer) -> None:
    explorer.label("#1", "first")
    explorer.load("rows:data")
    explorer.forget("first")
    assert "is back" in repr(explorer.undo())
    explorer.undo()
    assert (str(explorer.layout), titles(explorer)[1]) == ("cols:data", "first")
    assert "`DP` is as it was." in repr(explorer.undo())
    assert (str(explorer.layout), titles(explorer)[1]) == ("cols:data", "DP")
    explorer.undo()
    assert str(explorer.layout) == "hidden:model"
    assert explorer.view()["history"]["undo"] == 2


def test_a_layout_that_was_tried_again_comes_back_once(explorer: Explorer) -> None:
    explorer.label("#1", "first")
    explorer.forget("first")
    explorer.baseline("batch:data")
    assert [each.sign for each in explorer.tried] == ["#0", "#2", "#3", "#4"]
    explorer.undo()
    assert [each.sign for each in explorer.tried] == ["#0", "#1", "#2", "#3"]
    assert explorer.tried.baseline.label == "first"


def test_neither_the_board_nor_the_baseline_is_deleted(explorer: Explorer) -> None:
    board, baseline = explorer.forget("#3"), explorer.forget("start")
    assert isinstance(board, Refused)
    assert isinstance(baseline, Refused)
    assert (board.reason, board.fix) == ("`#3` is on the board.", "Put another layout on the board first.")
    assert (baseline.reason, baseline.fix) == (
        "All layouts are compared with `start`.",
        "Choose another baseline first.",
    )


def test_of_many_those_with_a_word_of_theirs_stay(explorer: Explorer) -> None:
    explorer.label("#1", note="keep this")
    tried, present = explorer.tried, explorer.document
    for number in range(MOST):
        document = dataclasses.replace(present, layout=Layout.of(f"dim{number}:data"))
        tried = tried.with_document(document, "", present)
    assert len(tried) == MOST
    assert [each.sign for each in tried][:4] == ["#0", "#1", "#3", "#7"]  # baseline, that one, board
    for number in range(2 * UNDONE):
        marked = dataclasses.replace(tried.all[1], note=f"{number}")
        tried = tried.with_marks(marked, explorer.history)
    assert tried.undoable(explorer.history) == UNDONE


def test_a_page_names_and_deletes(explorer: Explorer) -> None:
    said = answer(explorer, {"v": 2, "id": 1, "op": "label", "args": {"of": "#1", "label": "first"}})
    assert said["kind"] == "ack"
    assert answer(explorer, {"v": 2, "id": 2, "op": "forget", "args": {"of": ["#1", "#2"]}})["kind"] == "ack"
    parts = shared_state(explorer, "comparison")
    assert [card["key"] for card in parts["comparison"]["comparison"]["cards"]] == ["0", "3"]
    assert parts["history"]["history"]["undo"] == 5
    wrong: Any = answer(explorer, {"v": 2, "id": 3, "op": "forget", "args": {"of": "#3"}})
    assert (wrong["kind"], wrong["code"]) == ("nack", "bad_arguments")


def test_a_plain_drop_sends_no_word_of_labels(explorer: Explorer) -> None:
    assert set(cards(explorer)["1"]) == set(cards(explorer)["3"])
    assert not {"label", "note"} & set(cards(explorer)["1"])
