"""Terms of art and sources of figures: each has its sentence by mouse, by keyboard and by touch."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_board import AXE, violations
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


def term(within: Locator, name: str) -> Locator:
    return within.locator(f'[data-term="{name}"]')


def hint(board: BlankBoard) -> Locator:
    return board.root.get_by_role("tooltip")


def by_keyboard(board: BlankBoard, word: Locator) -> None:
    """Brings the keyboard to a word; after a key the browser shows where the focus is."""
    board.keyboard.press("Tab")
    word.focus()


@pytest.mark.parametrize("by", ["mouse", "keyboard", "touch"])
def test_a_term_says_what_it_is(open_board, by: str) -> None:
    board = open_board(touch=by == "touch")
    word = term(board.show("traffic"), "all-reduce")
    word.scroll_into_view_if_needed()
    {"mouse": word.hover, "keyboard": lambda: by_keyboard(board, word), "touch": word.tap}[by]()
    expect(hint(board)).to_contain_text("Each device of a group has a partial sum; afterwards each has the whole sum.")
    name = hint(board).get_attribute("id")
    expect(word).to_have_attribute("aria-describedby", name or "")
    board.blank.shot("term", full=True)
    if by == "mouse":
        board.mouse.move(1, 1)
        expect(hint(board)).to_be_hidden()
    elif by == "keyboard":
        board.keyboard.press("Escape")
        expect(hint(board)).to_be_hidden()
        expect(word).to_be_focused()


@pytest.mark.parametrize(
    ("tab", "names"),
    [
        ("traffic", {"wire bytes", "collective", "all-reduce"}),
        ("time", {"communication-bound", "collective", "exposed", "overlapped", "compute-bound", "memory-bound"}),
        ("memory", {"peak memory"}),
        ("devices", set()),
    ],
)
def test_the_terms_of_each_panel_are_reached(open_board, tab: str, names: set[str]) -> None:
    board = open_board()
    reached = board.show(tab).locator("[data-term]").evaluate_all("all => all.map(each => each.dataset.term)")
    assert names <= set(reached)
    assert len(reached) == len(set(reached)), "the first of each is enough"
    # The captions of the totals explain themselves.
    board.total("expected").get_by_role("button").focus()
    board.keyboard.press("Tab")
    expect(hint(board)).to_contain_text("Throughput by the estimated step")
    board.keyboard.press("Tab")
    expect(hint(board)).to_contain_text("The most bytes that a device holds at any moment of a step")


def test_a_preset_says_what_it_is(open_board) -> None:
    board = open_board()
    board.root.locator('[data-preset="fsdp"]').hover()
    expect(hint(board)).to_contain_text("Fully sharded data parallel")


def test_a_figure_has_one_badge_with_its_source(open_board, explorer: Explorer) -> None:
    board = open_board()
    badges = board.show("time").locator(".mlb-badge")
    expect(badges.first).to_have_text("estimated")
    by_keyboard(board, badges.first)
    expect(hint(board)).to_contain_text("Predicted from the figures of Google TPU v5e; nothing was run.")
    figures = {part["key"]: part["figures"] for part in explorer.view()["time"]["parts"]}
    for key, sources in figures.items():
        badge = board.panel("time").locator(f'[data-part="{key}"] .mlb-badge')
        expect(badge).to_have_text("recalled" if any(each["recalled"] for each in sources) else "data sheet")
        badge.focus()
        for each in sources:
            expect(hint(board)).to_contain_text(each["source"].replace("`", ""))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_hint_is_accessible(open_board, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    board = open_board(theme=theme)
    by_keyboard(board, term(board.show("time"), "exposed"))
    expect(hint(board)).to_be_visible()
    board.blank.view.add_script_tag(path=str(AXE))
    assert violations(board.blank.view) == []
