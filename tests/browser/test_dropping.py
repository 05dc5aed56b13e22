"""What `benchmarks/dropping.py` times: each drop by itself, and one that is not carried out is not waited for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page

from benchmarks.dropping import OUTCOME, WATCH
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.widgets import small

BOARD = '<div class="mlb" data-rev="0"><p class="mlb-status" data-mood="plain"></p></div>'
DONE = {"lost": ""}


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh())


@pytest.fixture
def root(chromium: Browser) -> Iterator[Locator]:
    """What stands for a board whose attributes a test sets, as it is watched."""
    page = chromium.new_page()
    page.set_content(BOARD)
    found = page.locator(".mlb")
    found.evaluate(WATCH)
    yield found
    page.close()


def outcome(root: Locator, number: int) -> dict | None:
    return root.page.evaluate(OUTCOME, [root.element_handle(), number])


def ended(root: Locator, number: int) -> dict:
    return root.page.wait_for_function(OUTCOME, arg=[root.element_handle(), number]).json_value()


def drop(root: Locator) -> None:
    root.dispatch_event("pointerup")


def show(root: Locator, rev: int, pending: bool = False) -> None:
    """Shows a revision, as the board does when it is redrawn."""
    change = "(root, [rev, pending]) => { root.toggleAttribute('data-pending', pending); root.dataset.rev = rev; }"
    root.evaluate(change, [rev, pending])


def painted(page: Page, number: int, what: str) -> float:
    wait = f"() => window.__drops[{number}].{what}"
    return page.wait_for_function(wait).json_value()


def test_a_drop_ends_with_its_costs(root: Locator) -> None:
    drop(root)
    assert outcome(root, 0) is None
    show(root, 0)  # drawn anew, for what was selected
    assert outcome(root, 0) is None
    show(root, 1, pending=True)
    redrawn = painted(root.page, 0, "board")
    assert outcome(root, 0) is None
    show(root, 1)
    assert ended(root, 0) == DONE
    assert 0 < redrawn < painted(root.page, 0, "all")


def test_each_drop_is_counted_once_whatever_revisions_there_are(root: Locator) -> None:
    """Two revisions of one drop were two drops: the next was not waited for, and the one after it for ever."""
    drop(root)
    show(root, 1, pending=True)
    show(root, 2, pending=True)
    show(root, 2)
    assert ended(root, 0) == DONE
    show(root, 3)  # a script
    drop(root)
    show(root, 3)
    assert outcome(root, 1) is None
    show(root, 4)
    assert ended(root, 1) == DONE


@pytest.mark.parametrize(
    "change",
    ["root.firstChild.dataset.mood = 'refused'", "root.toggleAttribute('data-readonly', true)"],
)
def test_a_drop_that_is_refused_is_lost_and_says_why(root: Locator, change: str) -> None:
    drop(root)
    root.evaluate(f"root => {{ root.firstChild.textContent = 'It does not fit.'; {change}; }}")
    assert outcome(root, 0) == {"lost": "It does not fit."}
    # What is said of a drop that was carried out, such as that it does not fit a device, is no refusal of it.
    show(root, 1)
    assert ended(root, 0) == DONE


def test_a_drop_that_python_does_not_answer_is_lost(open_board, explorer: Explorer) -> None:
    board = open_board()
    board.root.evaluate(WATCH)
    board.blank.view.clock.install()
    board.blank.silent = True
    board.drag("hidden", "model")
    assert outcome(board.root, 0) is None
    board.blank.view.clock.fast_forward(2000)
    assert ended(board.root, 0)["lost"].startswith("Python did not answer, so this was not done: ")
