"""What searches keep to, on the board: fields and rules in Compare, marks on zones and axes, menus and keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.background.reasons import WAY
from meshlab.widgets.explorer import Explorer
from tests.auto.best_first.programs import grown
from tests.browser.blank import BlankBoard
from tests.browser.held_search import Held
from tests.browser.test_board import AXE
from tests.widgets.grown import opened


@pytest.fixture
def explorer() -> Explorer:
    return opened()


def axis_head(board: BlankBoard, axis: str):
    return board.root.locator(f'[data-axis-row="{axis}"]')


def test_limits_are_typed_and_remembered(open_board, explorer: Explorer) -> None:
    board = open_board()
    panel = board.show("compare")
    memory, seconds = panel.get_by_label("memory ≤"), panel.get_by_label("time ≤")
    expect(memory).to_have_value("90%")
    expect(seconds).to_have_value("")
    with board.next_revision():
        memory.fill("50%")
        memory.press("Enter")
    with board.next_revision():
        seconds.fill("1500 ms")
        seconds.press("Enter")
    assert (explorer.document.memory, explorer.document.seconds) == (0.5, 1.5)
    expect(seconds).to_have_value("1.5 s")
    expect(seconds).to_be_focused()
    memory.fill("a lot")
    memory.press("Enter")
    expect(board.status).to_contain_text("memory='a lot' is not a share of a device's memory")
    expect(memory).to_have_value("50%")
    assert explorer.document.memory == 0.5
    expect(panel).to_contain_text("To be searched: at most 2 mesh axes for each dim; parameters and optimizer state")
    hint = board.root.locator(".mlb-auto").get_attribute("data-hint") or ""
    assert "at most 50% of a device's" in hint


def test_a_dim_is_kept_off_an_axis_by_key_and_menu_and_mark(open_board, explorer: Explorer) -> None:
    board = open_board()
    chip = board.chip("ffn", "b")
    chip.focus()
    with board.next_revision():
        board.keyboard.press("n")
    assert explorer.document.forbidden == (("ffn", "b"),)
    expect(board.status).to_have_text(re.compile("ffn is never on b in searches."))
    mark = board.zone("b").get_by_role("button", name="ffn is never on b in searches")
    expect(mark).to_have_text("⊘ ffn")
    expect(chip).to_be_focused()
    # The menu has all axes, as toggles.
    board.keyboard.press("F2")
    line = board.root.get_by_role("group", name="never on, in searches")
    expect(line.get_by_role("button", name="b: never")).to_have_attribute("aria-pressed", "true")
    with board.next_revision():
        line.get_by_role("button", name="a: never").click()
    assert explorer.document.forbidden == (("ffn", "a"), ("ffn", "b"))
    # A mark takes itself away.
    with board.next_revision():
        mark.click()
    assert explorer.document.forbidden == (("ffn", "a"),)
    expect(mark).to_have_count(0)
    # A dim that is on no axis has no axis to be kept off by a key.
    board.chip("embed").focus()
    board.keyboard.press("n")
    expect(board.status).to_contain_text("F2 has all axes")
    assert explorer.layout == ml.Layout.of("batch:a ffn:b")


def test_an_axis_is_silent_by_key_and_menu(open_board, explorer: Explorer) -> None:
    board = open_board()
    head = axis_head(board, "b")
    head.focus()
    with board.next_revision():
        board.keyboard.press("s")
    assert explorer.document.silent == ("b",)
    expect(head).to_have_attribute("aria-label", re.compile("silent in searches"))
    expect(head.locator("svg")).to_have_count(1)
    expect(head).to_be_focused()
    head.click()
    switch = board.root.get_by_role("checkbox", name="silent: searches send nothing over it")
    expect(switch).to_be_checked()
    with board.next_revision():
        switch.click()
    assert explorer.document.silent == ()
    expect(head.locator("svg")).to_have_count(0)


def test_a_search_keeps_to_all_of_it_and_rules_are_taken_away_in_compare(open_board, explorer: Explorer) -> None:
    assert explorer.pin("batch", "a")
    assert explorer.silence("b")
    board = open_board()
    panel = board.show("compare")
    choice = explorer.auto("time")
    board.blank.poll()
    choice.plan.assert_silent("b")
    rules = panel.get_by_role("group", name="what searches keep to").get_by_role("button")
    assert rules.all_inner_texts() == ["batch on a ×", "b silent ×"]
    with board.next_revision():
        rules.last.click()
    assert explorer.document.kept == {"pin": {"batch": "a"}}
    expect(panel).to_contain_text("The constraints have changed since this search: search again.")
    expect(panel.locator(".mlb-sought")).to_contain_text("with batch on a, b silent")


def test_a_search_that_finds_nothing_names_what_is_in_the_way(open_board, explorer: Explorer) -> None:
    assert explorer.pin("batch", "a")
    assert explorer.silence("a")
    board = open_board()
    panel = board.show("compare")
    with pytest.raises(ml.auto.NothingAllowed):
        explorer.auto("time")
    board.blank.poll()
    expect(panel.locator(".mlb-sought")).to_contain_text("Without the pin batch:a, ")
    expect(panel.locator(".mlb-sought")).to_contain_text("Without a silent, ")


def test_a_search_is_stopped_and_what_it_has_comes_on_the_board(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    board = open_board()
    board.root.locator(".mlb-auto").click()
    assert held.told.wait(60)
    board.blank.poll()
    board.button("stop_auto").click()
    expect(board.status).to_contain_text("The search ends with the best layout so far.")
    search = explorer.searches.last
    assert search is not None
    assert search.enough.is_set()
    held.end()
    board.blank.poll()
    assert explorer.choice is not None
    assert explorer.layout == explorer.choice.layout
    expect(board.panel("compare").locator(".mlb-card-now")).to_contain_text("Auto (time)")
    expect(board.button("stop_auto")).to_have_count(0)


def test_what_was_proved_is_said_in_words_without_a_bar(open_board, explorer: Explorer) -> None:
    explorer.auto("time")
    board = open_board()
    panel = board.show("compare")
    expect(panel.locator(".mlb-bracket-said")).to_contain_text("✓ proved: no searched layout costs less")
    expect(panel.locator(".mlb-bracket")).to_have_count(0)


def test_the_best_so_far_of_a_search_that_was_cancelled_has_a_name(
    open_board, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    board = open_board()
    board.root.locator(".mlb-auto").click()
    assert held.told.wait(60)
    board.blank.poll()
    panel = board.panel("compare")
    board.button("cancel_auto").click()
    with board.next_revision():
        panel.locator('[data-take="best"]').click()
    expect(panel.locator(".mlb-card-now")).to_contain_text("Auto (time) so far")
    held.end()


def test_a_way_that_has_to_get_slower_says_so(open_board) -> None:
    mine = {"batch": "a", "io": "b", "params/*": {"hidden": "a"}}
    explorer = explore(grown("two_layer"), ml.mesh("v5p:2x2x2", a=4, b=2), mine)
    choice = explorer.auto("time")
    way = choice.waterfall(explorer.layout)
    assert way.order
    explorer.reasons.of(WAY, explorer.layout)
    board = open_board(explorer)
    panel = board.show("compare")
    panel.locator('[data-reason="way"]').click()
    expect(panel).to_contain_text(way.order)
    expect(panel.locator(".mlb-way tbody tr")).to_have_count(len(way.steps))
    assert way.order in explorer.figure("waterfall").layout.title.text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(open_board, explorer: Explorer, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    assert explorer.forbid("embed", "a")
    assert explorer.silence("b")
    board = open_board(theme=theme)
    board.show("compare")
    board.blank.view.add_script_tag(path=str(Path(AXE)))
    axis_head(board, "b").click()
    problems = board.root.evaluate("async root => (await axe.run(root)).violations")
    assert problems == []
    board.keyboard.press("Escape")
    board.chip("embed").focus()
    board.keyboard.press("F2")
    assert board.root.evaluate("async root => (await axe.run(root)).violations") == []
