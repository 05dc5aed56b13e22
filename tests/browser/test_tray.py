"""The tray: dims stay where they are seen, advice marks the best and what fits nowhere, and one is searched for."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.engine.plans.work import by_contractions
from meshlab.models.zoo import models
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY
from tests.widgets import small


def advised(board: BlankBoard) -> None:
    """Has advice worked out, unless the board's own adviser did, and brings it to the page, as a kernel would."""
    explorer, there = board.blank.explorer, threading.Event()
    # While it is slow, how far the search is comes as news of advice, too.
    stop = explorer.subscribe(lambda _: there.set() if explorer.adviser.advised else None)
    explorer.adviser.follow()
    assert explorer.adviser.advised or there.wait(60)
    stop()
    board.blank.poll()


def dims(board: BlankBoard) -> list[str]:
    chips = board.zone(TRAY).locator(".mlb-chip:visible")
    return chips.evaluate_all("chips => chips.map(chip => chip.dataset.dim)")


@pytest.fixture
def explorer() -> Explorer:
    shown = explore(small.program(), ml.mesh(data=2, model=4))
    shown.view()
    return shown


def places(board: BlankBoard) -> dict[str, Any]:
    """Where the chips of the tray are, and the buttons below it."""
    boxes = """root => Object.fromEntries([...root.querySelectorAll(
        ".mlb-tray .mlb-chip, .mlb-auto, .mlb-preset, .mlb-status"
    )].map(each => [each.dataset.dim ?? each.textContent, each.getBoundingClientRect().toJSON()]))"""
    return board.root.evaluate(boxes)


@pytest.mark.parametrize(("width", "height"), [(1272, 820), (1112, 640), (700, 900)])
def test_nothing_moves_when_advice_comes(open_board, explorer: Explorer, width: int, height: int) -> None:
    board = open_board(explorer, width=width, height=height)
    board.root.evaluate("() => document.fonts.ready")
    before, order = places(board), dims(board)
    advised(board)
    expect(board.root.locator(".mlb-advice button")).to_be_visible()
    assert dims(board) == order
    assert places(board) == before
    board.blank.shot(f"tray-{width}", full=True)


def test_dims_that_split_the_most_come_first() -> None:
    program = small.program()
    order = by_contractions(program)
    assert sorted(order) == sorted(program.dims)
    # These are in every contraction, `classes` in those of the second layer, which are more than those of the first.
    assert order == ("hidden", "batch", "classes", "rows", "cols")


def test_advice_marks_the_dim_with_the_best_zone(open_board) -> None:
    # No preset is for it, and 4 does not divide `cols`.
    x = ml.f32[ml.Dim("cols", 6), ml.Dim("rows", 8)]
    board = open_board(explore(ml.trace(lambda x: x * np.float32(2), x), ml.mesh(data=4)))
    advised(board)
    assert dims(board) == ["cols", "rows"]
    star = board.zone(TRAY).locator('[data-mark="star"]')
    expect(star).to_have_attribute("data-dim", "rows")
    expect(star).to_have_accessible_name(re.compile("has the best zone"))


def test_what_fits_nowhere_says_why(open_board) -> None:
    board = open_board(explore(small.program(), ml.mesh(data=5)))
    before = dims(board)
    advised(board)
    assert dims(board) == before
    unfit = board.zone(TRAY).locator('[data-mark="unfit"]')
    expect(unfit).to_have_count(4)
    expect(board.chip("rows")).to_have_accessible_name(re.compile("cannot be split now"))
    why = "rows has size 4, which 5 (data) does not divide."
    expect(board.chip("rows")).to_have_attribute("title", f"rows 4, cannot be split now. {why}")
    # What cannot be split can be lifted all the same, and says why.
    board.chip("rows").focus()
    board.keyboard.press("Enter")
    expect(board.status).to_contain_text("rows (4) picked up. ")
    expect(board.status).to_contain_text(why)
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
    board = open_board()
    board.drag("batch", "model", "params/*")
    expect(board.status).to_contain_text("no value there has the dim batch (params/w1, params/w2).")


def test_a_drop_in_time_offers_what_has_to_go_along(open_board) -> None:
    board = open_board(
        explore(
            next(model for model in models() if model.name == "moe_sgd").trace(), ml.mesh(data=2, micro=ml.serial(2))
        )
    )
    board.drag("batch", "micro")
    expect(board.status).to_contain_text("batch goes on micro together with groups: groups is made of batch.")
    with board.next_revision():
        board.root.get_by_role("button", name="batch + groups on micro").click()
    assert board.layout == "batch:micro groups:micro"
