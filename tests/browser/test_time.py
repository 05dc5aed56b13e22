"""The Time tab: the workbench's lanes enlarged, which zoom and add up, and the roofline of its kernels."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from meshlab.cost.machines.units import seconds_text
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.views.roofline import roofline_view
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, violations
from tests.browser.test_moments import chart_of
from tests.widgets import small

LANES = ("compute", "data", "model", "exposed")


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


def test_each_lane_says_its_seconds_and_a_click_its_cause(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="time")
    lanes, time = board.root.locator(".mlb-step-time"), explorer.time
    wanted = {"compute": time.compute, **time.communication, "exposed": time.exposed}
    expect(lanes).to_have_attribute("aria-busy", "false")
    named = lanes.locator(".mlb-lane-name:has(.mlb-lane-sum)")
    sums = dict(zip(LANES, named.locator(".mlb-lane-sum").all_inner_texts(), strict=True))
    assert sums == {key: seconds_text(float(wanted[key])) for key in LANES}
    segment = lanes.locator('[data-lane="model"] .mlb-segment').first
    segment.click()
    expect(segment).to_have_attribute("aria-pressed", "true")
    expect(board.root.locator(".mlb-detail")).to_contain_text("all-reduce over model: logits")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_roofline_has_a_dot_for_each_group_of_matmuls(open_board, explorer: Explorer, theme: str) -> None:
    board: BlankBoard = open_board(panel="time", theme=theme)
    view: Any = roofline_view(explorer)
    dots = view["dots"]
    timed = [dot for dot in dots if dot["intensity"] is not None]
    plot = chart_of(board, "roofline")
    expect(plot.locator(".scatterlayer .points path")).to_have_count(len(timed))
    said = board.root.locator(".mlb-roofline-said")
    undrawn = float(explorer.time.compute) - sum(dot["seconds"] for dot in timed)
    expect(said).to_contain_text(f"{seconds_text(undrawn)} of {seconds_text(float(explorer.time.compute))}")
    assert timed[0]["source"] in plot.locator(".textpoint").all_text_contents()[-1]
    board.root.locator("summary", has_text="Kernels by time").click()
    table = board.root.locator(".mlb-roofline table")
    expect(table.locator("tbody tr")).to_have_count(len(dots) + 1)
    expect(table).to_contain_text(f"all kernels\t{seconds_text(float(explorer.time.compute))}", use_inner_text=True)
    board.blank.shot(f"roofline-{theme}", full=True)
    if AXE.exists():
        board.blank.view.add_script_tag(path=str(AXE))
        assert violations(board.blank.view) == []


def test_on_the_stage_it_is_a_click_to_the_whole_step(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    board.show("time").get_by_role("button", name="The step over time").click()
    lanes = board.root.locator(".mlb-step-time")
    expect(lanes).to_have_count(1)
    expect(lanes.locator('[data-lane="exposed"]')).to_be_visible()
    expect(board.root.locator(".mlb-main")).to_be_hidden()
    lanes.locator('[data-lane="data"] .mlb-segment').first.click()
    expect(board.root.locator(".mlb-detail")).to_contain_text("all-reduce over data")
    board.keyboard.press("Escape")
    expect(board.root.locator(".mlb-main")).to_be_visible()


def test_totals_say_what_a_device_gets_through_in_a_second(open_board, explorer: Explorer) -> None:
    rate = explorer.view()["time"]["rate"]
    total = open_board(width=1272).total("rate")
    expect(total).to_contain_text(rate["unit"])
    expect(total.locator(".mlb-total-value")).to_have_text(rate["text"])
    expect(total).to_contain_text(rate["step"])
    # Where there is no room for it, Time says it.
    narrow = open_board(width=1000)
    expect(narrow.total("rate")).to_be_hidden()
    expect(narrow.show("time")).to_contain_text(f"{rate['text']} {rate['unit']}")
