"""Auto on the board: that it searches, how it is cancelled by mouse and keyboard, and what follows a drop beside it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, violations
from tests.widgets import small
from tests.widgets.gates import Gates


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh())


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Gates:
    return Gates(monkeypatch)


def panel(board: BlankBoard) -> Locator:
    return board.panel("compare")


def search(board: BlankBoard, objective: str) -> Locator:
    """The button of a search; while there is one, the others are folded."""
    button = board.root.locator(f'[data-auto="{objective}"]')
    if not button.is_visible():
        panel(board).get_by_text("Other searches").click()
    return button


def test_a_search_is_shown_and_cancelled_with_the_mouse(open_board, explorer: Explorer, gates: Gates) -> None:
    board = open_board()
    board.show("compare")
    expect(board.button("cancel_auto")).to_have_count(0)
    search(board, "traffic").click()
    expect(panel(board)).to_have_attribute("aria-busy", "true")
    expect(panel(board)).to_contain_text("Searching for the least traffic …")
    expect(panel(board).get_by_role("progressbar")).to_be_visible()
    board.blank.shot("searching", full=True)
    board.button("cancel_auto").click()
    expect(panel(board)).to_contain_text("The search for the least traffic was cancelled.")
    expect(board.status).to_have_text("The search was cancelled.")
    expect(panel(board)).to_have_attribute("aria-busy", "false")
    gates.end("traffic")
    board.blank.poll()
    expect(panel(board)).to_contain_text("was cancelled")
    board.blank.shot("search-cancelled", full=True)


def test_a_search_is_cancelled_with_the_keyboard(open_board, explorer: Explorer, gates: Gates) -> None:
    board = open_board()
    board.show("compare")
    search(board, "memory").focus()
    board.keyboard.press("Enter")
    expect(panel(board)).to_contain_text("Searching for the least peak memory …")
    expect(panel(board)).to_be_focused()  # the button is gone, and Escape is heard here
    # A chip in hand comes first.
    board.chip("hidden").focus()
    board.keyboard.press("Enter")
    board.keyboard.press("Escape")
    expect(panel(board)).to_contain_text("Searching for the least peak memory …")
    board.keyboard.press("Escape")
    expect(panel(board)).to_contain_text("The search for the least peak memory was cancelled.")
    gates.end("memory")


def test_the_search_that_was_asked_for_last_is_shown(open_board, explorer: Explorer, gates: Gates) -> None:
    board = open_board()
    board.show("compare")
    search(board, "traffic").click()
    expect(panel(board)).to_contain_text("Searching for the least traffic …")
    search(board, "memory").click()
    expect(panel(board)).to_contain_text("Searching for the least peak memory …")
    gates.end("memory")
    gates.end("traffic")
    board.blank.poll()
    expect(panel(board)).to_contain_text("✓ The least peak memory:")
    rows = panel(board).locator("tr[data-card] b")
    expect(rows.first).to_have_text("Auto (memory)")
    assert "Auto (traffic)" not in rows.all_inner_texts()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible(open_board, explorer: Explorer, gates: Gates, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    board = open_board(theme=theme)
    board.show("compare")
    search(board, "traffic").click()
    expect(panel(board)).to_contain_text("Searching for the least traffic …")
    board.blank.view.add_script_tag(path=str(AXE))
    assert violations(board.blank.view) == []
    gates.end("traffic")
    board.blank.poll()
    expect(panel(board)).to_contain_text("✓ The least traffic:")
    assert violations(board.blank.view) == []
