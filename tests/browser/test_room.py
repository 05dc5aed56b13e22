"""How the board uses the room of a page: nothing is cut, lines are whole, and long lists scroll, by keyboard too."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.engine.api.trace import trace
from meshlab.widgets.explorer import Explorer, explore
from tests.browser.blank import BlankBoard
from tests.widgets import small

Batch, Embed, Hidden, Layers = ml.dims(batch=8, embed=16, hidden=32, layers=1200)

# What is wider than its place and hidden there. Drawings scale, and a choice is read whole when it is opened.
CUT = """() => [...document.querySelectorAll(".mlb-card *")]
    .filter(each => !each.closest("svg, select") && getComputedStyle(each).overflowX !== "visible")
    .filter(each => each.clientWidth && each.scrollWidth > each.clientWidth + 1)
    .map(each => `${each.className}: ${each.textContent.slice(0, 60)}`)"""
TOPS = """parts => [...new Set(parts.map(each => Math.round(each.getBoundingClientRect().top)))]"""


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), ml.mesh("h100", data=2, model=4), "hidden:model")


def deep(layers: int) -> Explorer:
    """Opens a program with one collective for each of its layers."""

    def forward(parameters_of_all_layers, images_of_the_batch):
        x = images_of_the_batch
        for inward, outward in parameters_of_all_layers:
            x = x + ml.dot(ml.relu(ml.dot(x, inward, Embed)), outward, Hidden)
        return x

    shapes = [(ml.f32[Embed, Hidden], ml.f32[Hidden, Embed])] * layers
    return explore(trace(forward, shapes, ml.f32[Batch, Embed]), ml.mesh("h100", data=2, model=4), "hidden:model")


def test_up_to_24_collectives_are_listed_whole(open_board) -> None:
    board = open_board(deep(24))
    rows = board.root.get_by_label("collectives", exact=True)
    assert len(board.collectives) == 24
    assert rows.evaluate("list => list.scrollHeight === list.clientHeight")
    expect(rows).not_to_have_attribute("tabindex", "0")
    expect(board.root.locator(".mlb-collectives")).to_contain_text("24 collectives; those that send most come first.")


def test_more_of_them_scroll_by_keyboard_in_a_share_of_the_window(open_board) -> None:
    board = open_board(deep(30))
    rows = board.root.get_by_label("collectives", exact=True)
    expect(board.root.locator(".mlb-collectives")).to_contain_text("30 collectives; those that send most come first.")
    assert rows.evaluate("list => list.clientHeight") == 0.9 * 800
    last = board.root.locator("li[data-kind]").last
    expect(last).not_to_be_in_viewport()
    rows.focus()
    board.keyboard.press("End")
    expect(last).to_be_in_viewport()


def test_one_in_a_loop_is_counted_as_often_as_it_runs(open_board) -> None:
    def forward(weights, x):
        def layer(x, pair):
            return x + ml.dot(ml.relu(ml.dot(x, pair[0], Embed)), pair[1], Hidden), None

        return ml.scan(layer, x, weights, Layers)[0]

    stacked = (ml.f32[Layers, Embed, Hidden], ml.f32[Layers, Hidden, Embed])
    shown = explore(trace(forward, stacked, ml.f32[Batch, Embed]), small.mesh(), "hidden:model")
    text = "1 collective, which a step executes 1,200 times."
    expect(open_board(shown).root.locator(".mlb-collectives")).to_contain_text(text)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1024, 1280, 1440])
def test_nothing_is_cut(open_board, width: int, theme: str) -> None:
    board = open_board(deep(3), width=width, theme=theme)
    for disclosure in board.root.locator("summary").all():
        disclosure.click()
    board.blank.shot(f"room-{width}-{theme}", full=True)
    assert board.blank.view.evaluate(CUT) == []
    assert board.root.locator(".mlb-memory").evaluate("card => card.clientWidth") > 450


# At 1280 px JupyterLab leaves a board 1112 of them, at 1024 px 856.
@pytest.mark.parametrize("width", [872, 1024, 1128, 1280])
def test_the_totals_stand_in_one_line_and_nothing_moves_when_they_change(open_board, width: int) -> None:
    board: BlankBoard = open_board(width=width)
    cards = board.root.locator(".mlb-cards")
    before = cards.bounding_box()
    with board.next_revision():
        board.carry("batch", "data")
    assert board.root.locator(".mlb-change").count() >= 4
    board.blank.shot(f"totals-{width}")
    for part in (".mlb-total", ".mlb-total-value", ".mlb-total-more"):
        assert len(board.root.locator(part).evaluate_all(TOPS)) == 1
    after = cards.bounding_box()
    assert before is not None
    assert after is not None
    assert before["y"] == after["y"]
