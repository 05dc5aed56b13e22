"""Views that stand alone in a cell: each is seen whole, in narrow and in wide cells, and has the board's selection."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.standalone import VIEWS
from tests.browser.blank import BlankBoard
from tests.browser.board import Board
from tests.browser.test_room import CUT
from tests.widgets import small

NOTEBOOK = """# %%
from tests.widgets import small
explorer = small.on_v5e()
explorer
# %%
explorer.views.devices
"""
# What of a view is not in its frame, or what has no room there.
UNSEEN = """root => {
    const frame = root.getBoundingClientRect();
    return [...root.querySelectorAll("*")]
        .filter(each => each.getClientRects().length && !each.closest("svg, details > *"))
        .filter(each => {
            const box = each.getBoundingClientRect();
            const scrolls = /auto|scroll|hidden/.test(getComputedStyle(each).overflowY) && !each.matches("select");
            return box.bottom > frame.bottom + 1 || (scrolls && each.scrollHeight > each.clientHeight + 1);
        })
        .map(each => `${each.className}: ${each.textContent.slice(0, 60)}`);
}"""


@pytest.fixture
def explorer() -> Explorer:
    """An Explorer with something in every view."""
    shown = explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data", run=small.training(steps=3))
    shown.place("hidden", "model")
    shown.run().wait(60)
    shown.view()
    return shown


@pytest.mark.parametrize("width", [500, 1280])
@pytest.mark.parametrize("name", VIEWS)
def test_it_is_as_high_as_what_it_shows(open_board, explorer: Explorer, name: str, width: int) -> None:
    board: BlankBoard = open_board(panel=name, width=width, height=1000)
    body = board.root.locator(".mlb-body" if name != "timeline" else ".mlb-step-time")
    shown = body.filter(visible=True)
    expect(shown).to_have_count(1)
    assert (shown.bounding_box() or {})["height"] > 60
    board.blank.shot(f"alone-{name}-{width}", full=True)
    assert shown.inner_text().strip()
    assert board.root.evaluate(UNSEEN) == []
    assert board.blank.view.evaluate(CUT) == []
    board.blank.shot(f"alone-{name}-{width}", full=True)


def test_it_has_the_selection_of_the_board_in_another_cell(notebook_page, tmp_path: Path) -> None:
    source = tmp_path / "selected.py"
    source.write_text(NOTEBOOK)
    page = notebook_page(source)
    page.run_all()
    board, alone = Board(page), Board(page, 1)
    expect(alone.root.locator(".mlb-chip")).to_have_count(0)
    for here, there in ((board, alone), (alone, board)):
        here.root.locator('[data-device="2"]').click()
        for view in (here, there):
            expect(view.root.locator('[data-device="2"]')).to_have_attribute("aria-current", "true")
        here.keyboard.press("Escape")
        for view in (here, there):
            expect(view.root.locator("[aria-current=true]")).to_have_count(0)
