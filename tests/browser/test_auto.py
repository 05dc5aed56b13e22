"""Auto in Compare: how far a search is, what it has met, the way from yours to its layout, and each decision otherwise.

The searches are real; where one has to go on for as long as a test looks at it, it is held.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.auto import choice as choice_module
from meshlab.cost.machines.units import bytes_text, seconds_text
from meshlab.widgets.background.reasons import MET, REGRETS, WAY
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.held_search import Held
from tests.browser.test_board import AXE
from tests.widgets.grown import MANUAL, opened, tied


@pytest.fixture
def explorer() -> Explorer:
    return opened()


def found(explorer: Explorer) -> ml.auto.Choice:
    """Searches for the fastest, and works out all that the page asks for."""
    choice = explorer.auto("time")
    for what, about in ((MET, ()), (REGRETS, ()), (WAY, (explorer.layout,))):
        explorer.reasons.of(what, *about)
    explorer.view()
    return choice


def compared(board: BlankBoard, reason: str = "") -> Locator:
    """Shows Compare, and one of the views of what was found."""
    panel = board.show("compare")
    if reason:
        panel.locator(f'[data-reason="{reason}"]').click()
    return panel


def followed(board: BlankBoard, act: Callable[[], object]) -> None:
    """Does something that something follows from in the background, and waits for that."""
    there = threading.Event()
    stop = board.blank.explorer.subscribe(lambda what: there.set() if what == "search" else None)
    act()
    board.blank.poll()
    assert there.wait(60)
    stop()
    board.blank.poll()


def test_auto_is_a_button_beside_the_presets_and_tells_how_far_it_is(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    board = open_board()
    board.root.locator(".mlb-auto").click()
    panel = board.panel("compare")
    expect(panel).to_be_visible()
    assert held.told.wait(60)
    board.blank.poll()
    estimate = explorer.program.plan(explorer.mesh, "batch:a+b").time.estimate
    bar = panel.get_by_role("progressbar")
    expect(bar).to_have_attribute("aria-valuenow", "50.0")
    said = f"{seconds_text(estimate)}; gap 50%; 12 plans, 250 ms"
    expect(bar).to_have_attribute("aria-valuetext", said)
    expect(panel.locator(".mlb-sought")).to_contain_text(f"at least {seconds_text(0.5 * estimate)}")
    # Progress replaces no button: a press that has begun ends on the same one.
    take = panel.get_by_role("button", name="put the best layout so far on the board").element_handle()
    held.more.set()
    assert held.further.wait(60)
    board.blank.poll()
    expect(bar).to_have_attribute("aria-valuenow", "80.0")
    expect(panel.locator(".mlb-sought")).to_contain_text("gap 20% · 1,234 plans, 500 ms")
    assert take.evaluate("button => button.isConnected")
    filled = panel.locator(".mlb-bracket-proved").bounding_box()
    whole = bar.bounding_box()
    assert filled is not None
    assert whole is not None
    assert filled["width"] / whole["width"] == pytest.approx(0.8, abs=0.02)
    board.blank.shot("auto-searching", full=True)
    with board.next_revision():
        take.click()
    assert board.layout == "batch:a+b"
    expect(panel).to_contain_text("Searching for the fastest that fits …")
    held.end()
    board.blank.poll()
    expect(panel).to_contain_text("✓ The fastest that fits:")


def test_a_search_is_cancelled_and_the_best_so_far_stays(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    board = open_board()
    panel = compared(board)
    panel.locator('[data-auto="time"]').focus()
    board.keyboard.press("Enter")
    assert held.told.wait(60)
    board.blank.poll()
    expect(panel).to_be_focused()  # the button is gone, and Escape is heard here
    board.keyboard.press("Escape")
    expect(panel).to_contain_text("The search for the fastest that fits was cancelled.")
    expect(panel.get_by_role("progressbar")).to_have_count(0)
    with board.next_revision():
        panel.locator('[data-take="best"]').click()
    assert board.layout == "batch:a+b"
    held.end()


def test_what_was_proved_is_said_in_a_line_and_the_layout_is_taken(open_board, explorer: Explorer) -> None:
    choice = found(explorer)
    board = open_board()
    panel = compared(board)
    line = panel.locator(".mlb-sought-head")
    expect(line).to_contain_text(f"✓ The fastest that fits: {seconds_text(choice.proof.value)}")
    expect(line.locator("code")).to_have_text(str(choice.layout))
    plans = f"{choice.proof.plans:,} plans"
    expect(panel.locator(".mlb-bracket-said")).to_contain_text(plans)
    expect(panel.locator(".mlb-searched")).to_contain_text("mesh axes for each dim")
    expect(panel.locator(".mlb-searched")).to_contain_text("Not searched: rules in scopes")
    panel.get_by_text("The proof").click()
    expect(panel.locator(".mlb-proof")).to_contain_text("branch and bound by plan.time")
    with board.next_revision():
        panel.locator('[data-take="best"]').click()
    assert board.layout == str(choice.layout)
    expect(line).to_contain_text("✓ on the board")
    expect(panel.locator(".mlb-card-now")).to_contain_text("Auto (time)")


def test_layouts_that_are_as_good_are_told_as_such(open_board) -> None:
    explorer = tied()
    choice = found(explorer)
    board = open_board(explorer)
    panel = compared(board)
    panel.get_by_text(f"{len(choice.proof.ties)} as good, within 0.5%").click()
    rows = panel.locator(".mlb-ties li code")
    assert rows.all_inner_texts() == [str(tie) for tie in choice.proof.ties]
    with board.next_revision():
        panel.locator(".mlb-ties [data-take]").nth(1).click()
    assert board.layout == str(choice.proof.ties[1])


def test_what_the_search_has_met_are_crosses_that_can_be_looked_at_and_taken(open_board, explorer: Explorer) -> None:
    found(explorer)
    met = explorer.reasons.of(MET)
    board = open_board()
    panel = compared(board)
    tried = {str(each.document.layout) for each in explorer.tried}
    others = [each for each in met.layouts if str(each.layout) not in tried]
    crosses = panel.locator(".mlb-scatter-box [data-met]")
    expect(crosses).to_have_count(len(others))
    expect(crosses.first.locator("path")).to_have_count(1)
    expect(panel.locator(".mlb-scatter-box [data-dot] path, .mlb-scatter-box [data-dot] circle")).to_have_count(2)
    expect(panel.locator(".mlb-scatter-key")).to_contain_text(f"{met.count} evaluated by the search")
    # By keyboard: the fastest first, each said; Enter takes it.
    slider = panel.get_by_role("slider")
    slider.focus()
    board.keyboard.press("ArrowRight")
    board.keyboard.press("ArrowRight")
    board.keyboard.press("ArrowLeft")
    expect(slider).to_be_focused()
    said = f"{seconds_text(others[0].seconds)}, peak {bytes_text(others[0].peak_bytes)}"
    expect(slider).to_have_attribute("aria-valuetext", re.compile(re.escape(f"{others[0].layout}: {said}")))
    expect(panel.locator(".mlb-looked")).to_contain_text(said)
    with board.next_revision():
        board.keyboard.press("Enter")
    assert board.layout == str(others[0].layout)
    # By mouse: a click looks at it, a button takes it. What is on the board is a dot by now.
    expect(crosses).to_have_count(len(others) - 1)
    last = others[-1]
    crosses.last.click()
    expect(panel.locator(".mlb-looked code")).to_have_text(str(last.layout) or "nothing sharded")
    board.blank.shot("auto-met", full=True)
    with board.next_revision():
        panel.locator(".mlb-looked [data-take]").click()
    assert board.layout == str(last.layout)


def test_the_front_is_of_what_was_tried_and_met(open_board, explorer: Explorer) -> None:
    found(explorer)
    points = {(each.seconds, each.peak_bytes) for each in explorer.reasons.of(MET).layouts}
    front = [p for p in points if not any(q[0] <= p[0] and q[1] <= p[1] for q in points - {p})]
    board = open_board()
    panel = compared(board)
    path = panel.locator(".mlb-scatter-front").get_attribute("d") or ""
    assert path.count("H") + 1 == len(front)
    label = panel.locator(".mlb-scatter svg[role=img]").get_attribute("aria-label") or ""
    assert "On the Pareto front:" in label


def opened_way(open_board, explorer: Explorer) -> tuple[Any, BlankBoard, Locator]:
    """The way to Auto's layout, a board that shows it, and its rows."""
    way, board = found(explorer).waterfall(explorer.layout), open_board()
    rows = compared(board, "way").locator(".mlb-way tbody tr")
    expect(rows).to_have_count(len(way.steps))
    return way, board, rows


