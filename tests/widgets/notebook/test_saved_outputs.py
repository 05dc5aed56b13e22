"""The board that the notebook still has of a cell that runs again: found, judged, and offered until it changes."""

from __future__ import annotations

import json
import pathlib
from types import SimpleNamespace
from typing import Any

import pytest

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.intents import OpenSaved
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook import saved_outputs
from meshlab.widgets.notebook.saved_outputs import metadata_of, offer_saved
from meshlab.widgets.views.board import session_part
from tests.widgets import small

CODE = "ml.explore(program, mesh)"


def fresh(layout: str = "") -> Explorer:
    return explore(small.program(), small.mesh(), layout)


def cell(name: str, code: str, *outputs: Any) -> dict[str, Any]:
    return {"id": name, "cell_type": "code", "source": code.splitlines(keepends=True), "outputs": list(outputs)}


def picture(layout: str, opened: str = "") -> dict[str, Any]:
    explorer = fresh(opened)
    explorer.load(layout)
    return {"output_type": "display_data", "data": {"text/html": "…"}, "metadata": metadata_of(explorer)}


@pytest.fixture
def notebook(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes the notebook's file, as the kernel of one is told of it, and says which cell runs."""

    def write(*cells: dict[str, Any], runs: str | None = "b", code: str = CODE) -> None:
        path = tmp_path / "notebook.ipynb"
        path.write_text(json.dumps({"cells": list(cells)}))
        monkeypatch.setenv("JPY_SESSION_NAME", str(path))
        request = {"metadata": {"cellId": runs} if runs else {}, "content": {"code": code}}
        monkeypatch.setattr(saved_outputs, "get_ipython", lambda: SimpleNamespace(get_parent=lambda: request))

    return write


def offered(explorer: Explorer) -> str | None:
    offer_saved(explorer)
    return None if explorer.offer is None else explorer.offer.said


def test_the_board_of_the_cell_that_runs_is_offered(notebook: Any) -> None:
    notebook(cell("a", CODE, picture("cols:data")), cell("b", CODE, {"output_type": "stream"}, picture("hidden:model")))
    explorer, told = fresh(), list[str]()
    explorer.subscribe(told.append)
    assert offered(explorer) == "TP over model"
    assert told == ["offer"]
    session = session_part(explorer)
    assert "offer" in session
    assert explorer.apply(OpenSaved(session["offer"]["document"]))
    assert str(explorer.layout) == "hidden:model"
    assert "offer" not in session_part(explorer)


def test_a_cell_without_a_name_is_known_by_its_code(notebook: Any) -> None:
    notebook(cell("a", "1 + 1", picture("cols:data")), cell("b", CODE, picture("hidden:model")), runs=None)
    assert offered(fresh()) == "TP over model"
    notebook(cell("a", CODE, picture("cols:data")), cell("b", CODE, picture("hidden:model")), runs=None)
    assert offered(fresh()) is None


def test_of_several_boards_that_of_the_explorer_that_was_opened_so(notebook: Any) -> None:
    notebook(cell("b", CODE, picture("cols:data"), picture("hidden:model", "batch:data")))
    assert offered(fresh()) == "cols:data"
    assert offered(fresh("batch:data")) == "TP over model"


def test_a_label_is_what_it_is_called(notebook: Any) -> None:
    explorer = fresh()
    explorer.load("hidden:model")
    explorer.label("#1", "wide")
    notebook(cell("b", CODE, {"output_type": "display_data", "metadata": metadata_of(explorer)}))
    assert offered(fresh()) == '"wide"'


@pytest.mark.parametrize(
    "output",
    [
        {"output_type": "stream"},
        {"output_type": "display_data", "metadata": {"meshlab": 7}},
        {"output_type": "display_data", "metadata": {"meshlab": {"board": {"schema": 3}}}},
        7,
    ],
)
def test_what_is_no_board_is_not_offered(notebook: Any, output: Any) -> None:
    notebook(cell("b", CODE, output))
    assert offered(fresh()) is None


def test_nothing_is_offered_where_nothing_is_known(notebook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    same = fresh()
    notebook(cell("b", CODE, {"output_type": "display_data", "metadata": metadata_of(same)}))
    assert offered(fresh()) is None  # it is the one that the cell opens
    notebook(cell("b", CODE, picture("hidden:model")))
    moved = fresh()
    moved.load("batch:data")
    assert offered(moved) is None  # it is shown again
    assert offered(ml.explore("mlp", small.mesh())) is None  # of another program
    for path in ("/nowhere/notebook.ipynb", ""):
        monkeypatch.setenv("JPY_SESSION_NAME", path)
        assert offered(fresh()) is None
    monkeypatch.setattr(saved_outputs, "get_ipython", lambda: None)
    assert offered(fresh()) is None


def test_while_it_is_offered_pictures_keep_it(notebook: Any) -> None:
    notebook(cell("b", CODE, picture("hidden:model")))
    explorer = fresh()
    offer_saved(explorer)
    assert metadata_of(explorer)["meshlab"]["board"]["layout"] == {"hidden": "model"}
    # A browser brings back what it saw: another trace, and not the reader's own change.
    explorer.restore(fresh("cols:data").to_json())
    assert metadata_of(explorer)["meshlab"]["board"]["layout"] == {"hidden": "model"}
    told: list[str] = []
    explorer.subscribe(told.append)
    explorer.load("batch:data")
    assert metadata_of(explorer)["meshlab"]["board"]["layout"] == {"batch": "data"}
    assert "offer" in told
