"""The tray: the dim with the best zone first, what fits nowhere folded with its reason, and a search of many dims."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.advice import ranked, surveyed
from meshlab.widgets.state.prices import price_of
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY
from tests.widgets import small


def advised(board: BlankBoard) -> None:
    """Has advice worked out, unless the board's own adviser did, and brings it to the page, as a kernel would."""
    explorer, there = board.blank.explorer, threading.Event()
    stop = explorer.subscribe(lambda what: there.set() if what == "advice" else None)
    explorer.adviser.follow()
    assert explorer.adviser.advised or there.wait(60)
    stop()
    board.blank.poll()


def dims(board: BlankBoard) -> list[str]:
    chips = board.zone(TRAY).locator(".mlb-chip:visible")
    return chips.evaluate_all("chips => chips.map(chip => chip.dataset.dim)")


@pytest.fixture
def explorer() -> Explorer:
    shown = explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data")
    shown.view()
    return shown


def test_the_dim_with_the_best_zone_comes_first(open_board, explorer: Explorer) -> None:
    now = price_of(explorer.documents, explorer.document, peak=True)
    order = ranked(now, surveyed(explorer.documents, now, lambda: False) or [])
    board = open_board()
    advised(board)
    free = [dim for dim, _ in order if dim != "batch"]
    expect(board.zone(TRAY).locator(".mlb-chip").first).to_have_attribute("data-dim", free[0])
    assert dims(board) == free
    stars = board.zone(TRAY).locator("[data-star]")
    expect(stars).to_have_count(int(dict(order)[free[0]]))
    board.blank.shot("tray", full=True)


def test_the_order_does_not_change_under_a_hand(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.mouse.move(1, 1)
    board.chip("cols").focus()
    before = dims(board)
    advised(board)
    assert dims(board) == before
    # It changes when the keyboard and the pointer have left.
    board.button("reset").focus()
    board.chip("cols").hover()
    assert dims(board) == before
    board.mouse.move(1, 1)
    expect(board.zone(TRAY).locator(".mlb-chip").first).to_have_attribute("data-dim", "hidden")
    assert dims(board) != before


def test_what_fits_nowhere_is_folded_with_its_reason(open_board) -> None:
    board = open_board(explore(small.program(), ml.mesh(data=5)))
    advised(board)
    fold = board.zone(TRAY).locator(".mlb-unfit")
    expect(fold.locator("summary")).to_have_text("4 dims cannot be split now: why")
    assert dims(board) == ["classes"]
    fold.locator("summary").focus()
    board.keyboard.press("Enter")
    expect(fold.locator("li", has_text="rows")).to_contain_text("rows has size 4, which 5 (data) does not divide.")
    assert set(dims(board)) == {"batch", "rows", "cols", "hidden", "classes"}
    # What is folded can be lifted all the same.
    board.chip("rows").focus()
    board.keyboard.press("Enter")
    expect(board.status).to_contain_text("rows (4) picked up.")
    board.keyboard.press("Escape")


def test_of_many_dims_one_is_found_by_its_name(open_board) -> None:
    names = [f"dim{i}" for i in range(12)] + ["needle"]
    shapes = {name: ml.f32[ml.Dim(name, 8)] for name in names}
    program = ml.trace(lambda xs: {name: x * np.float32(2) for name, x in xs.items()}, shapes)
    board = open_board(explore(program, ml.mesh(data=2)))
    search = board.root.get_by_role("searchbox", name="find a dim")
    search.fill("NEED")
    assert dims(board) == ["needle"]
    expect(board.status).to_have_text("1 dim has “NEED” in its name.")
    search.fill("dim1")
    expect(board.status).to_have_text("3 dims have “dim1” in their names.")
    # What is typed stays when the board is drawn again.
    with board.next_revision():
        board.drag("dim1", "data")
    expect(search).to_have_value("dim1")
    assert dims(board) == ["dim10", "dim11"]
    board.chip("dim10").focus()
    expect(open_board(explore(small.program(), small.mesh())).root.get_by_role("searchbox")).to_have_count(0)


def test_a_refusal_at_a_place_names_the_tensors_that_lack_the_dim(open_board, explorer: Explorer) -> None:
    explorer.load({})
    board = open_board()
    board.drag("batch", "model", "params/*")
    expect(board.status).to_contain_text("no value there has the dim batch (params/w1, params/w2).")
