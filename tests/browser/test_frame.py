"""The frame of the board: its first line, how the room is shared out, the presenter's type, and a silent Python."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import RENDER, BlankBoard, bundle
from tests.browser.board import TRAY
from tests.browser.boxes import CUTS, OVERLAPS, SIZES
from tests.browser.test_board import AXE, TABS, violations
from tests.widgets import small

SHARE = """root => {
    const width = each => root.querySelector(each).getBoundingClientRect().width;
    const [layout, main] = [".mlb-layout", ".mlb-main"].map(width);
    return Math.round(100 * layout / main);
}"""


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data", run=small.training())


def test_the_first_line_is_the_model_the_mesh_and_the_machine(open_board) -> None:
    shown = explore("mlp", ml.mesh("v5e", data=2, model=4, micro=ml.serial(2)))
    board = open_board(shown, width=1112)
    header = board.root.locator(".mlb-header")
    expect(header).to_contain_text(re.compile(r"^mlp\s*▾\s*data 2\s*×\s*model 4\s*×\s*micro 2 in time\s*= 8 devices"))
    assert (header.bounding_box() or {})["height"] < 40
    for word in ("Undo", "Redo", "Reset", "Export ▾", "More"):
        expect(header.get_by_role("button", name=word, exact=True)).to_be_visible()
    expect(header.get_by_role("checkbox")).to_have_count(0)
    # A chip of the mesh opens what can be changed of its axis, by mouse and by keyboard.
    header.get_by_role("button", name="model 4").click()
    popover = board.root.get_by_role("dialog", name="Mesh axis model")
    expect(popover).to_be_visible()
    board.keyboard.press("Escape")
    header.get_by_role("button", name="data 2").focus()
    board.keyboard.press("Enter")
    expect(board.root.get_by_role("dialog", name="Mesh axis data")).to_be_visible()
    board.keyboard.press("Escape")
    expect(header.get_by_role("button", name="data 2")).to_be_focused()


def test_a_serial_axis_has_no_devices(open_board) -> None:
    """B33: "mesh axis micro, 4 devices"."""
    board = open_board(explore(small.program(), ml.mesh(data=2, micro=ml.serial(4))))
    expect(board.zone("data")).to_have_attribute("aria-label", "mesh axis data, 2 devices")
    expect(board.zone("micro")).to_have_attribute("aria-label", "mesh axis micro, 4 times one after the other")


def test_the_divider_is_moved_by_mouse_and_keyboard_and_remembered(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(stored=True)
    divider = board.root.get_by_role("separator", name="divider between the layout and the views")
    expect(divider).to_have_attribute("aria-valuenow", "57")
    divider.focus()
    for _ in range(5):
        board.keyboard.press("ArrowLeft")
    expect(divider).to_have_attribute("aria-valuenow", "47")
    assert board.root.evaluate(SHARE) == 47
    board.keyboard.press("Home")
    expect(divider).to_have_attribute("aria-valuenow", "35")
    board.keyboard.press("End")
    expect(divider).to_have_attribute("aria-valuenow", "75")
    assert board.root.evaluate(CUTS, ".mlb-stage") == []
    box, main = divider.bounding_box(), board.root.locator(".mlb-main").bounding_box()
    assert box is not None
    assert main is not None
    board.mouse.move(box["x"] + 4, box["y"] + 50)
    board.mouse.down()
    board.mouse.move(main["x"] + 0.45 * main["width"], box["y"] + 80, steps=4)
    board.mouse.up()
    expect(divider).to_have_attribute("aria-valuenow", "45")
    board.mouse.move(main["x"] + 0.7 * main["width"], box["y"] + 80)
    assert board.root.evaluate(SHARE) == 45
    # Another board of this reader opens so.
    board.blank.view.evaluate(RENDER, [bundle("session.js"), 1])
    assert BlankBoard(board.blank, 1).root.evaluate(SHARE) == 45
    divider.dblclick()
    expect(divider).to_have_attribute("aria-valuenow", "57")
    board.blank.view.evaluate(RENDER, [bundle("session.js"), 1])
    assert BlankBoard(board.blank, 2).root.evaluate(SHARE) == 57


def test_a_view_has_the_whole_width_until_escape(open_board, explorer: Explorer) -> None:
    board = open_board()
    stage, button = board.root.locator(".mlb-stage"), board.root.locator(".mlb-widen")
    button.click()
    wide, frame = stage.bounding_box(), board.root.locator(".mlb-frame").bounding_box()
    assert wide is not None
    assert frame is not None
    assert wide["width"] == frame["width"]
    expect(board.zone(TRAY)).to_be_hidden()
    # What is done is said all the same.
    with board.next_revision():
        explorer.place("hidden", "model")
        board.blank.poll()
    expect(board.status).to_be_visible()
    expect(board.status).to_contain_text("TP over model")
    board.keyboard.press("Escape")
    assert (stage.bounding_box() or {})["width"] < 0.5 * wide["width"]
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(board.zone(TRAY)).to_be_visible()


def test_type_has_three_sizes_and_larger_ones_for_a_presenter(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(stored=True, width=1440, height=900)
    board.show("run")
    for tab in TABS:
        board.show(tab)
        assert set(board.root.evaluate(SIZES)) <= {12, 14, 20}, tab
    high = (board.root.locator(".mlb-frame").bounding_box() or {})["height"]
    board.chip("hidden").focus()
    board.keyboard.press("Shift+P")
    expect(board.root).to_have_attribute("data-presenter", "")
    expect(board.status).to_contain_text("Larger type, for a projector")
    for tab in TABS:
        board.show(tab)
        assert set(board.root.evaluate(SIZES)) <= {17, 19, 30}, tab
    for part in (".mlb-header", ".mlb-totals", ".mlb-zones"):
        assert board.root.evaluate(OVERLAPS, part) == []
        assert board.root.evaluate(CUTS, part) == []
    # The board is as much higher, and what is secondary is gone.
    assert (board.root.locator(".mlb-frame").bounding_box() or {})["height"] >= 1.4 * high - 1
    expect(board.total("expected")).to_be_hidden()
    board.blank.shot("presenter")
    # It is remembered, and ended by its switch.
    board.blank.view.evaluate(RENDER, [bundle("session.js"), 1])
    second = BlankBoard(board.blank, 1)
    expect(second.root).to_have_attribute("data-presenter", "")
    second.root.get_by_role("button", name="More", exact=True).click()
    second.root.get_by_label("Presenter").uncheck()
    assert set(second.root.evaluate(SIZES)) <= {12, 14, 20}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_presenters_board_is_accessible(open_board, explorer: Explorer, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    explorer.place("hidden", "model")
    explorer.view()
    board: BlankBoard = open_board(theme=theme)
    board.chip("hidden").focus()
    board.keyboard.press("Shift+P")
    board.blank.view.add_script_tag(path=str(AXE))
    assert violations(board.blank.view) == []
    board.root.locator(".mlb-widen").click()
    assert violations(board.blank.view) == []


def test_a_silent_python_moves_nothing_and_what_was_lost_is_said(open_board, explorer: Explorer) -> None:
    """B23: the banner pushed the board down in mid-drag, ate the click before it, and left an empty status line."""
    explorer.place("hidden", "model")
    board: BlankBoard = open_board()
    board.blank.view.clock.install()
    zone, banner = board.zone("model"), board.root.locator(".mlb-banner")
    before = zone.bounding_box()
    board.blank.silent = True
    board.button("reset").click()
    board.blank.view.clock.fast_forward(2000)
    expect(banner).to_be_visible()
    assert zone.bounding_box() == before
    expect(board.status).to_contain_text("Python did not answer, so this was not done: Reset.")
    expect(board.status).to_have_attribute("data-mood", "refused")
    again = board.status.get_by_role("button", name="Do it now")
    expect(again).to_have_attribute("inert", "")
    board.blank.silent = False
    banner.get_by_role("button", name="Try again").click()
    expect(banner).to_be_hidden()
    assert zone.bounding_box() == before
    with board.next_revision():
        again.click()
    assert explorer.layout.to_dict() == {"batch": "data"}


def test_a_chip_that_is_held_when_python_falls_silent_is_said_to_be_put_back(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    board.blank.view.clock.install()
    board.blank.silent = True
    board.press("hidden")
    board.move_to("model")
    before = board.zone("model").bounding_box()
    board.blank.view.clock.fast_forward(15_000)  # for so long prices are waited for
    expect(board.root.locator(".mlb-banner")).to_be_visible()
    assert board.zone("model").bounding_box() == before
    expect(board.status).to_have_text("hidden was put back: Python does not answer.")
    board.mouse.up()
    expect(board.status).to_have_text("hidden was put back: Python does not answer.")


def test_what_is_held_can_be_added_by_click_and_by_key(open_board, explorer: Explorer) -> None:
    board = open_board(explore(small.program(), small.mesh(), "hidden:model"))
    strip = board.root.get_by_role("group", name="the dim that is held")
    expect(strip).to_be_hidden()
    zones = board.root.locator(".mlb-zones").bounding_box()
    board.chip("hidden").click()
    expect(strip).to_be_visible()
    assert board.root.locator(".mlb-zones").bounding_box() == zones
    strip.get_by_label("add the axis to those it has").check()
    with board.next_revision():
        board.root.get_by_role("button", name="Put here: hidden on data", exact=True).click()
    assert board.layout == "hidden:model+data"
    expect(strip).to_be_hidden()
    # It was for this drop alone.
    board.chip("hidden", "data").click()
    expect(strip.get_by_label("add the axis to those it has")).not_to_be_checked()
    strip.get_by_role("button", name="Put back").click()
    expect(board.status).to_have_text("hidden is where it was.")
    board.chip("batch").focus()
    for key in ("Enter", "a", "ArrowUp"):
        board.keyboard.press(key)
    expect(strip.get_by_label("add the axis to those it has")).to_be_checked()
    board.keyboard.press("Escape")
    expect(strip).to_be_hidden()
