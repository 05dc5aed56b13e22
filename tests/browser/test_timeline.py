"""The step over time on the board: its lanes, what a click on a segment says, and that it follows the layout."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from meshlab.cost.machines.units import seconds_text
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, violations
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


def lane(board: BlankBoard, key: str) -> Locator:
    return board.root.locator(f'.mlb-lane[data-lane="{key}"]')


def detail(board: BlankBoard) -> Locator:
    return board.root.locator(".mlb-detail")


def test_there_is_a_lane_for_kernels_and_one_for_each_axis(open_board, explorer: Explorer) -> None:
    board = open_board()
    view = explorer.view()["timeline"]
    names = board.root.locator(".mlb-lane[data-lane]").evaluate_all("lanes => lanes.map(each => each.dataset.lane)")
    assert names == ["compute", *(each["key"] for each in view["lanes"][1:])]
    assert {"data", "model"} <= set(names)
    for each in view["lanes"]:
        expect(lane(board, each["key"] or "compute").locator(".mlb-segment")).to_have_count(len(each["segments"]))
    expect(board.root.locator(".mlb-lane-end")).to_have_text(seconds_text(explorer.time.estimate))
    expect(board.root.locator(".mlb-phase").first).to_have_text("forward")
    expect(detail(board)).to_contain_text("of communication are exposed: no kernel runs meanwhile.")


def test_the_end_of_the_step_covers_no_phase(open_board, explorer: Explorer) -> None:
    board = open_board()
    end = board.root.locator(".mlb-lane-end").bounding_box()
    for phase in board.root.locator(".mlb-phase").all():
        box = phase.bounding_box()
        assert end is not None
        assert box is not None
        assert end["x"] + end["width"] <= box["x"]
        text = phase.locator("span")
        if text.is_visible():
            assert text.evaluate("text => text.scrollWidth <= text.parentElement.clientWidth")
        else:
            expect(phase).to_have_attribute("title", re.compile(r"^(forward|backward|update).*: \d"))


def test_a_scale_of_round_times_stands_above_the_lanes(open_board, explorer: Explorer) -> None:
    board = open_board()
    ticks = board.root.locator(".mlb-step-time .mlb-scale-tick")
    expect(ticks.first).to_have_text("0")
    scale = board.root.locator(".mlb-scale").bounding_box()
    assert scale is not None
    for tick in ticks.all()[1:]:
        number, unit = tick.inner_text().split()
        assert number.isdigit()
        time = float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
        box = tick.bounding_box()
        assert box is not None
        assert (box["x"] - scale["x"]) / scale["width"] == pytest.approx(time / explorer.time.estimate, abs=0.005)
        assert box["x"] + box["width"] <= scale["x"] + scale["width"]
    assert ticks.count() >= 3


def test_a_kernel_says_its_dims_and_its_line(open_board, explorer: Explorer) -> None:
    board = open_board()
    segment = lane(board, "compute").locator(".mlb-segment").first
    expect(segment).to_have_attribute("title", re.compile(r"^dot_general \[batch hidden\], .*, small\.py:\d+$"))
    segment.click()
    expect(detail(board)).to_contain_text("dot_general [batch hidden]")
    expect(detail(board).locator("code")).to_have_text(re.compile(r"^small\.py:\d+$"))


def test_a_click_on_a_segment_says_its_cause_and_remedy(open_board, explorer: Explorer) -> None:
    board = open_board()
    segment = lane(board, "model").locator(".mlb-segment").first
    segment.click()
    expect(segment).to_have_attribute("aria-pressed", "true")
    row = next(each for each in explorer.view()["collectives"]["rows"] if each["key"] == "model")
    expect(detail(board)).to_contain_text(f"{row['kind']} over model")
    expect(detail(board)).to_contain_text(row["because"].replace("`", ""))
    (remedy,) = next(c for c in explorer.plan.collectives if c.axes == ("model",)).remedies
    expect(detail(board)).to_contain_text(f"To remove it: {remedy.text.replace('`', '')}")
    expect(detail(board)).to_contain_text("small.py:")
    board.blank.shot("timeline", full=True)
    # Once more, and it is let go.
    segment.click()
    expect(segment).to_have_attribute("aria-pressed", "false")
    expect(detail(board)).to_contain_text("Click a segment")


def test_segments_are_chosen_by_keyboard(open_board, explorer: Explorer) -> None:
    board = open_board()
    segments = lane(board, "data").locator(".mlb-segment")
    segments.first.focus()
    board.keyboard.press("Enter")
    expect(segments.first).to_have_attribute("aria-pressed", "true")
    expect(segments.first).to_be_focused()
    expect(detail(board)).to_contain_text("over data")
    board.keyboard.press("ArrowRight")
    expect(segments.nth(1)).to_be_focused()
    board.keyboard.press("ArrowLeft")
    expect(segments.first).to_be_focused()


def test_it_follows_the_layout(open_board, explorer: Explorer) -> None:
    board = open_board()
    lane(board, "model").locator(".mlb-segment").first.click()
    explorer.load("batch:data")
    explorer.view()
    board.blank.poll()
    expect(lane(board, "model")).to_have_count(0)
    expect(detail(board)).to_contain_text("Click a segment")
    explorer.on(None)
    board.blank.poll()
    expect(board.root.locator(".mlb-step-time")).to_be_hidden()


def test_a_change_paints_the_lanes_once(open_board, explorer: Explorer) -> None:
    """They were painted with the costs, and again with what is selected; before each the whole page was laid out."""
    board = open_board()
    expect(lane(board, "compute")).to_be_visible()
    # All that is drawn of one change comes to an observer at once, with the revision.
    board.root.evaluate("""root => {
        window.painted = [];
        const scale = each => each.target.matches(".mlb-scale") && each.addedNodes.length > 0;
        new MutationObserver(all => {
            if (all.some(each => each.attributeName === "data-rev")) window.painted.push(all.filter(scale).length);
        }).observe(root, {subtree: true, childList: true, attributes: true, attributeFilter: ["data-rev"]});
    }""")
    explorer.load("batch:data")
    explorer.view()
    with board.next_revision():
        board.blank.poll()
    assert set(board.blank.view.evaluate("window.painted")) == {1}
    expect(lane(board, "data")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible(open_board, explorer: Explorer, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    board = open_board(theme=theme)
    lane(board, "model").locator(".mlb-segment").first.click()
    board.blank.view.add_script_tag(path=str(AXE))
    assert violations(board.blank.view) == []
