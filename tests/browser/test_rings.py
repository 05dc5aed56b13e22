"""Rings on the board: offered where attention is recognised, marked, named, read whole and played turn by turn."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_accessible import AXE, UNNAMED, violations

ZIGZAG = "seq:zigzag(context) kv:zigzag(context)"
WIDE = "element => element.scrollWidth - element.clientWidth"


@pytest.fixture
def explorer() -> Explorer:
    shown = explore("llama", ml.mesh("h100:1x8", data=2, context=4), batch=8)
    shown.view()
    return shown


def test_a_ring_is_a_preset_of_a_model_as_it_is(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(width=960)
    expect(board.chip("seq").locator(".mlb-chip-order")).to_have_count(0)
    board.root.locator('[data-preset="zigzag_ring"]').click()
    expect(board.root.locator(".mlb-layout-name")).to_have_text("Zigzag ring over context")
    for dim in ("seq", "kv"):
        chip = board.chip(dim, "context")
        expect(chip.locator(".mlb-chip-order")).to_have_text("zig-zag")
        expect(chip).to_have_attribute("aria-label", re.compile("in zig-zag order inside attention"))
    expect(board.root.locator('[data-preset="zigzag_ring"]')).to_have_attribute("aria-pressed", "true")
    board.root.locator('[data-preset="ring"]').click()
    expect(board.root.locator(".mlb-layout-name")).to_have_text("Ring over context")
    expect(board.chip("seq", "context").locator(".mlb-chip-order")).to_have_count(0)


@pytest.mark.parametrize("presenter", [False, True])
def test_long_kinds_and_hops_leave_the_table_in_its_panel(open_board, explorer: Explorer, presenter: bool) -> None:
    explorer.load(ZIGZAG)
    board: BlankBoard = open_board(width=1240 if presenter else 960)
    if presenter:
        board.root.locator(".mlb-chip").first.focus()
        board.keyboard.press("Shift+P")
    board.show("traffic")
    traffic = board.panel("traffic")
    row = traffic.locator(".mlb-collective:visible", has_text="keys of attention in").first
    row.click()
    expect(traffic.locator(".mlb-hops")).to_be_visible()
    assert traffic.locator(".mlb-table-box").evaluate(WIDE) <= 0
    expect(row.locator(".mlb-number").last).to_be_visible()


def test_a_ring_is_played_turn_by_turn(open_board, explorer: Explorer) -> None:
    explorer.load("seq:context kv:context")
    board: BlankBoard = open_board(width=1440)
    board.show("traffic")
    traffic = board.panel("traffic")
    traffic.locator(".mlb-collective:visible", has_text="keys of attention in").first.click()
    hops = traffic.locator(".mlb-hops")
    for turn in range(1, 4):
        hops.get_by_role("button", name="one hop forward").click()
        expect(hops).to_contain_text(f"Hop {turn} of 3: each device sends {'its' if turn == 1 else 'the'} slice")
    hops.get_by_role("button", name="one hop forward").click()
    expect(hops).to_contain_text("After: Each slice has gone from device to device.")
    expect(hops).to_contain_text("Each device sends 3 × 1 × ")
    assert board.root.evaluate(UNNAMED) == []
    if AXE.exists():
        board.blank.view.add_script_tag(path=str(AXE))
        assert violations(board.blank.view) == []


def test_a_machine_has_its_name_and_a_size_its_last_number(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(width=960)
    machine = board.root.locator(".mlb-header .mlb-select").first
    assert machine.evaluate("select => select.clientWidth") >= 180
    board.chip("seq").focus()
    board.keyboard.press("F2")
    drawn = board.root.locator(".mlb-sizes svg, .mlb-popover svg").first
    expect(drawn).to_be_visible()
    frame = drawn.bounding_box()
    assert frame is not None
    labels = drawn.locator("text").all()
    assert labels
    for label in labels:
        box = label.bounding_box()
        assert box is not None
        assert frame["x"] - 1 <= box["x"]
        assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1


def test_a_presenter_reads_the_names_of_mesh_axes(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(width=1240)
    board.root.locator(".mlb-chip").first.focus()
    board.keyboard.press("Shift+P")
    expect(board.root).to_have_attribute("data-presenter", "")
    names = board.root.locator(".mlb-axis .mlb-zone-name").all()
    assert names
    for name in names:
        assert name.evaluate(WIDE) <= 0
