"""Edits on the board: mesh axes, sizes and names of dims, padding and pins, by mouse and by keyboard."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh(), "batch:data")


def line(board: BlankBoard, op: str) -> Locator:
    """One line of the popover, by what it sends."""
    return board.root.locator(f'.mlb-popover [data-edit="{op}"]')


def status(board: BlankBoard) -> Locator:
    return board.root.locator(".mlb-status")


def open_axis(board: BlankBoard, axis: str) -> None:
    board.root.locator(f'[data-axis-row="{axis}"]').click()
    expect(board.root.get_by_role("dialog", name=f"Mesh axis {axis}")).to_be_visible()


def test_a_mesh_axis_is_split_renamed_and_merged(open_board, explorer: Explorer) -> None:
    board = open_board()
    open_axis(board, "model")
    line(board, "split_axis").get_by_label("called").fill("pod")
    with board.next_revision():
        line(board, "split_axis").get_by_role("button").click()
    assert dict(explorer.mesh.axes) == {"data": 2, "pod": 2, "model": 2}
    expect(board.root.locator(".mlb-popover")).to_be_hidden()
    open_axis(board, "data")
    line(board, "rename_axis").get_by_label("name").fill("replica")
    with board.next_revision():
        board.keyboard.press("Enter")
    assert board.layout == "batch:replica"
    expect(board.root.locator('[data-axis-row="replica"]')).to_contain_text("×2")
    open_axis(board, "model")
    line(board, "merge_axes").get_by_label("merge with").select_option("pod")
    with board.next_revision():
        line(board, "merge_axes").get_by_role("button").click()
    assert dict(explorer.mesh.axes) == {"replica": 2, "model": 4}


def test_a_refused_edit_is_told_in_the_popover_and_escape_closes_it(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.root.locator('[data-axis-row="data"]').focus()
    board.keyboard.press("Enter")
    size = line(board, "resize_axis").get_by_label("size")
    size.fill("3")
    size.press("Enter")
    expect(board.root.locator(".mlb-popover [role=alert]")).to_contain_text("does not divide")
    expect(status(board)).to_contain_text("does not divide")
    assert explorer.revision == 0
    board.keyboard.press("Escape")
    expect(board.root.locator(".mlb-popover")).to_be_hidden()
    expect(board.root.locator('[data-axis-row="data"]')).to_be_focused()


def test_a_dim_is_resized_and_renamed_by_keyboard(open_board, explorer: Explorer) -> None:
    board, traced = open_board(), threading.Event()
    explorer.subscribe(lambda what: traced.set() if what == "document" else None)
    board.chip("batch").focus()
    board.keyboard.press("F2")
    line(board, "resize_dim").get_by_label("size").fill("32")
    board.keyboard.press("Enter")
    expect(board.root.locator(".mlb-popover")).to_be_hidden()
    assert traced.wait(60)
    board.blank.poll()
    expect(board.chip("batch")).to_contain_text("32 → 16")
    board.chip("batch").dblclick()
    line(board, "rename_dim").get_by_label("name").fill("images")
    with board.next_revision():
        line(board, "rename_dim").get_by_role("button").click()
    assert explorer.layout.to_dict() == {"images": "data"}


def test_a_size_is_found_by_touch(open_board) -> None:
    board = open_board(touch=True)
    board.chip("batch").tap()
    board.button("edit_dim").tap()
    dialog = board.root.get_by_role("dialog", name="Dim batch")
    expect(dialog.get_by_label("size", exact=True)).to_have_value("8")
    board.keyboard.press("Escape")
    # Who looks has put the chip back.
    expect(board.chip("batch")).to_have_attribute("aria-pressed", "false")
    expect(board.button("edit_dim")).to_be_hidden()


def test_keys_open_the_size_of_a_dim_that_is_held_and_are_listed(open_board) -> None:
    board = open_board()
    board.chip("batch").click()
    board.keyboard.press("F2")
    expect(board.root.get_by_role("dialog", name="Dim batch")).to_be_visible()
    board.keyboard.press("Escape")
    board.root.get_by_role("button", name="Help", exact=True).click()
    keys = board.root.locator(".mlb-keys")
    expect(keys).to_be_visible()
    expect(keys).to_contain_text("size and name of a dim")
    expect(keys).to_contain_text("Ctrl+Z")


def test_padding_is_a_switch(open_board, explorer: Explorer) -> None:
    board = open_board()
    more, switch = board.root.get_by_role("button", name="More", exact=True), board.root.get_by_label("Pad dims")
    more.click()
    with board.next_revision():
        switch.check()
    expect(board.root.locator(".mlb-popover")).to_be_hidden()
    with board.next_revision():
        board.drag("classes", "model")
    expect(board.chip("classes")).to_contain_text("10 → 3")
    more.click()
    with board.next_answer():
        switch.click()
    expect(switch).to_be_checked()
    expect(board.root.locator(".mlb-popover")).to_contain_text("does not divide")


def test_a_drop_that_would_have_to_be_padded_offers_that_as_one_change(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.drag("classes", "model")
    expect(board.status).to_contain_text("Refused: classes has size 10, which 4 (model) does not divide.")
    board.press("classes")  # by now Python has said what would be legal
    board.move_to("model")
    expect(board.note("model")).to_have_text("✕")
    board.mouse.up()
    with board.next_revision():
        board.status.get_by_role("button", name="Pad it").click()
    assert (explorer.document.pad, explorer.layout.to_dict()["classes"]) == (True, "model")
    with board.next_revision():
        board.button("undo").click()
    assert (explorer.document.pad, "classes" in explorer.layout.to_dict()) == (False, False)
    # A conflict is none that padding resolves.
    board.drag("rows", "data")
    expect(board.status).to_contain_text("cannot both be on")
    expect(board.status.get_by_role("button", name="Pad it")).to_have_count(0)


def test_pins_by_key_and_by_button(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.chip("batch").focus()
    with board.next_revision():
        board.keyboard.press("p")
    assert dict(explorer.document.pins) == {"batch": "data"}
    expect(board.chip("batch").locator(".mlb-pin")).to_be_visible()
    expect(board.chip("batch")).to_have_attribute("aria-label", "batch 8 → 4, sharded over data, pinned to data")
    expect(status(board)).to_contain_text("batch is pinned to data.")
    expect(board.chip("batch")).to_be_focused()
    with board.next_revision():
        board.keyboard.press("p")
    assert explorer.document.pins == ()
    board.zone(TRAY).locator('[data-dim="hidden"]').click(button="right")
    with board.next_revision():
        board.root.get_by_role("button", name="Pin: unsharded in searches").click()
    assert dict(explorer.document.pins) == {"hidden": None}


def test_a_made_up_dim_is_named(open_board) -> None:
    seq, embed = ml.dims(seq=8, embed=4)
    program = ml.trace(lambda x: (x @ x.T).sum(), ml.named(ml.f32[seq, embed].array, "seq embed"))
    board = open_board(explore(program, ml.mesh(data=2)))
    board.root.get_by_role("button", name="1 unnamed dim").click()
    line(board, "rename_dim").get_by_label("~seq 8").fill("kv")
    with board.next_revision():
        board.keyboard.press("Enter")
    expect(board.chip("kv")).to_be_visible()
    expect(board.root.locator(".mlb-made-up")).to_have_count(0)
