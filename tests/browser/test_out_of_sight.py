"""What is drawn while its cell is out of sight is there when its reader comes to it."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.board import TRAY, Board
from tests.browser.page import NotebookPage

# JupyterLab's usual mode, which the tests' settings turn off: the browser skips cells that are out of sight.
WINDOWED = """() => {
    const { content } = window.jupyterapp.shell.currentWidget;
    content.notebookConfig = { ...content.notebookConfig, windowingMode: "contentVisibility" };
}"""
SKIPPED = "() => !document.querySelector('.mlb').checkVisibility({ contentVisibilityAuto: true })"


def test_chips_that_move_there_are_seen(notebook_page) -> None:
    """All cells were run, and advice put the best dim first: Chromium (156) had lost the chips that moved.

    That takes their motion, which the tests' settings turn off too.
    """
    page: NotebookPage = notebook_page("00_start.ipynb")
    page.view.emulate_media(reduced_motion="no-preference")
    page.view.set_viewport_size({"width": 1280, "height": 720})
    page.view.evaluate(WINDOWED)
    page.run_all()
    board = Board(page)
    chips = board.zone(TRAY).locator(".mlb-chip")
    expect(chips.first).to_have_attribute("data-dim", "hidden")
    assert page.view.evaluate(SKIPPED)
    board.root.scroll_into_view_if_needed()
    expect(chips).to_have_count(5)
    for chip in chips.all():
        expect(chip).to_be_visible()
    page.assert_clean()
