"""A colour belongs to the name of a mesh axis, on all of the board, whatever happens to the axes beside it."""

from __future__ import annotations

import pytest

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    shown = explore(small.program(), ml.mesh("v5e", data=4, model=2), "batch:data hidden:model")
    shown.view()
    return shown


PAINT = """(root, selector) => {
    const style = getComputedStyle(root.querySelector(selector));
    return [style.getPropertyValue('--solid').trim(), style.getPropertyValue('--pattern').trim()];
}"""


def colours(board: BlankBoard, axis: str) -> dict[str, list[str]]:
    """Returns the colour and the pattern of an axis, by where on the board it is drawn."""
    board.show("traffic")
    places = {
        "zone": f'.mlb-zone[data-zone="{axis}"]',
        "header": f'.mlb-axis[data-axis-row="{axis}"]',
        "lane": f'.mlb-lane[data-lane="{axis}"] .mlb-segment',
        "chart": f'[data-chart="axes"] [data-axis="{axis}"] .mlb-part',
        "collective": f'.mlb-collective[data-axes="{axis}"]',
    }
    found = {place: selector for place, selector in places.items() if board.root.locator(selector).count()}
    return {place: board.root.evaluate(PAINT, selector) for place, selector in found.items()}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_splitting_an_axis_recolours_no_other(open_board, explorer: Explorer, theme: str) -> None:
    board = open_board(theme=theme)
    before = {axis: colours(board, axis) for axis in ("data", "model")}
    assert {"zone", "lane", "chart", "collective"} <= set(before["model"])
    explorer.split_axis("data", 2, "pod")
    explorer.view()
    board.blank.poll()
    after = {axis: colours(board, axis) for axis in ("data", "model", "pod")}
    for axis, places in before.items():
        assert all(after[axis][place] == paint for place, paint in places.items() if place in after[axis])
        assert {"zone"} <= set(after[axis])
    # It is one in all places, and that of no other.
    of_axes = [{tuple(paint) for paint in places.values()} for places in after.values()]
    assert all(len(each) == 1 for each in of_axes)
    assert len(set.union(*of_axes)) == 3


def test_a_renamed_axis_keeps_its_colour(open_board, explorer: Explorer) -> None:
    board = open_board()
    before = colours(board, "data")["zone"]
    explorer.rename_axis("data", "replica")
    board.blank.poll()
    assert colours(board, "replica")["zone"] == before
