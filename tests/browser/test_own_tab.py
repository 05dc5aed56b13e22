"""The board in a tab of its own, beside the notebook: it fills what is there, and stays in step with the cell's."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.board import Board
from tests.browser.page import NotebookPage
from tests.browser.test_room import COVERED, CUT, OUTSIDE

NOTEBOOK = """# %%
import meshlab as ml
from tests.widgets import small
explorer = ml.explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data", run=small.training())
explorer
"""
# How far a board is from filling its tab: the room below it and beside it, and what it is longer than that.
SPARE = """() => {
    const tab = document.querySelector(".jp-LinkedOutputView");
    const [there, board] = [tab.getBoundingClientRect(), tab.querySelector(".mlb").getBoundingClientRect()];
    return [there.bottom - board.bottom, there.right - board.right].map(Math.round);
}"""


@pytest.fixture
def page(notebook_page, tmp_path: Path) -> NotebookPage:
    source = tmp_path / "own_tab.py"
    source.write_text(NOTEBOOK)
    page = notebook_page(source, mode="lab")
    page.view.set_viewport_size({"width": 2800, "height": 1000})
    page.run_all()
    return page


def in_own_tab(page: NotebookPage) -> Board:
    """Opens the output in a tab of its own, by the menu of the right mouse button."""
    Board(page).root.locator(".mlb-layout-text").click(button="right")
    page.view.get_by_text("Create New View for Cell Output").click()
    expect(page.view.locator(".jp-LinkedOutputView .mlb[data-rev]")).to_be_visible()
    return next(board for board in (Board(page, 0), Board(page, 1)) if _is_in_tab(board))


def drag_tab(view: Page, x: float, y: float) -> None:
    """Drags the tab to a point of the window, where JupyterLab puts it beside what is there."""
    box = view.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="Output View").bounding_box()
    assert box
    view.mouse.move(box["x"] + 30, box["y"] + 10)
    view.mouse.down()
    view.mouse.move(box["x"] + 60, box["y"] - 80, steps=5)
    view.mouse.move(x, y, steps=12)
    expect(view.locator(".lm-DockPanel-overlay")).to_be_visible()
    view.mouse.up()


def test_it_fills_its_tab_beside_the_notebook_and_stays_in_step(page: NotebookPage) -> None:
    view = page.view
    tab = in_own_tab(page)
    notebook = view.locator(".jp-NotebookPanel").bounding_box()
    assert notebook
    drag_tab(view, notebook["x"] + notebook["width"] - 12, notebook["y"] + notebook["height"] / 2)
    view.wait_for_function("() => document.querySelector('.jp-LinkedOutputView').clientHeight > 800")
    assert view.evaluate(SPARE) == [0, 0]
    cell = next(board for board in (Board(page, 0), Board(page, 1)) if not _is_in_tab(board))
    with cell.next_revision(), tab.next_revision():
        tab.drag("hidden", "model")
    assert tab.layout == cell.layout == "batch:data hidden:model"
    with cell.next_revision(), tab.next_revision():
        cell.drag("batch", "")
    assert tab.layout == cell.layout == "hidden:model"
    page.shot("beside")
    for script in (COVERED, CUT):
        assert view.evaluate(script.replace(".mlb", ".jp-LinkedOutputView .mlb", 1)) == []
    assert tab.root.evaluate(OUTSIDE) == []
    for height in (760, 1200):
        view.set_viewport_size({"width": 2800, "height": height})
        view.wait_for_function(f"() => ({SPARE})()[0] === 0")
    assert page.python("explorer.layout.to_dict()") == {"hidden": "model"}
    page.assert_clean()


def _is_in_tab(board: Board) -> bool:
    return board.root.evaluate("each => Boolean(each.closest('.jp-LinkedOutputView'))")
