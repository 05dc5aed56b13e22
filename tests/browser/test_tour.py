"""The tour: five cards, shown once in a browser, by keyboard too; and Help: the pages, the keys and the words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import RENDER, BlankBoard, bundle
from tests.browser.page import DEADLINE, TOURED
from tests.browser.test_accessible import AXE, violations
from tests.widgets import small

# Whether the card is in the window, and covers nothing of the part that it is about.
BESIDE = """card => {
    const { left, top, right, bottom } = card.getBoundingClientRect();
    const part = document.querySelector("[data-tour]").getBoundingClientRect();
    const inside = left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
    return inside && (right <= part.left || left >= part.right || bottom <= part.top || top >= part.bottom);
}"""

FRAME = '<iframe src="../boards/b.html" width=1200 height=700></iframe>'


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


def card(board: BlankBoard) -> Locator:
    return board.root.locator(".mlb-tour")


def title(board: BlankBoard) -> Locator:
    return card(board).get_by_role("heading")


def part(board: BlankBoard) -> Locator:
    """What the card is about, which has a ring."""
    return board.root.locator("[data-tour]")


def test_a_first_board_shows_five_cards_and_the_next_none(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board(stored=True, first=True)
    expect(card(board)).to_be_visible()
    assert board.blank.view.evaluate("localStorage.getItem('meshlab:tour')") == "seen"
    titles, about = [], []
    for number in range(1, 6):
        expect(card(board)).to_contain_text(f"{number} of 5")
        titles.append(title(board).text_content())
        about.append(part(board).evaluate("each => each.className.split(' ').find(name => name !== 'mlb-zone')"))
        assert card(board).evaluate(BESIDE), titles[-1]
        board.blank.shot(f"tour-{number}")
        card(board).get_by_role("button", name="Done" if number == 5 else "Next").click()
    assert titles == ["Dims", "Mesh axes", "What it costs", "Why it costs that", "Presets and Auto"]
    assert about == ["mlb-tray", "mlb-grid-of-zones", "mlb-score", "mlb-stage", "mlb-advices"]
    expect(card(board)).to_be_hidden()
    expect(part(board)).to_have_count(0)
    # The next board of the same browser.
    board.blank.view.evaluate("window.close_board()")
    board.blank.view.evaluate(RENDER, [bundle("session.js"), 1])
    again = BlankBoard(board.blank)
    again.show("time")
    expect(card(again)).to_be_hidden()


def test_a_page_that_cannot_remember_starts_no_tour_by_itself(open_board) -> None:
    board: BlankBoard = open_board(first=True)
    board.show("time")
    expect(card(board)).to_be_hidden()


def test_a_card_stays_on_its_board_and_goes_when_that_is_scrolled_away(open_board) -> None:
    """Beside a notebook's board stand files and menus."""
    board: BlankBoard = open_board(stored=True, first=True)
    view = board.blank.view
    view.add_style_tag(content="body { padding: 40px 0 2000px 400px }")
    expect(card(board)).to_be_visible()
    view.evaluate("dispatchEvent(new Event('resize'))")
    expect(card(board)).to_be_visible()
    at, around = card(board).bounding_box(), board.root.bounding_box()
    assert at is not None
    assert around is not None
    assert around["x"] <= at["x"] <= around["x"] + around["width"] - at["width"]
    assert card(board).evaluate(BESIDE)
    view.evaluate("scrollTo(0, 5000)")
    expect(card(board)).to_be_hidden()
    view.evaluate("scrollTo(0, 0)")
    expect(card(board)).to_be_visible()


def test_of_two_boards_on_a_page_one_shows_it(open_board) -> None:
    board: BlankBoard = open_board(stored=True, first=True, boards=2, height=1700)
    expect(board.blank.view.locator(".mlb-tour:popover-open")).to_have_count(1)


def test_a_view_by_itself_shows_none(open_board) -> None:
    board: BlankBoard = open_board(stored=True, first=True, panel="traffic")
    expect(board.root.locator("tr[data-kind]").first).to_be_visible()
    expect(card(board)).to_be_hidden()


def test_keys_go_on_and_back_and_escape_ends_it(open_board) -> None:
    board: BlankBoard = open_board(stored=True, first=True)
    next_one = card(board).get_by_role("button", name="Next")
    expect(next_one).to_be_focused()
    for key, expected in [
        ("Enter", "Mesh axes"), ("ArrowRight", "What it costs"), ("ArrowDown", "Why it costs that"),
        ("ArrowLeft", "What it costs"), ("ArrowUp", "Mesh axes"), ("ArrowLeft", "Dims"), ("ArrowLeft", "Dims"),
    ]:  # fmt: skip
        board.keyboard.press(key)
        expect(title(board)).to_have_text(expected)
    expect(next_one).to_be_focused()
    assert board.revision == 0
    board.keyboard.press("Escape")
    expect(card(board)).to_be_hidden()
    expect(board.root).to_be_focused()


