"""Totals and the status line: the result first, against one baseline that is named, and nothing old shown as new."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.cost.machines.units import bytes_text, seconds_text
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.searches import Searches
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY
from tests.widgets import small
from tests.widgets.gates import Gate, Gates


@pytest.fixture
def explorer() -> Explorer:
    shown = explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data")
    shown.view()
    return shown


def changes(board: BlankBoard) -> list[str]:
    return board.root.locator(".mlb-total .mlb-change").all_inner_texts()


def test_all_changes_are_against_the_baseline_that_is_named(open_board, explorer: Explorer) -> None:
    """B32: after Reset they were against the last layout, elsewhere against "start", below against another."""
    board: BlankBoard = open_board()
    assert changes(board) == []
    sent = [explorer.plan.wire_bytes]
    for dim, axis in (("hidden", "model"), ("batch", TRAY)):
        with board.next_revision():
            board.drag(dim, axis)
        sent.append(explorer.plan.wire_bytes)
    explorer.view()
    board.blank.poll()
    less = bytes_text(sent[0] - sent[2])
    expect(board.total("sends").locator(".mlb-change")).to_have_text(f"▼ −{less}")
    expect(board.status).to_contain_text(f"sent (−{less})")
    assert board.status.inner_text().count("against start") == 1
    # The layout before is chosen by name, and the status line follows.
    choice = board.root.get_by_label("compared with")
    with board.next_revision():
        choice.select_option(label="DP & TP")
    expect(board.status).to_have_text("All layouts are compared with DP & TP.")
    expect(board.total("sends").locator(".mlb-change")).to_have_text(f"▼ −{bytes_text(sent[1] - sent[2])}")
    with board.next_revision():
        board.button("reset").click()
    explorer.view()
    board.blank.poll()
    expect(choice.locator("option:checked")).to_have_text("DP & TP")
    by = sent[0] - sent[1]
    change = f"▲ +{bytes_text(by)}" if by > 0 else f"▼ −{bytes_text(-by)}"
    expect(board.total("sends").locator(".mlb-change")).to_have_text(change)
    # More is sent for less work: that is its price, neither good nor bad.
    expect(board.total("sends").locator(".mlb-change")).to_have_class(f"mlb-change mlb-{'cost' if by > 0 else 'less'}")
    expect(board.status).to_contain_text(f"sent ({change[2:]}")
    with board.next_revision():
        choice.select_option("start")
    expect(board.root.locator(".mlb-total .mlb-change")).to_have_count(0)


def test_the_status_line_says_the_result_first_and_shortens_a_long_layout(open_board) -> None:
    """B10: it printed the whole layout and never came to the time."""
    shown = explore("transformer_adamw", ml.mesh("v5p", data=2, model=4))
    shown.view()
    board: BlankBoard = open_board(shown, width=1112)
    with board.next_revision():
        board.root.locator('[data-preset="fsdp"]').click()
    shown.view()
    board.blank.poll()
    estimate = seconds_text(float(shown.time.estimate))
    expect(board.status).to_have_text(re.compile(f"^{re.escape(estimate)} a step"))
    text = str(shown.layout)
    said = board.status.get_by_role("button")
    expect(said).to_have_text("FSDP over data")
    assert len(text) > 60
    # All of it is there, without scrolling, and the layout as well for whoever asks.
    assert board.status.evaluate("line => line.scrollHeight <= line.clientHeight")
    for ask in (said.hover, board.status.get_by_role("button").focus):
        ask()
        expect(board.root.locator(".mlb-hint")).to_have_text(text)
        board.keyboard.press("Escape")
    # One without a name is shortened, by whole rules.
    with board.next_revision():
        board.drag("embed", "model")
    shown.view()
    board.blank.poll()
    said = board.status.locator("code")
    expect(said).to_have_text(re.compile(r"^batch:data .*… .*"))
    text = str(shown.layout)
    assert len(said.inner_text()) < 60 < len(text)
    assert text.startswith(said.inner_text().split(" …")[0])
    assert text.endswith(said.inner_text().split("… ")[1])


def test_what_published_steps_took_stands_beside_the_estimate(open_board, explorer: Explorer) -> None:
    board = open_board()
    expected, factor = explorer.time.expected, explorer.time.factor
    assert expected is not None
    assert factor is not None
    total = board.total("expected")
    expect(total.locator(".mlb-total-value")).to_have_text(seconds_text(float(expected)))
    expect(total).to_contain_text(" to ")
    total.get_by_role("button", name="a step, calibrated").focus()
    expect(board.root.locator(".mlb-hint")).to_contain_text(f"{factor.factor:g} times the estimate")
    with board.next_revision():
        board.root.get_by_label("machine", exact=True).select_option("")
    expect(board.total("expected")).to_have_count(0)


def test_totals_of_the_layout_before_are_not_shown_as_new(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B29: "step 56.5 s" stood there as if it were the new layout's, and so did the timeline."""
    board: BlankBoard = open_board()
    gate = Gate(monkeypatch, explorer.costs)
    old = {key: board.total(key).locator(".mlb-total-value").inner_text() for key in ("step", "peak", "expected")}
    with board.next_revision():
        board.drag("hidden", "model")
    for key, text in old.items():
        expect(board.total(key)).to_contain_text("being worked out")
        expect(board.total(key).locator(".mlb-total-value")).to_have_text(f"{text} …")
        expect(board.total(key).locator(".mlb-change")).to_have_count(0)
    expect(board.status).to_contain_text("the step is being worked out …")
    # What follows from the plan is new at once.
    sent = bytes_text(explorer.plan.wire_bytes)
    expect(board.total("sends").locator(".mlb-total-value")).to_have_text(sent)
    opacity = "lanes => Number(getComputedStyle(lanes).opacity)"
    assert board.root.locator(".mlb-lane[data-lane]").first.evaluate(opacity) < 1
    gate.open.set()
    explorer.view()
    board.blank.poll()
    for key in old:
        expect(board.total(key)).not_to_contain_text("…")
    assert board.root.locator(".mlb-lane[data-lane]").first.evaluate(opacity) == 1


def test_nothing_is_the_best_while_another_is_worked_out(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B33: "★ best" on 391 GB beside a layout whose step was not known."""
    explorer.load("hidden:model")
    explorer.view()
    board: BlankBoard = open_board()
    panel = board.show("compare")
    steps = panel.locator('td[data-total="step"]')
    expect(steps.locator(".mlb-best")).to_have_count(1)
    gate = Gate(monkeypatch, explorer.costs)
    with board.next_revision():
        board.drag("batch", "data")
    expect(steps.filter(has_text="…")).to_have_count(1)
    expect(steps.locator(".mlb-best")).to_have_count(0)
    gate.open.set()
    explorer.view()
    board.blank.poll()
    expect(steps.locator(".mlb-best")).to_have_count(1)


def test_a_search_that_has_ended_is_not_said_to_have_begun(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B33: one that is over before it is answered left "The search … begins" there."""
    Gates(monkeypatch).open["traffic"].set()
    monkeypatch.setattr(Searches, "start", lambda self, objective: self._quietly(self.begin(objective)))
    board: BlankBoard = open_board()
    board.show("compare").locator('[data-auto="traffic"]').first.click()
    expect(board.status).to_contain_text("The search for the least traffic has ended")
