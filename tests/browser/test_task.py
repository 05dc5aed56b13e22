"""The board of a puzzle: it asks for a number before it shows any, live and in one file, and says what became of it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, cast

import pytest
from playwright.sync_api import Browser, Locator, expect

from meshlab import puzzles
from meshlab.puzzles import Puzzle
from meshlab.puzzles.play.attempts import Attempts
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.board import Board
from tests.browser.overflow import overflowing
from tests.browser.test_accessible import AXE, violations
from tests.browser.test_shared import SharedPage

# What would give a number away.
FIGURES = (".mlb-totals", ".mlb-goal", ".mlb-stage", ".mlb-status", ".mlb-baseline")


@pytest.fixture
def puzzle() -> Puzzle:
    """Two layers, whose batch split over both axes sends nothing; nobody has predicted yet."""
    return dataclasses.replace(puzzles.P04, attempts=Attempts())


@pytest.fixture
def explorer(puzzle: Puzzle) -> Explorer:
    return puzzle.show()


def task(board: Board) -> Locator:
    return board.root.get_by_role("group", name="task", exact=True)


def field(board: Board) -> Locator:
    return task(board).get_by_role("textbox")


def is_locked(board: Board) -> bool:
    """Whether no figure is seen and nothing but the field can be used."""
    seen = [figure for figure in FIGURES if board.root.locator(figure).first.is_visible()]
    assert seen in ([], [*FIGURES])
    inert = board.root.locator(".mlb-header[inert], .mlb-layout[inert]").count()
    assert inert == (0 if seen else 2)
    return not seen


def test_a_first_board_asks_before_its_tour_starts(open_board) -> None:
    """A card over the field would stand between a reader and the question."""
    board: BlankBoard = open_board(stored=True, first=True)
    tour = board.root.locator(".mlb-tour")
    field(board).fill("1")
    # An observer is called with the next frame.
    board.blank.view.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(tour).to_be_hidden()
    assert board.blank.view.evaluate("localStorage.getItem('meshlab:tour')") is None
    field(board).press("Enter")
    expect(tour).to_contain_text("1 of 5")
    expect(task(board)).to_contain_text("run? 1, as you predicted.")


def test_the_board_asks_first_and_shows_no_figure(open_board, puzzle: Puzzle) -> None:
    board: BlankBoard = open_board()
    assert is_locked(board)
    expect(task(board)).to_contain_text("P04. Nothing sent")
    expect(task(board)).to_contain_text("Given w/down[hidden=16 embed=8]")
    expect(task(board)).to_contain_text("How many collectives does batch:x hidden:y run?")
    expect(board.chip("batch")).to_be_visible()
    board.mouse.move(*middle(board.chip("batch")))
    board.mouse.down()
    board.mouse.move(*middle(board.zone("x")), steps=4)
    board.mouse.up()
    assert (board.layout, board.revision) == ("nothing sharded", 0)
    assert puzzle.attempts.predicted is None
    board.blank.shot("task-locked")


def middle(locator: Locator) -> tuple[float, float]:
    box = locator.bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("text", ["", "many", "3 kB", "1e999"])
def test_what_is_no_number_locks_nothing(open_board, puzzle: Puzzle, text: str) -> None:
    board: BlankBoard = open_board()
    field(board).fill(text)
    task(board).get_by_role("button", name="Lock it").click()
    expect(task(board).get_by_role("alert")).to_have_text("Write a number, without its unit.")
    expect(field(board)).to_be_focused()
    assert is_locked(board)
    assert puzzle.attempts.predicted is None


def test_enter_locks_and_the_number_is_said(open_board, puzzle: Puzzle) -> None:
    board: BlankBoard = open_board()
    field(board).fill("2")
    field(board).press("Enter")
    expect(task(board)).to_contain_text("How many collectives does batch:x hidden:y run? 1; you predicted 2.")
    expect(task(board).get_by_role("img", name="wrong")).to_be_visible()
    expect(field(board)).to_have_count(0)
    assert not is_locked(board)
    assert puzzle.attempts.predicted == 2
    with board.next_revision():
        board.drag("batch", "x")
    expect(board.total("work")).to_contain_text("50%")
    board.blank.shot("task-wrong")


def test_a_right_prediction_by_a_click(open_board, puzzle: Puzzle) -> None:
    board: BlankBoard = open_board()
    field(board).fill("1")
    task(board).get_by_role("button", name="Lock it").click()
    expect(task(board)).to_contain_text("run? 1, as you predicted.")
    expect(task(board).get_by_role("img", name="right")).to_be_visible()
    assert puzzle.is_right(puzzle.attempts.predicted)


def test_a_prediction_in_a_cell_opens_the_board_and_a_view_of_it(open_board, puzzle: Puzzle) -> None:
    board: BlankBoard = open_board()
    view = open_board(panel="traffic")
    expect(view.root.locator(".mlb-stage")).to_be_hidden()
    expect(field(view)).to_be_visible()
    puzzle.predict(1)
    for shown in (board, view):
        shown.blank.poll()
        expect(task(shown)).to_contain_text("run? 1, as you predicted.")
        expect(shown.root.locator(".mlb-stage")).to_be_visible()


def test_a_board_without_a_question_says_what_is_to_be_done(open_board, puzzle: Puzzle) -> None:
    board: BlankBoard = open_board(dataclasses.replace(puzzle, ask=None).show())
    expect(task(board)).to_contain_text("Use all four devices, repeat no work, and send nothing.")
    assert not is_locked(board)


@pytest.mark.parametrize("width", [700, 1112, 1280])
def test_it_has_room_before_and_after(open_board, puzzle: Puzzle, width: int) -> None:
    board: BlankBoard = open_board(width=width, height=720)
    assert overflowing(board) == []
    field(board).fill("1")
    field(board).press("Enter")
    expect(field(board)).to_have_count(0)
    assert overflowing(board) == []
    board.blank.shot(f"task-{width}", full=True)


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible_before_and_after(open_board, puzzle: Puzzle, theme: str) -> None:
    board: BlankBoard = open_board(theme=theme)
    board.blank.view.add_script_tag(path=str(AXE))
    assert violations(board.blank.view) == []
    board.blank.shot(f"task-locked-{theme}")
    field(board).fill("many")
    field(board).press("Enter")
    assert violations(board.blank.view) == []
    field(board).fill("2")
    field(board).press("Enter")
    expect(field(board)).to_have_count(0)
    assert violations(board.blank.view) == []
    board.blank.shot(f"task-{theme}")


def test_in_one_file_it_is_solved_without_a_network(chromium: Browser, puzzle: Puzzle, tmp_path: Path) -> None:
    shared = puzzle.share(tmp_path / "p04.html")
    assert shared.bytes == (tmp_path / "p04.html").stat().st_size <= 200_000
    page = SharedPage(chromium, shared.path, "light")
    board = Board(cast(Any, page))
    expect(page.view.get_by_role("heading", name="P04. Nothing sent")).to_be_visible()
    assert is_locked(board)
    field(board).fill("2")
    field(board).press("Enter")
    expect(task(board)).to_contain_text("run? 1; you predicted 2.")
    assert not is_locked(board)
    strip = board.root.get_by_role("group", name="goal", exact=True)
    expect(strip).to_contain_text(re.compile("Goal [01] of 2"))
    with board.next_revision():
        board.drag("batch", "x")
    board.keyboard.down("Shift")
    with board.next_revision():
        board.drag("batch", "y", zone="x")
    board.keyboard.up("Shift")
    assert board.layout == "batch:x+y"
    expect(strip).to_contain_text("Goal met")
    assert puzzle.attempts.predicted is None
    assert page.errors == []
    page.view.context.close()