def test_the_board_is_used_beside_it_and_escape_puts_a_chip_back_first(open_board) -> None:
    board: BlankBoard = open_board(stored=True, first=True)
    with board.next_revision():
        board.carry("hidden", "model")
    expect(card(board)).to_be_visible()
    expect(part(board)).to_have_count(1)
    board.chip("batch").focus()
    board.keyboard.press("Enter")
    board.keyboard.press("Escape")
    expect(card(board)).to_be_visible()
    board.keyboard.press("Escape")
    expect(card(board)).to_be_hidden()
    expect(board.chip("batch")).to_be_focused()


def test_whoever_types_elsewhere_keeps_the_keyboard(open_board) -> None:
    board: BlankBoard = open_board(stored=True)
    page = board.blank.view
    page.evaluate("window.close_board()")
    page.evaluate("document.body.prepend(document.createElement('textarea'))")
    page.locator("textarea").focus()
    page.evaluate("localStorage.removeItem('meshlab:tour')")
    page.evaluate(RENDER, [bundle("session.js"), 1])
    expect(page.locator(".mlb-tour:popover-open")).to_have_count(1)
    expect(page.locator("textarea")).to_be_focused()


def test_help_starts_it_again_and_gets_the_keyboard_back(open_board) -> None:
    board: BlankBoard = open_board()
    board.button("help").focus()
    board.keyboard.press("Enter")
    expect(board.button("tour")).to_be_focused()
    board.keyboard.press("Enter")
    expect(card(board)).to_be_visible()
    expect(board.root.locator(".mlb-popover")).to_be_hidden()
    expect(card(board).get_by_role("button", name="Next")).to_be_focused()
    card(board).get_by_role("button", name="Skip").click()
    expect(card(board)).to_be_hidden()
    expect(board.button("help")).to_be_focused()


def test_a_quiet_board_says_nothing_of_what_it_does_not_have(open_board) -> None:
    goal = ml.goal(sends="1 kB", quiet=True)
    board: BlankBoard = open_board(explore(small.program(), small.mesh(), "batch:data", goal=goal))
    board.button("help").click()
    board.button("tour").click()
    for _ in range(4):
        board.keyboard.press("ArrowRight")
    expect(title(board)).to_have_text("Take it back")
    expect(card(board)).not_to_contain_text("Auto")


@pytest.mark.parametrize("width", [1280, 700, 480])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible_and_in_the_window_at_any_width(open_board, theme: str, width: int) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
    board: BlankBoard = open_board(theme=theme, width=width)
    page = board.blank.view
    page.add_script_tag(path=str(AXE))
    board.button("help").click()
    assert violations(page) == []
    board.blank.shot(f"help-{theme}-{width}")
    board.button("tour").click()
    for number in range(1, 6):
        expect(card(board)).to_contain_text(f"{number} of 5")
        expect(card(board)).to_be_in_viewport(ratio=1)
        assert violations(page) == []
        board.blank.shot(f"tour-{theme}-{width}-{number}")
        board.keyboard.press("ArrowRight")


def test_help_has_each_word_that_panels_explain(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    explained = set()
    for tab in ("devices", "program", "traffic", "memory", "time", "compare", "run"):
        found = board.show(tab).locator("[data-term]")
        explained |= {
            tuple(each) for each in found.evaluate_all("all => all.map(e => [e.dataset.term, e.dataset.hint])")
        }
    assert len(explained) > 8
    board.button("help").click()
    words = board.root.locator(".mlb-words")
    named = words.locator("dt").all_text_contents()
    said = dict(zip(named, words.locator("dd").all_text_contents(), strict=True))
    assert named == sorted(named, key=str.lower)
    assert {(word, said[word]) for word, _ in explained} == {(word, hint.replace("`", "")) for word, hint in explained}


def test_pages_are_links_on_the_site_and_paths_elsewhere(open_board, chromium: Browser, tmp_path: Path) -> None:
    board: BlankBoard = open_board()
    board.button("help").click()
    pages = board.root.get_by_role("list", name="pages of the project")
    expect(pages).to_contain_text("Glossary: docs/glossary.md")
    expect(pages.get_by_role("link")).to_have_count(0)
    # On the site a board is a frame of a page, which says where the root is.
    file = tmp_path / "board.html"
    explore(small.program(), small.mesh(), "batch:data").share(file, dims=["batch"], columns=())
    bodies = {
        "learn/page.html": f'<html data-content_root="../">{FRAME}',
        "boards/b.html": file.read_text(encoding="utf-8"),
        "glossary.html": "<title>Glossary</title>",
    }
    context = chromium.new_context()
    context.set_default_timeout(DEADLINE)
    context.add_init_script(TOURED)
    site: Any = context.new_page()
    site.route(
        "http://site.test/**",
        lambda route: route.fulfill(
            content_type="text/html", body=bodies.get(route.request.url.removeprefix("http://site.test/"), "")
        ),
    )
    site.goto("http://site.test/learn/page.html")
    frame = site.frame_locator("iframe")
    frame.locator('[data-op="help"]').click()
    frame.get_by_role("link", name="Glossary").click()
    expect(site).to_have_title("Glossary")
    assert site.url == "http://site.test/glossary.html"
    context.close()
