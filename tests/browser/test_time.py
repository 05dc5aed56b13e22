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


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


def test_each_lane_says_its_seconds_and_a_click_its_cause(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="time")
    lanes, time = board.root.locator(".mlb-lanes-big"), explorer.time
    keys = lanes.locator("[data-lane]").evaluate_all("all => all.map(each => each.dataset.lane)")
    wanted = {"compute": time.compute, **time.communication, "exposed": time.exposed}
    assert set(keys) == set(wanted)
    sums = lanes.locator(".mlb-lane-sum").all_inner_texts()
    assert sums == [seconds_text(float(wanted[key])) for key in keys]
    segment = lanes.locator('[data-lane="model"] .mlb-segment').first
    segment.click()
    expect(segment).to_have_attribute("aria-pressed", "true")
    expect(board.root.locator(".mlb-detail")).to_contain_text("all-reduce over model: logits")


def test_it_zooms_by_buttons_and_keys(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="time")
    box = board.root.locator(".mlb-lanes-box")
    times = "box => (box.scrollWidth - 156) / (box.clientWidth - 156)"
    assert box.evaluate(times) == 1
    board.root.get_by_role("button", name="zoom in").click()
    assert box.evaluate(times) == pytest.approx(2, rel=0.01)
    box.focus()
    board.keyboard.press("+")
    assert box.evaluate(times) == pytest.approx(4, rel=0.01)
    board.keyboard.press("-")
    assert box.evaluate(times) == pytest.approx(2, rel=0.01)
    board.root.get_by_role("button", name="the whole step").click()
    assert box.evaluate(times) == 1


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


def test_on_the_stage_the_workbench_says_what_is_selected(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    panel = board.show("time")
    panel.locator('[data-lane="data"] .mlb-segment').first.click()
    expect(board.root.locator(".mlb-detail")).to_have_count(1)
    expect(board.root.locator(".mlb-detail")).to_contain_text("all-reduce over data")
    expect(board.root.locator('.mlb-segment[aria-pressed="true"]')).to_have_count(2)
