"""Documents that are saved, opened again, and restored by a page: nothing is lost, and nothing wrong is taken."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import Refused
from meshlab.widgets.explorer import Explorer
from tests.widgets import small


def test_what_was_saved_is_opened_again(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "layout.json"
    first = explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data", document=path)
    first.place("hidden", "model")
    first.assume(attention="flash")
    first.save(path)
    again = explore(small.program(), ml.mesh(data=8), document=str(path))
    assert again.document == first.document
    assert again.plan.mesh.axes == {"data": 2, "model": 4}
    again.undo()
    assert again.document == first.document  # it is what the Explorer was opened with
    assert [each.name for each in tmp_path.iterdir()] == ["layout.json"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "it is not JSON"),
        ('{"schema": 99}', "This document has schema 99"),
    ],
)
def test_a_file_that_is_no_document_is_refused(tmp_path: pathlib.Path, text: str, reason: str) -> None:
    path = tmp_path / "layout.json"
    path.write_text(text)
    with pytest.raises(ExplorerError, match=reason):
        explore(small.program(), small.mesh(), document=path)


def test_files_that_cannot_be_written_or_read(explorer: Explorer, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ExplorerError, match=r"save\(\) cannot write .*No such file"):
        explorer.save(tmp_path / "nowhere" / "layout.json")
    with pytest.raises(ExplorerError, match=r"explore\(\) cannot read the document"):
        explore(small.program(), small.mesh(), document=tmp_path)
    with pytest.raises(ExplorerError, match=r"save\(\) was given 7 for its file"):
        explorer.save(7)  # type: ignore[arg-type]
    with pytest.raises(ExplorerError, match=r"explore\(\) was given 7 for its file"):
        explore(small.program(), small.mesh(), document=7)  # type: ignore[arg-type]


def test_the_height_of_the_workbench() -> None:
    assert explore(small.program(), small.mesh(), height=800).height == 800
    with pytest.raises(ml.MeshlabError, match="height"):
        explore(small.program(), small.mesh(), height=10)


def test_a_document_is_restored_in_one_change(explorer: Explorer) -> None:
    opened = explorer.to_json()
    other = explore(small.program(), ml.mesh("v5e", data=4, model=2), "batch:data").to_json()
    assert explorer.restore(other)
    assert explorer.to_json() == other
    assert explorer.undo()
    assert explorer.to_json() == opened


@pytest.mark.parametrize("text", ["{", '{"schema": 2}', '{"dims": {"a": 2}, "mesh": [], "layout": {}, "schema": 1}', 7])
def test_a_document_that_does_not_fit_is_not_restored(explorer: Explorer, text: Any) -> None:
    refused = explorer.restore(text)
    assert isinstance(refused, Refused)
    assert refused.reason
    assert explorer.revision == 0
