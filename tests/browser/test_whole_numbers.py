"""Numbers are whole at any width, and nothing covers them: totals, chips, prices, the tray."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY
from tests.browser.boxes import COVERED_BY_GHOST, CROSSING, CUTS, OVERLAPS
from tests.browser.test_tray import dims
from tests.widgets import small

TENSOR = {"batch": "data", "heads": "model", "ffn": "model", "vocab": "model", "params/*": {"embed": "data"}}
WIDTHS = [332, 420, 556, 600, 700, 876, 1000, 1112, 1272, 1440, 1752, 1904]


@pytest.fixture(scope="module")
def llama() -> Explorer:
    """A model whose numbers are long, under a layout that does not fit: all totals have changed since the start."""
    shown = explore("llama3-8b", ml.mesh("v5p:4x4x2", data=8, model=4), batch=32)
    shown.load("batch:data ffn:model vocab:model")
    shown.view()
    return shown


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh())


@pytest.mark.parametrize("width", WIDTHS)
def test_totals_and_header_are_whole_at_any_width(open_board, llama: Explorer, width: int) -> None:
    """B9 and B25: totals were cut at 1920 px, and written over one another at 332."""
    board: BlankBoard = open_board(llama, width=width)
    expect(board.root.locator(".mlb-total .mlb-change")).to_have_count(4)
    board.blank.shot(f"whole-{width}", full=True)
    for part in (".mlb-header", ".mlb-totals"):
        assert board.root.evaluate(OVERLAPS, part) == []
        assert board.root.evaluate(CUTS, part) == []
    # The value stands first, and its change below it.
    for total in board.root.locator(".mlb-total:has(.mlb-change)").all():
        value, change = (total.locator(each).bounding_box() for each in (".mlb-total-value", ".mlb-change"))
        assert value is not None
        assert change is not None
        assert value["y"] + value["height"] <= change["y"] + 1
        assert abs(value["x"] - change["x"]) <= 1


@pytest.mark.parametrize("width", [1000, 1112, 1272, 1440])
def test_sizes_of_chips_are_never_cut(open_board, llama: Explorer, width: int) -> None:
    """B11: "vocab 128,25…", "ffn 14,336 → …", and a head of a column that was cut beside its "+5"."""
    llama.load(TENSOR)
    for number in range(3):
        llama.place("heads", "model", at=f"params/layers/{('query', 'key', 'value')[number]}*")
    llama.view()
    board = open_board(llama, width=width)
    sizes = board.root.locator(".mlb-zone .mlb-chip-size, .mlb-zone .mlb-chip-order, .mlb-column")
    cut = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"
    assert sizes.evaluate_all(cut) == []
    for part in (".mlb-chip-size", ".mlb-chip-order", ".mlb-column"):
        assert board.root.evaluate(CUTS, part) == []
    expect(board.chip("vocab", "model")).to_contain_text("128,256 → 32,064")
    with board.next_revision():
        llama.load({"batch": ["data", "model"], "params/*": {"embed": ["data", "model"]}})
        board.blank.poll()
    expect(board.chip("batch", "data")).to_contain_text("32 → 1 1 of 2")
    assert sizes.evaluate_all(cut) == []


# A window of 1,112 px enlarged to 200% has 556.
@pytest.mark.parametrize("width", [556, 1112])
def test_what_is_dragged_covers_no_price_and_no_price_crosses_a_border(open_board, llama: Explorer, width: int) -> None:
    """B12: "+48.7 ms" read "7 ms" below the chip that was dragged, and "−6.38 GB" ran over the border of its zone."""
    llama.load({"batch": "data", "heads": "model", "ffn": "model"})
    llama.view()
    board: BlankBoard = open_board(llama, width=width, height=1400)
    board.press("embed")
    zones = [(axis, at) for axis in ("data", "model") for at in ("params/*", "grads/*", "opt_state/*")]
    expect(board.note("model", "residual")).to_have_text(re.compile(r"[+−].*s[+−].*B"))
    for axis, at in zones:
        expect(board.note(axis, at)).to_have_text(re.compile("✕|[+−±].*B"))
    assert board.root.evaluate(CROSSING) == []
    for axis, at in [*zones, ("model", "residual")]:
        box = board.zone(axis, at).bounding_box()
        assert box is not None
        for across, down in ((0.5, 0.5), (0.9, 0.2), (0.1, 0.8), (0.9, 0.9)):
            board.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
            expect(board.zone(axis, at)).to_have_attribute("data-aim", "")
            assert board.root.evaluate(COVERED_BY_GHOST) == []
    board.blank.shot(f"ghost-{width}")
    board.mouse.up()


def many(count: int) -> Explorer:
    shapes = {f"dim{i}": ml.f32[ml.Dim(f"dim{i}", 8)] for i in range(count)}
    return explore(ml.trace(lambda xs: {name: x * np.float32(2) for name, x in xs.items()}, shapes), ml.mesh(data=2))


def test_the_tray_says_what_it_does_not_show(open_board) -> None:
    """B30: of 16 dims 10 were to be seen, with no sign of the others."""
    board = open_board(many(40), width=1112, height=640)
    more = board.zone(TRAY).get_by_role("button", name="more")
    expect(more).to_have_attribute("aria-expanded", "false")
    seen = dims(board)
    expect(more).to_have_text(f"+{40 - len(seen)} more")
    assert 5 < len(seen) < 40
    more.focus()
    board.keyboard.press("Enter")
    assert len(dims(board)) == 40
    fewer = board.zone(TRAY).get_by_role("button", name="fewer")
    expect(fewer).to_be_focused()
    # It stays open when the board is drawn again, and what is searched for is shown of all.
    with board.next_revision():
        board.drag("dim39", "data")
    assert len(dims(board)) == 39
    fewer.click()
    assert dims(board) == seen
    board.root.get_by_role("searchbox", name="find a dim").fill("dim3")
    assert dims(board) == ["dim3", *(f"dim3{i}" for i in range(9))]
    # A dim that arrives where it would be hidden is shown.
    board.root.get_by_role("searchbox", name="find a dim").fill("")
    board.chip("dim39", "data").focus()
    with board.next_revision():
        board.keyboard.press("Delete")
    expect(board.zone(TRAY).locator('[data-dim="dim39"]')).to_be_focused()


def test_the_tray_is_as_high_as_its_chips(open_board, explorer: Explorer) -> None:
    """B30: with two axes it was 250 px of nothing."""
    board = open_board(width=1440, height=900)
    tray, chips = board.zone(TRAY).bounding_box(), board.zone(TRAY).locator(".mlb-chips").bounding_box()
    assert tray is not None
    assert chips is not None
    assert tray["height"] <= max(40, chips["height"] + 12)
