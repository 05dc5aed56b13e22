"""Traffic: the plan beside what XLA's own partitioner makes of its shardings."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.cost.machines.units import bytes_text, seconds_text
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, violations
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


def asked(board: BlankBoard) -> Locator:
    """Presses the button; returns the panel."""
    panel = board.show("traffic")
    panel.locator('[data-op="xla"]').click()
    return panel


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_line_by_line(open_board, explorer: Explorer, theme: str) -> None:
    explorer.load({"batch": "data", "hidden": "model", "params/*": {"rows": "data"}})
    board = open_board(theme=theme)
    panel = asked(board)
    expect(panel.get_by_role("progressbar", name="compiling")).to_be_visible()
    beside = explorer.xla().beside
    board.blank.poll()
    table = panel.get_by_role("table", name="the plan beside XLA's program")
    expect(table).to_be_visible()
    table.scroll_into_view_if_needed()
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(len(beside.rows) + 3)
    assert {row.is_equal for row in beside.rows} == {True, False}
    for row, known in zip(rows.all(), beside.rows, strict=False):
        expect(row).to_have_attribute("data-same", str(known.is_equal).lower())
        expect(row).to_contain_text(known.source)
        expect(row.locator(".mlb-number").last).to_have_attribute("title", f"{round(known.inserted):,} bytes")
    expect(table.locator("[data-total]")).to_contain_text(bytes_text(beside.inserted))
    assert beside.planned_peak is not None
    assert beside.inserted_peak is not None
    peaks = rows.nth(len(beside.rows) + 1).locator(".mlb-number")
    expect(peaks).to_have_text([bytes_text(beside.planned_peak), bytes_text(beside.inserted_peak)])
    assert beside.inserted_step is not None
    expect(rows.last).to_contain_text(f"to {seconds_text(beside.inserted_step.upper)}")
    board.blank.shot(f"xla-{theme}", full=True)
    if AXE.exists():
        board.blank.view.add_script_tag(path=str(AXE))
        assert violations(board.blank.view) == []
    # Of another layout nothing was compiled; of the one before it is known.
    assert explorer.remove("batch")
    board.blank.poll()
    expect(table).to_be_hidden()
    explorer.undo()
    board.blank.poll()
    expect(table).to_be_visible()


def test_what_xla_does_not_take_is_said(open_board, explorer: Explorer) -> None:
    explorer.pad(True)
    assert explorer.remove("hidden")
    assert explorer.place("classes", "model")
    board = open_board()
    panel = asked(board)
    with pytest.raises(ml.MeshlabError, match="takes no uneven shards"):
        explorer.xla()
    board.blank.poll()
    expect(panel.get_by_role("alert")).to_contain_text("takes no uneven shards")
    expect(panel.locator('[data-op="xla"]')).to_be_visible()


def test_cancel(open_board, explorer: Explorer) -> None:
    board = open_board()
    panel = asked(board)
    panel.locator('[data-op="cancel_xla"]').click()
    expect(panel.locator('[data-op="xla"]')).to_be_visible()
    expect(panel.locator(".mlb-xla")).to_have_count(0)


def test_the_program(open_board, explorer: Explorer) -> None:
    """Program shows XLA's instead of the plan's: what it sends stands under its lines, with the reason."""
    explorer.load({"batch": "data", "hidden": "model", "params/*": {"rows": "data"}})
    board = open_board(height=2000)
    panel = board.show("program")
    panel.get_by_role("combobox", name="steps to show").select_option("collectives")
    plan = panel.locator(".mlb-row-collective")
    expect(plan.first).to_have_attribute("data-collective", re.compile("."))
    switch = panel.get_by_role("combobox", name="whose program")
    switch.select_option("XLA's program")
    panel.locator('[data-op="xla"]').click()
    expect(panel.get_by_role("progressbar", name="compiling")).to_be_visible()
    report = explorer.xla()
    board.blank.poll()
    rows = panel.locator(".mlb-row-collective")
    expect(rows.first).to_be_visible()
    expect(panel.locator(".mlb-row-collective[data-collective]")).to_have_count(0)
    said = {c.because.replace("`", "") for c in report.collectives}
    texts = rows.evaluate_all("rows => rows.map(row => row.innerText)")  # at once: which are in sight may change
    assert texts
    for text in texts:
        assert any(because in text for because in said), text
    rows.first.click()
    detail = panel.locator(".mlb-program-detail")
    expect(detail).to_contain_text("payload")
    expect(detail).to_contain_text("Started by")
    board.blank.shot("xla-program", full=True)
    if AXE.exists():
        board.blank.view.add_script_tag(path=str(AXE))
        assert violations(board.blank.view) == []
    switch.select_option("the plan")
    expect(plan.first).to_have_attribute("data-collective", re.compile("."))
    # Of another layout nothing was compiled.
    switch.select_option("XLA's program")
    assert explorer.remove("batch")
    board.blank.poll()
    expect(panel.locator('[data-op="xla"]')).to_be_visible()
    expect(rows).to_have_count(0)
