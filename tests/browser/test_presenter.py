"""The presenter's board and views over the whole width: larger type cuts and covers nothing, and the room is used."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.boxes import CUTS, DRAWN_ON, DRAWN_OUT, OVERLAPS
from tests.browser.overflow import OUTSIDE
from tests.browser.pictures import wait_for

FSDP = {"batch": "data", "params/*": {"embed": "data"}}
# What is wider than its place.
WIDER = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"
HEIGHT = "frame => frame.getBoundingClientRect().height"


@pytest.fixture(scope="module")
def llama() -> Explorer:
    shown = explore("llama3-8b", ml.mesh("v5p:4x4x4", data=16, model=4), FSDP, batch=64)
    for layout in ("batch:data", "batch:data+model", {**FSDP, "ffn": "model", "heads": "model", "vocab": "model"}):
        shown.load(layout)
        shown.view()
    return shown


@pytest.fixture
def explorer(llama: Explorer) -> Explorer:
    llama.select(collective=None)
    return llama


def opened(open_board, mode: str, width: int = 1272, height: int = 820, **options: object) -> BlankBoard:
    """Opens a board as it is, or for a "presenter"; "wide" gives its views the whole width as well."""
    board: BlankBoard = open_board(width=width, height=height, **options)
    if "presenter" in mode:
        board.root.locator(".mlb-chip").first.focus()
        board.keyboard.press("Shift+P")
    if "wide" in mode:
        board.root.locator(".mlb-widen").click()
    return board


def test_presets_and_auto_are_pressed_while_presenting(open_board, llama: Explorer) -> None:
    board = opened(open_board, "presenter")
    before = board.layout
    parallel = board.root.locator(".mlb-preset").filter(has_text=re.compile("^TP$"))
    expect(parallel).to_have_attribute("aria-pressed", "true")
    with board.next_revision():
        parallel.click()
    expect(parallel).to_have_attribute("aria-pressed", "false")
    with board.next_revision():
        parallel.click()
    assert board.layout == before
    expect(board.root.get_by_role("button", name="Auto", exact=True)).to_be_visible()
    expect(board.root.locator(".mlb-advice")).to_be_hidden()
    assert board.root.evaluate(OVERLAPS, ".mlb-either") == []
    assert board.root.evaluate(CUTS, ".mlb-either") == []
    assert board.root.evaluate(OUTSIDE) == []


@pytest.mark.parametrize("mode", ["", "presenter", "presenter wide"])
def test_the_chart_of_layouts_is_read_whole(open_board, mode: str) -> None:
    board = opened(open_board, mode)
    board.show("compare")
    wait_for(board)
    texts = board.root.locator(".mlb-scatter text")
    expect(texts.filter(has_text="peak ↑")).to_have_count(1)
    assert board.root.evaluate(DRAWN_OUT, ".mlb-scatter") == []
    assert board.root.evaluate(DRAWN_ON, [".mlb-scatter text", ".mlb-scatter text"]) == []
    assert board.root.locator(".mlb-cards thead th").evaluate_all(WIDER) == []
    assert board.root.evaluate(OVERLAPS, ".mlb-cards thead") == []


def test_the_chart_has_larger_type_as_soon_as_somebody_presents(open_board) -> None:
    board = opened(open_board, "")
    board.show("compare")
    text = board.root.locator(".mlb-scatter text").filter(has_text="step →")
    before = (text.bounding_box() or {})["height"]
    board.root.locator(".mlb-chip").first.focus()
    board.keyboard.press("Shift+P")
    assert (text.bounding_box() or {})["height"] > 1.3 * before


@pytest.mark.parametrize("mode", ["", "presenter", "presenter wide"])
def test_hops_cover_no_device(open_board, mode: str) -> None:
    board = opened(open_board, mode)
    panel = board.show("traffic")
    panel.locator('tr[data-kind="all-gather"] .mlb-fold').first.click()
    picture = panel.locator(".mlb-hop-picture svg")
    expect(picture).to_be_visible()
    wait_for(board)
    for hop in range(2):
        assert board.root.evaluate(DRAWN_ON, [".mlb-hop-name", ".mlb-hop-row rect"]) == []
        assert board.root.evaluate(DRAWN_OUT, ".mlb-hop-picture") == []
        assert board.root.evaluate(DRAWN_ON, [".mlb-hop-bytes", ".mlb-hop-row rect"]) == []
        if hop == 0:
            panel.locator("[data-hop=forward]").click()
            expect(panel.locator(".mlb-hop-bytes")).to_have_count(1)


def test_hops_take_the_room_that_they_get(open_board) -> None:
    """Before the first hop the picture was as narrow as before, over the whole width."""
    board = opened(open_board, "")
    panel = board.show("traffic")
    panel.locator('tr[data-kind="all-gather"] .mlb-fold').first.click()
    picture = panel.locator(".mlb-hop-picture svg")
    expect(picture).to_be_visible()
    wide = "root => root.querySelector('.mlb-hop-picture svg').getBoundingClientRect().width > {} * innerWidth"
    board.root.locator(".mlb-widen").click()
    board.blank.view.wait_for_function(f"({wide.format(0.8)})(document)")
    board.keyboard.press("Escape")
    board.blank.view.wait_for_function(f"!({wide.format(0.4)})(document)")


@pytest.mark.parametrize("mode", ["", "wide", "presenter", "presenter wide"])
@pytest.mark.parametrize("place", ["params/head", "params/layers/gate"])
def test_what_is_written_at_devices_and_slices_is_whole(open_board, llama: Explorer, mode: str, place: str) -> None:
    llama.select(place=place)
    board = opened(open_board, mode)
    panel = board.show("devices")
    expect(panel.locator(".mlb-tensor svg")).to_be_visible()
    wait_for(board)
    assert board.root.evaluate(DRAWN_OUT, ".mlb-holdings") == []
    labels = ":is(.mlb-mesh, .mlb-tensor) .mlb-draw-label"
    assert board.root.evaluate(DRAWN_ON, [labels, f"{labels}, .mlb-site-frame"]) == []


@pytest.mark.parametrize("width", [1272, 1920])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_presenter_cuts_no_number(open_board, width: int, theme: str) -> None:
    board = opened(open_board, "presenter", width, 820 if width < 1300 else 1080, theme=theme)
    assert board.root.locator(".mlb-step-time .mlb-lane-name > *").evaluate_all(WIDER) == []
    assert board.root.locator(".mlb-grid-of-zones").evaluate_all(WIDER) == []
    panel = board.show("traffic")
    wait_for(board)
    assert panel.evaluate("panel => panel.scrollWidth - panel.clientWidth") == 0
    assert board.root.evaluate(CUTS, ".mlb-total-chart") == []
    assert board.root.evaluate(OVERLAPS, ".mlb-total-chart") == []
    assert board.root.evaluate(OUTSIDE) == []


@pytest.mark.parametrize("mode", ["wide", "presenter wide"])
def test_a_view_over_the_whole_width_has_the_windows_height(open_board, mode: str) -> None:
    board = opened(open_board, mode, 1440, 1300)
    frame = board.root.locator(".mlb-frame")
    high = frame.evaluate(HEIGHT)
    assert 1300 - 60 < high < 1300
    # It stays while other views are shown, and the page does not scroll.
    for tab in ("traffic", "compare", "program", "devices"):
        board.show(tab)
        wait_for(board)
        assert frame.evaluate(HEIGHT) == high
    assert board.blank.view.evaluate("document.documentElement.scrollHeight <= innerHeight")
    board.keyboard.press("Escape")
    assert frame.evaluate(HEIGHT) < 900
