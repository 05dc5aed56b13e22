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
