"""The schedule of a pipeline on Time, and what each stage needs on Memory: drawn, said, reached by keys."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_accessible import AXE, UNNAMED, violations

LAYOUT = {
    "batch": "data+micro",
    "layers": "pipe",
    "params/*": {"embed": "data"},
    "opt_state/*": {"embed": "data"},
}


@pytest.fixture
def explorer() -> Explorer:
    mesh = ml.mesh("v5p:2x2x4", data=4, pipe=ml.stages(4), micro=ml.serial(8))
    shown = explore("llama3-8b", mesh, batch=64)
    shown.load(LAYOUT)
    shown.view()
    return shown


def accessible(board: BlankBoard) -> None:
    assert board.root.evaluate(UNNAMED) == []
    if AXE.exists():
        board.blank.view.add_script_tag(path=str(AXE))
        assert violations(board.blank.view) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_stages_are_lanes_whose_cells_are_read_by_mouse_and_by_keys(open_board, explorer: Explorer, theme: str) -> None:
    board: BlankBoard = open_board(width=1440, height=1000, theme=theme)
    board.show("time")
    drawn = board.panel("time").locator(".mlb-schedule")
    lanes = drawn.locator(".mlb-schedule-lane")
    expect(lanes).to_have_count(4)
    picture = drawn.locator("[role=img]")
    expect(picture).to_have_attribute(
        "aria-label", re.compile(r"^paired: 4 stages, 8 micro-batches: stage 0 waits for")
    )
    expect(drawn).to_contain_text("All stages exchange after each tick: the busiest one waits for")
    # Each stage has a forward and a backward cell of each micro-batch, with its number.
    expect(lanes.first.locator(".mlb-cell")).to_have_count(16)
    numbers = lanes.first.locator(".mlb-cell:not(.mlb-cell-backward)").all_text_contents()
    assert numbers == [str(micro) for micro in range(8)]
    last = lanes.nth(3).locator(".mlb-cell-backward").last
    last.click()
    said = drawn.locator(".mlb-looked-cell")
    expect(said).to_contain_text("stage 3: backward of micro-batch 7, ")
    expect(said).to_contain_text("in flight: 1 micro-batch")
    expect(lanes.nth(3).locator(".mlb-cell-chosen")).to_have_count(1)
    slider = drawn.get_by_role("slider")
    slider.focus()
    board.keyboard.press("ArrowUp")
    expect(said).to_contain_text("stage 2: ")
    board.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^stage 2: forward of micro-batch 0, "))
    board.keyboard.press("ArrowRight")
    expect(slider).to_be_focused()
    expect(said).to_contain_text("stage 2: forward of micro-batch 1")
    accessible(board)
    board.blank.shot(f"schedule-{theme}")


def test_stages_may_run_by_themselves(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(width=1440, height=1000)
    board.show("time")
    panel = board.panel("time")
    drawn = panel.locator(".mlb-schedule")
    expect(drawn.locator(".mlb-schedule-key")).to_contain_text("thin: sends over")
    panel.get_by_label("as if each stage ran by itself").check()
    expect(drawn).to_contain_text("Each stage runs by itself: the busiest one waits for")
    expect(drawn.locator(".mlb-schedule-key")).not_to_contain_text("sends over")
    panel.get_by_label("as if each stage ran by itself").uncheck()
    expect(drawn).to_contain_text("All stages exchange after each tick")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_memory_has_a_bar_for_each_stage(open_board, explorer: Explorer, theme: str) -> None:
    board: BlankBoard = open_board(width=1440, height=1000, theme=theme)
    board.show("memory")
    bars = board.panel("memory").locator('[data-chart="stages"] > li')
    expect(bars).to_have_count(4)
    stages = explorer.plan.memory.donated.stages
    for stage, each in enumerate(stages):
        title = bars.nth(stage).locator(".mlb-bar-value").get_attribute("title")
        assert title is not None
        assert title.startswith(f"{each.peak_bytes:,} bytes: ")
        expect(bars.nth(stage).locator(".mlb-part")).to_have_count(5)
    held = ", ".join(str(each.in_flight) for each in stages)
    expect(board.panel("memory")).to_contain_text(f"In flight: {held} on stages 0 to 3, of ")
    accessible(board)
    bars.nth(3).scroll_into_view_if_needed()
    board.blank.shot(f"stages-{theme}")


def test_without_stages_there_is_no_schedule(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(width=1440)
    board.show("time")
    expect(board.panel("time").locator(".mlb-schedule")).to_be_visible()
    explorer.load({"batch": "data+micro", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}})
    board.blank.poll()
    expect(board.panel("time").locator(".mlb-step-value")).not_to_have_text("11 s")
    expect(board.panel("time").locator(".mlb-schedule")).to_have_count(0)
