"""Memory over the steps, drawn by Plotly: phases, the limit, a zoom that stays, and what is alive at a moment."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from meshlab.cost.machines.units import bytes_text
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, violations
from tests.widgets import small
from tests.widgets.gates import Gate, costs_of

# Where a point of the first trace is on the screen.
PLACE = """(plot, point) => {
    const { xaxis, yaxis } = plot._fullLayout, box = plot.getBoundingClientRect(), [trace] = plot.data;
    return [box.left + xaxis._offset + xaxis.d2p(trace.x[point]), box.top + yaxis._offset + yaxis._length / 2];
}"""
RANGE = "plot => plot.layout.xaxis.range.map(Number)"


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


def chart_of(board: BlankBoard, name: str = "moments") -> Locator:
    """The chart's plot, when Plotly has drawn it."""
    chart = board.root.locator(f'[data-chart-of="{name}"]')
    expect(chart.locator(".main-svg").first).to_be_attached()
    return chart.locator(".mlb-plot")


def drag(board: BlankBoard, plot: Locator, begin: int, end: int) -> None:
    """Drags from one step to another, which enlarges what is between them."""
    plot.scroll_into_view_if_needed()
    mouse = board.blank.view.mouse
    (left, height), (right, _) = (plot.evaluate(PLACE, step) for step in (begin, end))
    mouse.move(left, height)
    mouse.down()
    mouse.move((left + right) / 2, height, steps=4)
    mouse.move(right, height, steps=4)
    mouse.up()


@pytest.mark.parametrize("by", ["click", "keys"])
def test_a_moment_says_what_is_alive_and_it_adds_up(open_board, explorer: Explorer, by: str) -> None:
    board: BlankBoard = open_board(panel="memory")
    plot, slider, alive = chart_of(board), board.root.get_by_role("slider"), board.root.locator(".mlb-alive-at")
    memory = explorer.plan.memory.donated
    peak = max(range(len(memory.timeline)), key=lambda step: memory.timeline[step].bytes)
    expect(slider).to_have_attribute("aria-valuenow", str(peak))
    expect(alive).to_have_attribute("data-step", str(peak))
    if by == "click":
        plot.scroll_into_view_if_needed()
        board.blank.view.mouse.move(*plot.evaluate(PLACE, 3))
        board.blank.view.mouse.move(*plot.evaluate(PLACE, 1), steps=3)
        # Of steps with the same bytes too, Plotly tells which one it points at.
        expect(plot.locator(".hoverlayer")).to_contain_text("operation 1,")
        board.blank.view.mouse.click(*plot.evaluate(PLACE, 1))
    else:
        slider.focus()
        board.keyboard.press("Home")
        expect(slider).to_have_attribute("aria-valuenow", "0")
        board.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuenow", "1")
    expect(alive).to_have_attribute("data-step", "1")
    expect(alive.locator("h4")).to_contain_text(f"live at operation 1, {memory.timeline[1].step}")
    assert plot.evaluate("plot => plot.data[1].x") == [1, 1]
    if by == "keys":
        expect(slider).to_be_focused()
    titles = alive.locator("li b").evaluate_all("all => all.map(each => each.title)")
    *values, whole = (int(title.removesuffix(" bytes").replace(",", "")) for title in titles)
    assert sum(values) == whole == memory.timeline[1].bytes
    names = alive.locator("li").all_inner_texts()
    assert any("params/w1" in name and "[rows 4 · cols 4 · hidden 4], parameters" in name for name in names)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_chart_has_axes_phases_and_the_limit(open_board, explorer: Explorer, theme: str) -> None:
    board: BlankBoard = open_board(panel="memory", theme=theme)
    plot = chart_of(board)
    assert plot.evaluate("plot => plot.data[0].y") == [
        int(point.bytes) for point in explorer.plan.memory.donated.timeline
    ]
    expect(plot.locator(".ytick text").first).to_have_text("0B")
    assert plot.locator(".ytick text").count() > 1
    assert plot.locator(".annotation-text").all_text_contents() == ["forward", "backward", "update"]
    limit = bytes_text(explorer.plan.memory.limit_bytes)
    expect(board.root.locator(".mlb-moments")).to_contain_text(f"Device memory, {limit}, is far above.")
    expect(board.root.locator(".mlb-alive-sum")).to_be_visible()
    assert (plot.get_attribute("aria-label") or "").startswith("memory of a device over ")
    board.blank.shot(f"moments-{theme}", full=True)
    if AXE.exists():
        board.blank.view.add_script_tag(path=str(AXE))
        assert violations(board.blank.view) == []


