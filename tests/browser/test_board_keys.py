"""The board by keyboard alone, and that its keys stay with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard, BlankPage
from tests.browser.board import TRAY
from tests.browser.test_tray import advised
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh(), "batch:data")


@pytest.fixture
def board(chromium: Browser, explorer: Explorer) -> Iterator[BlankBoard]:
    page = BlankPage(chromium, explorer)
    yield BlankBoard(page)
    page.assert_clean()
    page.close()


def focused(board: BlankBoard) -> list[str]:
    return board.blank.view.evaluate("[document.activeElement.dataset.dim, document.activeElement.dataset.zone]")


def test_pick_up_choose_and_drop(board: BlankBoard, explorer: Explorer) -> None:
    board.chip("hidden").focus()
    board.keyboard.press("Space")
    expect(board.status).to_contain_text("hidden (16) picked up. Choose by arrow keys, then press Enter on a zone;")
    reason = "`batch` and `hidden` cannot both be on `data`"
    assert reason in (board.note("data").get_attribute("title") or "")
    # The tray is below the last row, whose nearest zone is `model`.
    board.keyboard.press("ArrowUp")
    expect(board.zone("model")).to_have_attribute("data-aim", "")
    expect(board.status).to_contain_text("model: hidden 4 of 16 on each device")
    board.blank.shot("keyboard")
    with board.next_revision():
        board.keyboard.press("Enter")
    assert explorer.layout.to_dict() == {"batch": "data", "hidden": "model"}
    expect(board.zone("model").locator('[data-dim="hidden"]')).to_be_focused()


def test_escape_lets_go(board: BlankBoard, explorer: Explorer) -> None:
    board.chip("hidden").focus()
    board.keyboard.press("Enter")
    board.keyboard.press("ArrowRight")
    board.keyboard.press("Escape")
    expect(board.zone("model")).to_have_attribute("data-state", "idle")
    board.keyboard.press("Escape")
    assert explorer.revision == 0
    assert focused(board) == ["hidden", TRAY]


def test_a_dim_that_no_zone_takes(open_board) -> None:
    shown = explore(small.program(), ml.mesh(data=3))
    board = open_board(shown)
    advised(board)
    board.chip("rows").focus()
    board.keyboard.press("Enter")
    for at in ("", "params/*"):
        expect(board.note("data", at)).to_have_text("✕")
    board.keyboard.press("ArrowRight")
    expect(board.status).to_have_text("No zone takes rows.")
    board.keyboard.press("Enter")
    expect(board.zone("data")).to_have_attribute("data-state", "idle")
    assert shown.revision == 0


def test_delete_takes_a_dim_off_its_axis(board: BlankBoard, explorer: Explorer) -> None:
    board.chip("batch").focus()
    with board.next_revision():
        board.keyboard.press("Delete")
    assert explorer.layout.to_dict() == {}
    expect(board.zone(TRAY).locator('[data-dim="batch"]')).to_be_focused()
    board.keyboard.press("Delete")
    assert explorer.revision == 1


@pytest.mark.parametrize("redo", ["Control+Shift+Z", "Control+Y"])
def test_undo_and_redo(board: BlankBoard, explorer: Explorer, redo: str) -> None:
    board.chip("batch").focus()
    with board.next_revision():
        board.keyboard.press("Delete")
    with board.next_revision():
        board.keyboard.press("Control+Z")
    assert explorer.layout.to_dict() == {"batch": "data"}
    board.chip("rows").focus()
    with board.next_revision():
        board.keyboard.press(redo)
    assert explorer.layout.to_dict() == {}


def test_arrows_go_from_chip_to_chip(board: BlankBoard) -> None:
    board.chip("batch").focus()
    board.keyboard.press("ArrowRight")
    assert focused(board) == ["hidden", TRAY]
    board.keyboard.press("ArrowLeft")
    assert focused(board) == ["batch", "data"]
    board.keyboard.press("ArrowUp")
    assert focused(board) == ["cols", TRAY]


# What the element that has the focus is known by.
NAMES = """() => {
    const { dataset: { op, tab, dim, zone, auto }, ariaLabel } = document.activeElement;
    return [op, tab, auto, dim && `${dim} in ${zone}`, ariaLabel].filter(Boolean);
}"""


def reached_by_tab(board: BlankBoard, stops: int) -> set[str]:
    reached = set()
    for _ in range(stops):
        board.keyboard.press("Tab")
        reached |= set(board.blank.view.evaluate(NAMES))
    return reached


def test_everything_is_reached_by_tab(board: BlankBoard) -> None:
    board.button("reset").focus()
    reached = reached_by_tab(board, 32)
    assert {"export", "more", "help", "batch in data", "hidden in ", "devices", "tensor"} <= reached


def test_arrows_turn_the_tabs(board: BlankBoard) -> None:
    tabs = board.root.get_by_role("tab")
    tabs.first.focus()
    board.keyboard.press("ArrowLeft")
    expect(tabs.last).to_be_focused()
    expect(board.panel("run")).to_be_visible()
    board.keyboard.press("ArrowLeft")
    expect(tabs.filter(has_text="Compare")).to_have_attribute("aria-selected", "true")
    expect(board.panel("run")).to_be_hidden()
    assert {"memory", "traffic", "live"} <= reached_by_tab(board, 6)


def test_keys_stay_with_the_board(board: BlankBoard) -> None:
    page = board.blank.view
    page.evaluate("() => { window.leaked = []; document.addEventListener('keydown', e => leaked.push(e.key)); }")
    board.chip("hidden").focus()
    for key in ("b", "x", "Delete", "Space", "ArrowRight", "Escape", "Control+Enter"):
        board.keyboard.press(key)
    assert page.evaluate("leaked") == []
    board.keyboard.press("Control+s")
    board.keyboard.press("Tab")
    assert page.evaluate("leaked.filter(key => key !== 'Control')") == ["s", "Tab"]


def test_down_goes_to_the_next_row_also_where_this_column_refuses_there(open_board) -> None:
    """B33: it went on to the next column."""
    board = open_board(explore(small.program(), small.mesh()))
    board.chip("classes").focus()
    board.keyboard.press("Enter")
    board.keyboard.press("ArrowRight")
    expect(board.zone("data")).to_have_attribute("data-aim", "")
    # 4 does not divide 10, in any column: the next row that takes it is the first again.
    board.keyboard.press("ArrowDown")
    expect(board.zone("data")).to_have_attribute("data-aim", "")
    board.keyboard.press("ArrowRight")
    expect(board.zone("data", "params/*")).to_have_attribute("data-aim", "")
    board.keyboard.press("Escape")
    board.chip("hidden").focus()
    for key in ("Enter", "ArrowRight", "ArrowDown"):
        board.keyboard.press(key)
    expect(board.zone("model")).to_have_attribute("data-aim", "")
    board.keyboard.press("ArrowUp")
    expect(board.zone("data")).to_have_attribute("data-aim", "")