def test_the_way_there_stays_once_autos_layout_is_on_the_board(open_board, explorer: Explorer) -> None:
    way, board, rows = opened_way(open_board, explorer)
    panel = board.panel("compare")
    panel.get_by_role("button", name="put this layout on the board").click()
    expect(panel.locator(".mlb-sought-head")).to_contain_text("✓ on the board")
    expect(rows).to_have_count(len(way.steps))
    expect(rows.last).to_contain_text("✓ on the board")
    expect(panel.locator(".mlb-rank")).to_contain_text("start, the layout before: ")
    board.blank.shot("auto-taken", full=True)
    panel.get_by_role("button", name="← Back to start").click()
    expect(rows.first).to_contain_text("✓ on the board")
    assert board.layout == MANUAL
    # The first step of the way leads back as well.
    rows.last.get_by_role("button").click()
    expect(rows.last).to_contain_text("✓ on the board")
    rows.first.get_by_role("button").click()
    expect(rows.first).to_contain_text("✓ on the board")


def test_the_way_is_gone_step_by_step(open_board, explorer: Explorer) -> None:
    way, board, rows = opened_way(open_board, explorer)
    panel, choice = board.panel("compare"), explorer.choice
    assert choice is not None
    expect(panel.locator(".mlb-rank")).to_contain_text(str(choice.rank(explorer.layout)))
    assert len(way.steps) > 2
    for row, step in zip(rows.all(), way.steps, strict=True):
        expect(row.locator(".mlb-way-name")).to_have_text(step.change)
        expect(row).to_contain_text(seconds_text(step.seconds))
        expect(row).to_contain_text(bytes_text(step.wire_bytes))
    expect(rows.first).to_contain_text(board.total("peak").locator(".mlb-total-value").inner_text())
    board.blank.shot("auto-way", full=True)
    # By mouse up to the first change, by keyboard all the way; the way follows the board.
    followed(board, lambda: rows.nth(1).get_by_role("button").click())
    assert board.layout == str(way.steps[1].layout)
    expect(rows).to_have_count(len(choice.waterfall(way.steps[1].layout).steps))
    expect(rows.first).to_contain_text("yours")
    rows.last.get_by_role("button", name="change your layout up to here").focus()
    board.keyboard.press("Enter")
    expect(rows.last).to_contain_text("✓ on the board")
    assert board.layout == str(choice.layout)


