"""Memory over the steps: an axis with its limit and phases, and what is alive at the moment that is chosen."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from meshlab.cost.machines.units import bytes_text
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, violations
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


@pytest.mark.parametrize("by", ["click", "keys"])
def test_a_moment_says_what_is_alive_and_it_adds_up(open_board, explorer: Explorer, by: str) -> None:
    board: BlankBoard = open_board(panel="memory")
    plot, alive = board.root.get_by_role("slider"), board.root.locator(".mlb-alive-at")
    points, memory = explorer.view()["peak_memory"]["timeline"], explorer.plan.memory
    peak = max(points, key=lambda point: point["bytes"])
    expect(plot).to_have_attribute("aria-valuenow", str(peak["at"]))
    expect(alive).to_have_attribute("data-step", str(peak["at"]))
    if by == "click":
        box = plot.bounding_box()
        assert box is not None
        plot.click(position={"x": box["width"] * 1.5 / len(points), "y": 20})
    else:
        plot.focus()
        board.keyboard.press("Home")
        expect(plot).to_have_attribute("aria-valuenow", str(points[0]["at"]))
        board.keyboard.press("ArrowRight")
    at = points[1]["at"]
    expect(plot).to_have_attribute("aria-valuenow", str(at))
    expect(alive).to_have_attribute("data-step", str(at))
    expect(alive.locator("h4")).to_contain_text(f"alive in step {at}, {memory.timeline[at].step}")
    if by == "keys":
        expect(plot).to_be_focused()
    titles = alive.locator("li b").evaluate_all("all => all.map(each => each.title)")
    *values, whole = (int(title.removesuffix(" bytes").replace(",", "")) for title in titles)
    assert sum(values) == whole == memory.timeline[at].bytes
    names = alive.locator("li").all_inner_texts()
    assert any("params/w1" in name and "[rows 4 · cols 4 · hidden 4], parameters" in name for name in names)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_axis_has_ticks_phases_and_the_limit(open_board, explorer: Explorer, theme: str) -> None:
    board: BlankBoard = open_board(panel="memory", theme=theme)
    moments = board.root.locator(".mlb-moments")
    assert moments.locator(".mlb-tick").first.text_content() == "0 B"
    assert moments.locator(".mlb-tick").count() > 1
    phases = [phase["name"] for phase in explorer.view()["peak_memory"]["phases"]]
    assert moments.locator(".mlb-phase").all_text_contents() == phases
    limit = bytes_text(explorer.plan.memory.limit_bytes)
    expect(moments).to_contain_text(f"The limit, {limit}, is far above.")
    expect(board.root.locator(".mlb-alive-sum")).to_be_visible()
    board.blank.shot(f"moments-{theme}", full=True)
    if AXE.exists():
        board.blank.view.add_script_tag(path=str(AXE))
        assert violations(board.blank.view) == []
