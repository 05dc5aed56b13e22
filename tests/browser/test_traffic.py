"""The table of collectives sorts, filters and opens, and the matrix of devices says what the plan sends."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.cost.machines.units import bytes_text
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, violations
from tests.widgets import small
from tests.widgets.printed import of_mixtral

LAYOUT = {"batch": "data", "ffn": "model", "params/*": {"embed": "data"}}


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


def transformer(**axes: int) -> Explorer:
    program = next(model for model in zoo.models() if model.name == "transformer").trace()
    return explore(program, ml.mesh(**axes), LAYOUT)


def column(panel: Locator, number: int) -> list[str]:
    """The texts of a column of the rows in sight, in order."""
    return panel.locator(f"tr[data-kind] > :nth-child({number})").filter(visible=True).all_inner_texts()


def test_columns_sort_both_ways_by_mouse_and_keyboard(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="traffic")
    panel = board.root
    rows = explorer.view()["collectives"]["rows"]
    head = panel.locator('th[data-column="total"]')
    expect(head).to_have_attribute("aria-sort", "descending")
    assert column(panel, 6) == [bytes_text(row["total"]) for row in rows]
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert column(panel, 6) == [bytes_text(n) for n in sorted(row["total"] for row in rows)]
    # What is of one execution, and what of all of a step, stands in the heads.
    heads = [
        panel.locator(f'th[data-column="{key}"]').inner_text().split("\n") for key in ("payload", "times", "total")
    ]
    assert heads == [["payload", "each time"], ["×", "a step"], ["sends", "in all"]]
    assert column(panel, 5) == [f"× {row['times']:,}" for row in sorted(rows, key=lambda row: row["total"])]
    other = panel.locator('th[data-column="value"]')
    other.get_by_role("button").focus()
    board.keyboard.press("Enter")
    expect(other).to_have_attribute("aria-sort", "ascending")
    expect(panel.locator("th[aria-sort]")).to_have_count(1)
    # The value, its dims, and the source line.
    values = [re.split(r" \[| \S+:\d+$", text.split("\n")[0])[0] for text in column(panel, 3)]
    assert values == sorted(row["value"] for row in rows)
    assert panel.locator(".mlb-collective-source").count() == sum(bool(row["source"]) for row in rows)
    # What another layout draws anew is sorted as before.
    explorer.load("hidden:data+model")
    board.blank.poll()
    expect(panel.locator('th[data-column="value"]')).to_have_attribute("aria-sort", "ascending")


def test_a_text_filters(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="traffic")
    find = board.root.get_by_label("filter the collectives")
    find.fill("model logits")
    expect(board.root.locator("tr[data-kind]").filter(visible=True)).to_have_count(1)
    expect(board.root.locator(".mlb-counted")).to_have_text("4 collectives. 1 of them match.")
    find.fill("nothing like it")
    expect(board.root.locator("tr[data-kind]").filter(visible=True)).to_have_count(0)
    find.fill("")
    expect(board.root.locator(".mlb-counted")).to_have_text("4 collectives.")


@pytest.mark.parametrize("by", ["fold", "row", "Enter"])
def test_a_row_opens_with_cause_remedy_and_line(open_board, explorer: Explorer, by: str) -> None:
    board: BlankBoard = open_board()
    row = board.show("traffic").locator('tr[data-axes="model"]').first
    fold, more = row.locator(".mlb-fold"), board.panel("traffic").locator(".mlb-collective-more:not([hidden])")
    expect(fold).to_have_attribute("aria-expanded", "false")
    if by == "Enter":
        row.focus()
        board.keyboard.press("Enter")
    else:
        (fold if by == "fold" else row.locator("b")).click()
    expect(fold).to_have_attribute("aria-expanded", "true")
    shown = next(each for each in explorer.view()["collectives"]["rows"] if each["key"] == "model")
    expect(more).to_have_count(1)
    expect(more).to_contain_text(shown["because"].replace("`", ""))
    expect(more).to_contain_text(f"each device sends {bytes_text(shown['wire'])}")
    expect(more.locator(".mlb-remedy-button")).to_have_count(1)
    expect(more.locator(".mlb-source")).to_contain_text("small.py:")
    expect(more).to_be_in_viewport()
    board.root.locator('.mlb-lane[data-lane="data"] .mlb-segment').first.click()
    expect(fold).to_have_attribute("aria-expanded", "false")
    expect(more).to_have_count(1)
    board.keyboard.press("Escape")
    expect(more).to_have_count(0)


def test_totals_have_wire_bytes_and_payload(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="traffic")
    sums = explorer.view()["communication"]
    for chart, key, rows in (("axes", "axis", sums["by_axis"]), ("kinds", "sum", sums["by_kind"])):
        for row in rows:
            name = row["key"] if chart == "axes" else row["kind"]
            values = board.root.locator(f'[data-chart="{chart}"] [data-{key}="{name}"] .mlb-bar-value')
            expect(values).to_have_text([bytes_text(row["bytes"]), bytes_text(row["payload"])])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_matrix_says_who_sends_to_whom(open_board, explorer: Explorer, theme: str) -> None:
    board: BlankBoard = open_board(panel="traffic", theme=theme)
    cells = board.root.locator(".mlb-cell")
    # Each device sends to its next neighbour over data, and over model.
    expect(cells).to_have_count(16)
    by_axis = {row["key"]: row["bytes"] for row in explorer.view()["communication"]["by_axis"]}
    first = board.root.locator('.mlb-cell[data-from="0"]')
    expect(first.locator("text")).to_have_text([bytes_text(by_axis["model"]), bytes_text(by_axis["data"])])
    title = f"device 0 to device 1: {bytes_text(by_axis['model'])} ({by_axis['model']:,} bytes) over model"
    assert first.first.locator("title").text_content() == title
    expect(board.root.locator(".mlb-matrix")).to_contain_text(
        f"Each row adds up to {bytes_text(sum(by_axis.values()))}"
    )
    label = board.root.locator('.mlb-cell-head[data-device="3"]')
    label.first.click()
    expect(label.first).to_have_attribute("aria-current", "true")
    expect(label).to_have_count(2)
    explorer.load("batch:data")
    board.blank.poll()
    expect(cells).to_have_count(8)
    board.blank.shot(f"matrix-{theme}", full=True)
    if AXE.exists():
        board.blank.view.add_script_tag(path=str(AXE))
        assert violations(board.blank.view) == []


def test_the_matrix_is_gone_through_by_keys(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(panel="traffic")
    matrix, cells = board.root.get_by_role("application"), board.root.locator(".mlb-cell")
    matrix.focus()
    for key, number in [("ArrowRight", 1), ("End", 15), ("Home", 0), ("ArrowDown", 2)]:
        board.keyboard.press(key)
        expect(board.root.locator(".mlb-cell[data-cursor]")).to_have_count(1)
        expect(cells.nth(number)).to_have_attribute("data-cursor", "")
    expect(board.root.locator(".mlb-cell[data-cursor] title")).to_have_text(re.compile("^device 1 to device 2: "))
    board.keyboard.press("Enter")
    expect(board.root.locator('.mlb-cell-head[data-device="1"]').first).to_have_attribute("aria-current", "true")
    assert explorer.selection.device == 1


def test_an_answer_draws_its_own_part_alone(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    board.show("traffic")
    expect(board.root.locator(".mlb-cell")).to_have_count(16)
    board.show("memory")
    explorer.load("batch:data")
    board.blank.poll()
    asked = "() => window.sent.filter(each => each.what === 'matrix').length"
    before = board.blank.view.evaluate(asked)
    board.root.evaluate(
        "root => { root.querySelector('[data-tab=traffic]').click();"
        " root.querySelector('[data-panel=traffic] h4').mine = true; }"
    )
    expect(board.root.locator(".mlb-cell")).to_have_count(8)
    assert board.blank.view.evaluate(asked) == before + 1
    assert board.root.locator('[data-panel="traffic"] h4').first.evaluate("head => head.mine") is True


@pytest.mark.parametrize(("axes", "cells"), [({"data": 4, "model": 4}, 32), ({"data": 8, "model": 8}, 128)])
def test_of_more_devices_squares_have_a_legend(open_board, axes: dict[str, int], cells: int) -> None:
    board: BlankBoard = open_board(transformer(**axes), panel="traffic")
    expect(board.root.locator(".mlb-cell")).to_have_count(cells)
    expect(board.root.locator(".mlb-legend li")).to_have_count(4)
    sides = board.root.locator(".mlb-cell").evaluate_all("all => all.map(each => each.getAttribute('width'))")
    assert len(set(sides)) == 2


def test_very_many_devices_are_blocks_of_axes(open_board) -> None:
    shown = transformer(data=4, model=4, rest=8)
    board: BlankBoard = open_board(shown, panel="traffic")
    blocks = board.root.locator("[data-block]")
    by_axis = {row["key"]: row["bytes"] for row in shown.view()["communication"]["by_axis"]}
    expect(blocks).to_have_count(len(by_axis))
    expect(board.root.locator(".mlb-cell")).to_have_count(0)
    for key, count in by_axis.items():
        expect(board.root.locator(f'[data-block="{key}"]')).to_contain_text(re.compile(r"32 groups of 4 devices"))
        expect(board.root.locator(f'[data-block="{key}"]')).to_contain_text(bytes_text(count))


@pytest.mark.parametrize("width", [480, 1112, 1280])
def test_causes_are_never_cut(open_board, width: int) -> None:
    """A cause had one line, with its end cut: "`experts` is needed whole, but it i…"."""
    board: BlankBoard = open_board(of_mixtral(), width=width, height=640)
    causes = board.show("traffic").locator(".mlb-collective:visible .mlb-collective-value > div")
    rows = of_mixtral().view()["collectives"]["rows"]
    assert causes.nth(1).inner_text() == rows[0]["because"].replace("`", "")
    hidden = """all => all.filter(each => each.scrollWidth > each.clientWidth + 1
        || each.getBoundingClientRect().right > each.parentElement.getBoundingClientRect().right + 1)
        .map(each => each.textContent)"""
    assert causes.count() == 24
    assert causes.evaluate_all(hidden) == []
    assert causes.evaluate_all("all => all.filter(each => getComputedStyle(each).whiteSpace !== 'normal').length") == 0
    board.blank.shot(f"traffic-causes-{width}")