def test_decisions_otherwise_are_brackets_and_are_searched_for_on_demand(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = found(explorer)
    regrets, gate, real = choice.regrets, threading.Event(), choice_module.exact_regrets

    def held(search: Any, chosen: Any, limits: Any, progress: Any) -> Any:
        def told(regrets: Any) -> None:
            progress(regrets)
            assert gate.wait(60)

        return real(search, chosen, limits, told)

    monkeypatch.setattr(choice_module, "exact_regrets", held)
    board = open_board()
    panel = compared(board, "regrets")
    rows = panel.locator("[data-regret]")
    assert rows.evaluate_all("rows => rows.map(row => row.dataset.regret)") == [
        regret.change.replace("`", "") for regret in regrets
    ]
    for line in str(choice.binding).splitlines():
        expect(panel.locator(".mlb-binds")).to_contain_text(line.replace("`", ""))
    first_told = threading.Event()
    stop = explorer.subscribe(
        lambda what: first_told.set() if (search := explorer.regrets.last) and search.regrets else None
    )
    board.button("exact_regrets").click()
    assert first_told.wait(60)
    stop()
    board.blank.poll()
    expect(panel).to_contain_text(f"1 of {len(regrets)} searched for")
    expect(panel.get_by_role("progressbar")).to_be_visible()
    expect(panel).to_have_attribute("aria-busy", "true")
    board.blank.shot("auto-exact", full=True)
    panel.focus()
    board.keyboard.press("Escape")
    board.blank.poll()
    expect(panel).to_contain_text(f"Cancelled: 1 of {len(regrets)} searched for.")
    gate.set()
    ended = threading.Event()
    stop = explorer.subscribe(
        lambda what: ended.set() if (search := explorer.regrets.last) and search.phase == "found" else None
    )
    board.button("exact_regrets").click()
    assert ended.wait(60)
    stop()
    board.blank.poll()
    expect(panel).to_contain_text("Each was searched for, with all else optimised again.")
    expect(rows.locator("small", has_text="searched for")).to_have_count(len(regrets))
    with board.next_revision():
        rows.first.get_by_role("button").click()
    exact = choice.exact_regrets()
    assert board.layout == str(exact[0].layout)
    assert explorer.tried.all[-1].name == exact[0].change.replace("`", "")


def test_what_was_found_for_another_machine_is_marked_and_cannot_be_taken(open_board, explorer: Explorer) -> None:
    found(explorer)
    board = open_board()
    panel = compared(board, "way")
    explorer.on("v5e:2x4")
    explorer.view()
    board.blank.poll()
    expect(panel).to_contain_text("⚠ The machine has changed since: search again.")
    expect(panel.locator('[data-take="best"], [data-reason], .mlb-way')).to_have_count(0)
    expect(panel.locator("[data-met]")).to_have_count(0)
    board.blank.shot("auto-outdated", full=True)
    explorer.undo()
    board.blank.poll()
    expect(panel).not_to_contain_text("⚠")
    expect(panel.locator(".mlb-way tbody tr").first).to_be_visible()


def test_pins_are_said_before_and_after_the_search(open_board, explorer: Explorer) -> None:
    explorer.pin("batch", "a")
    board = open_board()
    panel = compared(board)
    keeps = panel.get_by_role("group", name="what searches keep to")
    expect(keeps).to_contain_text("batch on a")
    choice = found(explorer)
    board.blank.poll()
    # What it kept to stands above, and is not said twice.
    expect(panel.locator(".mlb-sought-head")).to_contain_text("✓ The fastest that fits")
    expect(panel.locator(".mlb-kept-said")).to_have_count(0)
    expect(keeps).to_contain_text("batch on a")
    assert "a" in choice.layout.rules["batch"]
    explorer.unpin("batch")
    explorer.pin("ffn")
    board.blank.poll()
    expect(keeps).to_contain_text("ffn whole")
    expect(keeps).not_to_contain_text("batch on a")
    expect(panel.locator(".mlb-sought .mlb-kept-said")).to_have_text("with batch on a")


@pytest.mark.parametrize(("width", "theme"), [(600, "light"), (1112, "dark")])
def test_it_reads_well_and_is_accessible(open_board, theme: str, width: int) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    explorer = tied()
    explorer.load("io:a hidden_odd:b")
    found(explorer)
    explorer.view()
    board = open_board(explorer, theme=theme, width=width)
    panel = compared(board)
    panel.get_by_text("as good, within").click()
    board.blank.view.add_script_tag(path=str(AXE))
    for reason in ("layouts", "way", "regrets"):
        compared(board, reason)
        expect(panel.locator(".mlb-reading")).to_have_count(0)
        assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth")
        cut = panel.locator("td, thead th, [data-take], [data-reason]").evaluate_all(
            "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.innerText)"
        )
        assert cut == []
        problems = panel.evaluate("async panel => (await axe.run(panel)).violations")
        assert [(each["id"], node["html"]) for each in problems for node in each["nodes"]] == []
        board.blank.shot(f"auto-{reason}-{theme}-{width}", full=True)