def test_a_chart_has_the_colours_of_the_theme_and_follows_it(open_board) -> None:
    board: BlankBoard = open_board(panel="memory", theme="dark")
    plot = chart_of(board)
    fill, variable = (
        "plot => plot.data[0].fillcolor",
        "root => getComputedStyle(root).getPropertyValue('--used').trim()",
    )
    dark = board.root.evaluate(variable)
    assert plot.evaluate(fill) == dark
    board.blank.view.emulate_media(color_scheme="light")
    expect(board.root).to_have_attribute("data-theme", "light")
    light = board.root.evaluate(variable)
    assert light != dark
    board.blank.view.wait_for_function(
        "colour => document.querySelector('.mlb-plot').data[0].fillcolor === colour", arg=light
    )


def shown(board: BlankBoard, condition: str, wanted: list[float]) -> None:
    """Waits until the chart's range along x is as wanted: Plotly draws behind a click, not with it."""
    range_ = "document.querySelector('[data-chart-of=moments] .mlb-plot').layout.xaxis.range.map(Number)"
    board.blank.view.wait_for_function(f"wanted => {{ const range = {range_}; return {condition}; }}", arg=wanted)


NEAR = "range.every((end, i) => Math.abs(end - wanted[i]) < 0.3)"
SAME = "String(range) === String(wanted)"


def test_a_zoom_stays_while_the_data_do(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(height=1100)
    board.show("memory")
    plot = chart_of(board)
    whole = plot.evaluate(RANGE)
    drag(board, plot, 4, 10)
    shown(board, NEAR, [4, 10])
    zoomed = plot.evaluate(RANGE)
    slider = board.root.get_by_role("slider")
    slider.focus()
    board.keyboard.press("ArrowLeft")
    expect(board.root.locator(".mlb-alive-at")).to_have_attribute(
        "data-step", slider.get_attribute("aria-valuenow") or ""
    )
    board.show("time")
    board.show("memory")
    shown(board, SAME, zoomed)
    board.root.get_by_role("button", name="fit the whole chart").click()
    shown(board, SAME, whole)
    board.root.get_by_role("button", name="enlarge the chart").click()
    shown(board, "Math.abs((range[1] - range[0]) / (wanted[1] - wanted[0]) - 0.5) < 1e-6", whole)
    # Other data are shown whole.
    explorer.load("hidden:model")
    board.blank.poll()
    first = [int(explorer.plan.memory.donated.timeline[0].bytes)]
    board.blank.view.wait_for_function(
        "first => document.querySelector('[data-chart-of=moments] .mlb-plot').data[0].y[0] === first[0]", arg=first
    )
    assert plot.evaluate(RANGE) == [0, len(explorer.plan.memory.donated.timeline) - 1]


def test_the_page_scrolls_over_a_chart(open_board) -> None:
    board: BlankBoard = open_board(panel="memory", height=500)
    plot = chart_of(board)
    plot.scroll_into_view_if_needed()
    before, top = plot.evaluate(RANGE), board.blank.view.evaluate("scrollY")
    plot.hover()
    board.blank.view.mouse.wheel(0, -120 if top else 120)
    board.blank.view.wait_for_function("top => scrollY !== top", arg=top)
    assert plot.evaluate(RANGE) == before


def test_while_costs_are_worked_out_the_last_charts_stay(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    board: BlankBoard = open_board()
    board.show("memory")
    figure, alive = board.root.locator(".mlb-moments"), board.root.locator(".mlb-alive-at")
    chart_of(board)
    expect(alive).to_have_attribute("data-fresh", "true")
    before = alive.inner_text()
    gate, there = Gate(monkeypatch, explorer.costs), costs_of(explorer)
    explorer.load("batch:data")
    board.blank.poll()
    board.blank.catch_up()
    expect(board.panel("memory")).to_have_attribute("aria-busy", "true")
    expect(figure).to_have_attribute("data-fresh", "false")
    expect(figure.locator(".main-svg").first).to_be_visible()
    assert alive.inner_text() == before
    gate.open.set()
    assert there.wait(60)
    board.blank.poll()
    for each in (figure, alive):
        expect(each).to_have_attribute("data-fresh", "true")
    expect(board.panel("memory")).to_have_attribute("aria-busy", "false")
    plot = chart_of(board)
    assert plot.evaluate("plot => plot.data[0].y") == [
        int(point.bytes) for point in explorer.plan.memory.donated.timeline
    ]


def test_the_layout_beside_has_the_curve_that_is_its_own(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="memory", height=1400)
    drawn = '[data-beside="other"] .mlb-plot'
    for layout in ("hidden:model", "batch:data"):
        explorer.beside(layout)
        board.blank.poll()
        bytes_ = [
            int(point.bytes) for point in explorer.plan.program.plan(explorer.plan.mesh, layout).memory.donated.timeline
        ]
        board.blank.view.wait_for_function(
            "([drawn, bytes]) => String(document.querySelector(drawn)?.data?.[0].y) === String(bytes)",
            arg=[drawn, bytes_],
        )
