"""One selection for all views: what is chosen in one is marked in the others, in whatever cell, until Escape."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


@pytest.fixture
def board(open_board) -> BlankBoard:
    return open_board()


def segments(board: BlankBoard, lane: str) -> Locator:
    return board.root.locator(f'.mlb-lane[data-lane="{lane}"] .mlb-segment')


def chosen(within: Locator) -> Locator:
    return within.locator("[aria-current=true]")


def related(board: BlankBoard, explorer: Explorer, dim: str) -> None:
    """Checks that of all views what has to do with a dim is marked, and nothing else."""
    rows = explorer.view()["collectives"]["rows"]
    concerned = [row["id"] for row in rows if dim in row["dims"] or f"`{dim}`" in row["because"]]
    assert 0 < len(concerned) < len(rows)
    marked = board.show("traffic").locator("tr[data-related]")
    expect(marked).to_have_count(len(concerned))
    assert marked.evaluate_all("rows => rows.map(row => row.dataset.collective)") == concerned
    lanes = board.root.locator(".mlb-segment[data-related]")
    assert set(lanes.evaluate_all("all => all.map(each => each.dataset.collective)")) <= set(concerned)
    expect(lanes.first).to_be_visible()
    places = [row["place"] for row in explorer.view()["places"]["rows"] if dim in row["dims"]]
    options = board.show("devices").locator("option[data-related]")
    expect(options).to_have_count(len(places))
    expect(options.first).to_have_text(re.compile(f"^● {places[0]}"))


def test_a_chip_that_is_lifted_selects_its_dim(board: BlankBoard, explorer: Explorer) -> None:
    board.chip("hidden").click()
    expect(board.chip("hidden")).to_have_attribute("aria-current", "true")
    board.keyboard.press("Escape")
    assert explorer.selection.dim == "hidden"
    related(board, explorer, "hidden")
    # It survives a change that leaves it.
    with board.next_revision():
        board.drag("hidden", TRAY)
    expect(board.chip("hidden")).to_have_attribute("aria-current", "true")


def test_by_keyboard_and_escape_releases(board: BlankBoard, explorer: Explorer) -> None:
    board.chip("batch").focus()
    board.keyboard.press("Enter")
    expect(board.chip("batch")).to_have_attribute("aria-current", "true")
    board.keyboard.press("Escape")
    expect(board.chip("batch")).to_have_attribute("aria-current", "true")
    board.keyboard.press("Escape")
    expect(chosen(board.root)).to_have_count(0)
    expect(board.status).to_have_text("Nothing is selected.")
    board.blank.view.wait_for_function("() => window.model.get('selection').selection.dim === null")
    assert explorer.selection.dim is None


@pytest.mark.parametrize("by", ["click", "Enter"])
def test_a_collective_is_marked_in_the_step_and_the_other_way_round(
    board: BlankBoard, explorer: Explorer, by: str
) -> None:
    row = board.show("traffic").locator('tr[data-axes="model"]').first
    if by == "click":
        row.locator("b").click()
    else:
        row.focus()
        board.keyboard.press("Enter")
    expect(row).to_have_attribute("aria-current", "true")
    expect(segments(board, "model").first).to_have_attribute("aria-current", "true")
    expect(segments(board, "data").first).not_to_have_attribute("aria-current", "true")
    expect(board.root.locator(".mlb-detail")).to_contain_text("all-reduce over model: logits")
    expect(board.status).to_contain_text(
        "Selected: all-reduce over model of logits. The step over time has it in 1 place"
    )
    segments(board, "data").first.click()
    expect(row).not_to_have_attribute("aria-current", "true")
    expect(chosen(board.panel("traffic"))).to_have_attribute("data-axes", "data")
    expect(chosen(board.panel("traffic"))).to_have_count(1)
    # It stays while the layout has it, and goes with it.
    explorer.remove("hidden")
    explorer.view()
    board.blank.poll()
    expect(chosen(board.root)).to_have_count(explorer_has(explorer))


def explorer_has(explorer: Explorer) -> int:
    """Returns how many elements of the panels in sight bear the collective that is selected."""
    selection = explorer.selection
    if selection.collective is None:
        return 0
    timeline = explorer.view()["timeline"]
    row = next(each for each in explorer.view()["collectives"]["rows"] if each["id"] == selection.collective)
    drawn = [s for lane in timeline["lanes"] for s in lane["segments"] if s["name"] == row["value"]]
    return 1 + len(drawn)


@pytest.mark.parametrize("by", ["click", "Enter"])
def test_a_device_says_what_it_holds_and_with_whom_it_talks(board: BlankBoard, explorer: Explorer, by: str) -> None:
    tile = board.root.locator('[data-device="5"]')
    if by == "click":
        tile.click()
    else:
        board.root.locator('[data-device="0"]').focus()
        for _ in range(5):
            board.keyboard.press("ArrowRight")
        expect(tile).to_be_focused()
        board.keyboard.press("Enter")
    expect(tile).to_have_attribute("aria-current", "true")
    expect(board.status).to_have_text(
        "Device 5 (data 1, model 1) holds hidden 4 to 7 of params/w1; it talks over data with 1, and over model with"
        " 4, 6, 7."
    )
    for peer, axis in ((1, "data"), (4, "model"), (6, "model"), (7, "model")):
        expect(board.root.locator(f'[data-device="{peer}"]')).to_have_attribute("data-peer", axis)
    expect(board.root.locator("[data-peer]")).to_have_count(4)
    board.blank.shot("device")
    assert explorer.selection.device == 5
    explorer.remove("hidden")
    explorer.view()
    board.blank.poll()
    expect(tile).to_have_attribute("aria-current", "true")
    expect(board.root.locator("[data-peer]")).to_have_count(1)


def test_all_views_of_an_explorer_have_one_selection(open_board, explorer: Explorer) -> None:
    first = open_board(boards=2)
    second = BlankBoard(first.blank, 1)
    first.root.locator('[data-device="2"]').click()
    expect(second.root.locator('[data-device="2"]')).to_have_attribute("aria-current", "true")
    second.chip("hidden").click()
    second.keyboard.press("Escape")
    expect(first.chip("hidden")).to_have_attribute("aria-current", "true")


def test_it_works_while_python_is_silent(board: BlankBoard, explorer: Explorer) -> None:
    board.blank.silent = True
    segments(board, "model").first.click()
    expect(segments(board, "model").first).to_have_attribute("aria-pressed", "true")
    assert explorer.selection.moment is None
