"""Boards in files: what was tried is there again, with labels and notes, and of a wrong file nothing is taken."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import OpenSaved, Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.files import FILES
from meshlab.widgets.state.saved_boards import board_text
from meshlab.widgets.views.reads import read
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    explorer = explore(small.program(), small.mesh())
    for layout in ("batch:data", "hidden:model", "cols:data"):
        explorer.load(layout)
    explorer.label("#2", "wide", "nothing to gather\nin the forward pass")
    explorer.baseline("#1")
    return explorer


def fresh() -> Explorer:
    return explore(small.program(), small.mesh())


def said(explorer: Explorer) -> list[tuple]:
    return [(each.sign, each.name, each.label, each.note, str(each.document.layout)) for each in explorer.tried]


def test_a_board_is_opened_as_it_was_saved(explorer: Explorer, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "board.json"
    explorer.forget("start")
    explorer.save(path)
    again = explore(small.program(), small.mesh(), document=path)
    assert (again.document, said(again)) == (explorer.document, said(explorer))
    assert again.tried.baseline.sign == "#1"
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == path.read_text()
    again.load("rows:data")
    assert again.tried.all[-1].sign == "#4"  # no number is given twice


def test_a_board_of_which_there_is_nothing_to_say_is_its_document(tmp_path: pathlib.Path) -> None:
    explorer, path = fresh(), tmp_path / "board.json"
    explorer.save(path)
    assert path.read_text() == explorer.to_json()
    assert '"schema": 3' in path.read_text()
    explorer.label("start", note="where we begin")
    explorer.save(path)
    assert json.loads(path.read_text())["schema"] == 4


def test_what_was_tried_on_another_mesh_is_kept_with_it(explorer: Explorer, tmp_path: pathlib.Path) -> None:
    explorer.resize_axis("model", 2)
    explorer.on("v5e")
    explorer.pad(True)
    explorer.load("hidden:model")
    before = [each.document.mesh for each in explorer.tried]
    explorer.save(tmp_path / "board.json")
    again = explore(small.program(), small.mesh(), document=tmp_path / "board.json")
    assert [each.document.mesh for each in again.tried] == before
    assert [each.is_of(other.document) for each, other in zip(again.tried, explorer.tried, strict=True)] == [
        True
    ] * len(before)


def test_a_file_is_opened_beside_what_was_tried(explorer: Explorer, tmp_path: pathlib.Path) -> None:
    explorer.save(tmp_path / "board.json")
    other = fresh()
    for layout in ("rows:data", "hidden:model"):
        other.load(layout)
    other.label("#1", "mine")
    revision = other.revision
    answer = other.open_saved(tmp_path / "board.json")
    assert answer
    assert "Opened: 4 layouts, 2 of them new here." in repr(answer)
    assert other.document == explorer.document
    assert {
        title: str(each.document.layout) for title, each in zip(other.titles().values(), other.tried, strict=True)
    } == {
        "start": "",
        "mine": "rows:data",
        "wide": "hidden:model",
        "#3": "cols:data",
        "DP": "batch:data",
    }
    assert other.tried.all[2].note == "nothing to gather\nin the forward pass"
    assert other.tried.baseline.name == "start"
    assert other.revision == revision + 2
    other.undo()
    assert str(other.layout) == "hidden:model"


def resized() -> Explorer:
    """A board at another size than the program was traced with, and nothing of that."""
    explorer = fresh()
    explorer.resize_dim("batch", 32)
    explorer.load("batch:data")
    explorer.baseline("batch:data")
    explorer.load("hidden:model")
    explorer.label("#3", "wide", "a note")
    explorer.forget("#0", "#1")
    return explorer


def test_a_size_that_the_program_has_by_now_is_no_new_one() -> None:
    """Its layouts were dropped without a word."""
    board = resized()
    assert [each.sign for each in board.tried] == ["#2", "#3"]
    here = explore(small.program().resize(batch=32), small.mesh())
    here.load("rows:data")
    text = board_text(board.document, board.tried)
    answer = here.apply(OpenSaved(text))
    assert "Opened: 2 layouts, 2 of them new here." in repr(answer)
    assert here.document.resized == ()
    assert [title for title in here.titles().values() if title == "wide"] == ["wide"]
    again = Explorer.from_json(text, here.program)
    assert again.document == here.document
    assert [each.document.resized for each in again.tried] == [(), ()]


def test_a_board_of_another_size_is_opened_with_its_layouts_once() -> None:
    """The layout on the board was there twice, without its label."""
    board = resized()
    text = board_text(board.document, board.tried)
    again = Explorer.from_json(text, small.program())
    assert (again.document, said(again)) == (board.document, said(board))
    assert again.tried.known(again.document) == again.tried.all[-1]
    here = fresh()
    assert here.apply_and_wait(OpenSaved(text))
    on_board = here.tried.known(here.document)
    assert on_board is not None
    assert (on_board.label, on_board.note) == ("wide", "a note")
    assert len(here.tried) == 3


def test_what_is_said_here_already_stays(explorer: Explorer) -> None:
    other = fresh()
    other.load("hidden:model")
    other.label("#1", "ours", "our note")
    other.load("rows:data")
    other.label("#2", "wide")
    other.apply(OpenSaved(board_text(explorer.document, explorer.tried)))
    assert said(other)[1][2:4] == ("ours", "our note")
    third = fresh()
    third.load("rows:data")
    third.label("#1", "wide")
    third.apply(OpenSaved(board_text(explorer.document, explorer.tried), tried_alone=True))
    assert str(third.layout) == "rows:data"
    hidden = next(each for each in third.tried if str(each.document.layout) == "hidden:model")
    assert (hidden.label, hidden.note) == ("", "nothing to gather\nin the forward pass")  # the label is another's here


def broken(explorer: Explorer, change: Callable[[dict], Any]) -> str:
    data = json.loads(board_text(explorer.document, explorer.tried))
    change(data)
    return json.dumps(data)


def first(data: dict) -> dict:
    return data["tried"]["layouts"][1]


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        (lambda data: first(data).update(layout={"batch": "dat"}), ["Layout 2 that was tried, '#1': ", "`dat`"]),
        (lambda data: first(data).update(layout=7), ["Layout 2 that was tried, '#1': "]),
        (lambda data: first(data).update(colour="red"), ["contains unknown field `colour`"]),
        (lambda data: first(data).update(number=2), ["Two layouts have the number 2."]),
        (lambda data: first(data).update(label="wide"), ["'wide' is the label of #1 already."]),
        (lambda data: first(data).update(note="a" * 1001), ["A note has at most 1,000 characters"]),
        (
            lambda data: first(data).update(document={"schema": 3}),
            ["Layout 2 that was tried, '#1': ", "it lacks along"],
        ),
        (lambda data: data.update(tried=7), ["`tried` is invalid: Expected `object`, got `int`."]),
        (lambda data: data["tried"]["layouts"].append(7), ["Layout 5 that was tried: Expected `object`, got `int`"]),
        (
            lambda data: (first(data).update(colour="red"), data.update(pad=7), data["tried"]["layouts"].append(7)),
            ["1. ", "`pad` is 7", "2. ", "`colour`", "3. ", "Layout 5"],
        ),
    ],
)
def test_a_file_is_refused_whole_with_all_reasons(explorer: Explorer, change: Any, reasons: list[str]) -> None:
    other = fresh()
    other.load("rows:data")
    before = (other.document, other.tried, other.revision)
    text = broken(explorer, change)
    answer = other.apply(OpenSaved(text))
    assert isinstance(answer, Refused)
    assert [each for each in reasons if each not in answer.reason] == []
    assert answer.fix == "Open a file that explorer.save() wrote; the board is as it was."
    assert (other.document, other.tried, other.revision) == before
    with pytest.raises(ml.MeshlabError):
        Explorer.from_json(text, small.program())


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"schema": 99, "tried": {}}', "[" * 9999])
def test_what_is_no_board_is_refused(text: str) -> None:
    assert isinstance(fresh().apply(OpenSaved(text)), Refused)


def test_a_file_that_is_not_there(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ExplorerError, match=r"open_saved\(\) finds no file"):
        fresh().open_saved(tmp_path / "board.json")
    with pytest.raises(ExplorerError, match=r"open_saved\(\) cannot read the document"):
        fresh().open_saved(tmp_path)


def test_a_board_of_another_program_is_refused(explorer: Explorer) -> None:
    other = ml.explore("mlp", ml.mesh(x=2))
    answer = other.apply(OpenSaved(board_text(explorer.document, explorer.tried)))
    assert isinstance(answer, Refused)
    # That is all: its layouts are not wrong for being on other axes than there are here.
    assert answer.reason.startswith("This document is for a program with the dims")


def test_a_board_of_another_model_is_opened_once_it_is_traced() -> None:
    board = ml.explore("mlp", ml.mesh(data=2, model=2))
    board.load("batch:data")
    board.label("#1", "plain")
    text = board_text(board.document, board.tried)
    other = ml.explore("gpt2_adamw", ml.mesh(data=2, model=2))
    assert other.apply_and_wait(OpenSaved(text))
    assert other.document.model is not None
    assert other.document.model.name == "mlp"
    assert "plain" in other.titles().values()


def test_a_page_saves_what_the_method_writes(explorer: Explorer, tmp_path: pathlib.Path) -> None:
    explorer.save(tmp_path / "board.json")
    file: Any = read(explorer, "saved", {}, FILES)
    assert file["text"] == (tmp_path / "board.json").read_text()
    assert (file["file"], file["type"], file["said"]) == ("meshlab-step.json", "application/json", "with 4 layouts")
