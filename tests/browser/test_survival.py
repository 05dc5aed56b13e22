"""A board survives: its picture is saved beside it, hidden while the board lives, and the layout comes back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.board import Board
from tests.browser.page import GONE, SHUT_DOWN, NotebookPage, new_context

NOTEBOOK = """# %%
import meshlab as ml
from tests.widgets import small
explorer = ml.explore(small.program(), small.mesh())
explorer
"""
SAVE = "() => window.jupyterapp.shell.currentWidget.context.save()"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "survival.py"
    path.write_text(NOTEBOOK)
    return path


RESTART = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
DIRTY = "() => window.jupyterapp.shell.currentWidget.context.model.dirty"


def saved_board(lab, name: str) -> dict:
    """The board in the metadata of the picture that the notebook's file has."""
    cells = json.loads((lab.folder / f"{name}.ipynb").read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    (metadata,) = [each["metadata"]["meshlab"] for each in outputs if "meshlab" in each.get("metadata", {})]
    return metadata["board"]


def saved_picture(lab, name: str) -> str:
    cells = json.loads((lab.folder / f"{name}.ipynb").read_text())["cells"]
    htmls = [
        o["data"]["text/html"] for cell in cells for o in cell.get("outputs", []) if "text/html" in o.get("data", {})
    ]
    return "".join(htmls[-1]) if htmls else ""


def test_the_picture_of_the_last_revision_is_saved_and_shown_without_a_kernel(
    chromium, lab, notebook_page, source
) -> None:
    page = notebook_page(source)
    page.run_all()
    board = Board(page)
    picture = page.view.locator("[data-mlb-picture]")
    expect(picture).to_have_count(1)
    expect(picture).to_be_hidden()
    with board.next_revision():
        board.drag("hidden", "model")
    expect(page.view.locator("[data-mlb-picture][data-revision='1']")).to_have_count(1)
    page.view.evaluate(SAVE)
    assert "hidden:model" in saved_picture(lab, "survival")
    page.view.evaluate(SHUT_DOWN)
    page.view.wait_for_function(GONE)
    again = NotebookPage(new_context(chromium), lab, "survival.ipynb")
    expect(again.view.locator("[data-mlb-picture][data-revision='1']")).to_be_visible()
    expect(again.view.locator("[data-mlb-picture]")).to_contain_text("Run the cell again for the live board")
    again.shot("reopened")
    again.close()


def test_the_layout_is_restored_when_the_cell_runs_again_after_a_restart(notebook_page, source) -> None:
    page = notebook_page(source)
    page.run_all()
    board = Board(page)
    with board.next_revision():
        board.drag("hidden", "model")
    page.view.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.wait_ready()
    page.run_all()
    board = Board(page)
    expect(board.root.locator(".mlb-layout-text")).to_have_text("hidden:model")
    assert page.python("explorer.layout.to_dict()") == {"hidden": "model"}
    with board.next_revision():
        board.button("undo").click()
    assert page.python("explorer.layout.to_dict()") == {}
    page.assert_clean()


def test_another_browser_is_offered_the_layout_that_was_saved(chromium, lab, notebook_page, source) -> None:
    """B19: it was in this browser's storage alone, and running the cell again overwrote the picture, its only trace."""
    page = notebook_page(source)
    page.run_all()
    board = Board(page)
    with board.next_revision():
        board.drag("hidden", "model")
    page.python("[explorer.label('#1', 'wide', 'a note'), 1][1]")
    expect(page.view.locator("[data-mlb-picture][data-revision='2']")).to_have_count(1)
    page.view.evaluate(SAVE)
    assert saved_board(lab, "survival")["layout"] == {"hidden": "model"}
    page.view.evaluate(SHUT_DOWN)
    page.view.wait_for_function(GONE)
    other = NotebookPage(new_context(chromium), lab, "survival.ipynb")
    other.wait_ready()
    other.run_all()
    board = Board(other)
    expect(board.status).to_contain_text('The notebook was saved with the layout "wide" and 2 tried layouts.')
    assert other.python("explorer.layout.to_dict()") == {}
    other.shot("offered")
    # A notebook that is saved now still has it, so that it is offered again.
    other.view.evaluate(SAVE)
    assert saved_board(lab, "survival")["layout"] == {"hidden": "model"}
    other.run_all()
    board = Board(other)
    expect(board.status).to_contain_text('The notebook was saved with the layout "wide"')
    with board.next_revision():
        board.button("take_saved").click()
    assert other.python("(explorer.layout.to_dict(), list(explorer.titles().values()))") == (
        {"hidden": "model"},
        ["start", "wide"],
    )
    expect(board.root.locator(".mlb-layout-text")).to_have_text("hidden:model")
    # What is on the board is kept from now on.
    with board.next_revision():
        board.drag("batch", "data")
    revision = board.revision
    expect(other.view.locator(f"[data-mlb-picture][data-revision='{revision}']")).to_have_count(1)
    other.view.evaluate(SAVE)
    assert saved_board(lab, "survival")["layout"] == {"batch": "data", "hidden": "model"}
    other.close()


def test_a_notebook_that_is_saved_as_soon_as_its_cell_ran_again_keeps_the_layout(lab, notebook_page, source) -> None:
    """B19: within two seconds the old layout was stored, and "It was still being computed"."""
    source.write_text(NOTEBOOK.replace("small.mesh())", 'ml.mesh("v5e", data=2, model=4))'))
    page = notebook_page(source)
    page.run_all()
    board = Board(page)
    with board.next_revision():
        board.drag("hidden", "model")
    expect(page.view.locator("[data-mlb-picture][data-revision='1']")).to_have_count(1)
    page.view.evaluate(SAVE)
    page.view.evaluate(RESTART)
    page.wait_ready()
    page.run_all()
    expect(Board(page).root.locator(".mlb-layout-text")).to_have_text("hidden:model")
    page.view.evaluate(SAVE)
    assert saved_board(lab, "survival")["layout"] == {"hidden": "model"}
    assert "It was still being computed" not in saved_picture(lab, "survival")


def test_a_notebook_that_is_opened_has_nothing_to_save(notebook_page, source) -> None:
    """B33: it was dirty as soon as it was opened."""
    page = notebook_page(source)
    page.wait_ready()
    assert page.view.evaluate(DIRTY) is False
    # What the application would write is there already, so that it writes nothing later either.
    assert page.python("1 + 1") == 2
    assert page.view.evaluate(DIRTY) is False
