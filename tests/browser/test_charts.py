"""plotly.js on the page: fetched once and in idle time, a sign of life before, a reason where there is none."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook import library
from tests.browser.blank import BlankBoard
from tests.browser.test_moments import chart_of
from tests.widgets import small

# What asks for plotly.js is held, or fails, until it is released.
HOLD = """() => {
    const { send } = window.model;
    window.model.send = content => {
        if (content.kind === "library") window.release = () => send(content);
        else send(content);
    };
}"""
CUT_OFF = """() => {
    const { send } = window.model;
    window.release = () => { window.model.send = send; };
    window.model.send = content => {
        if (content.kind === "library") throw Error("the kernel is gone");
        return send(content);
    };
}"""
# What the page waits for longer than a frame or two never comes.
IMPATIENT = """() => {
    const timeout = window.setTimeout;
    window.setTimeout = (then, wait, ...more) => (wait > 50 ? 0 : timeout(then, wait, ...more));
}"""
FETCHES = "() => window.sent.filter(each => each.kind === 'library').length"


@pytest.fixture
def explorer() -> Explorer:
    return small.on_v5e()


def test_two_boards_share_one_plotly_and_leave_none_on_the_window(open_board) -> None:
    first: BlankBoard = open_board(boards=2, height=1600)
    second = BlankBoard(first.blank, 1)
    first.blank.view.evaluate("() => { window.Plotly = 'theirs'; window.define = () => { throw Error('taken'); }; }")
    for board in (first, second):
        board.show("memory")
    for board in (first, second):
        chart_of(board)
    assert first.blank.view.evaluate(FETCHES) == 1
    assert first.blank.view.evaluate("window.Plotly") == "theirs"


def test_a_board_that_closes_while_it_fetches_leaves_the_others_their_charts(open_board) -> None:
    stays: BlankBoard = open_board(boards=2, height=1600)
    closes = BlankBoard(stays.blank, 1)
    stays.blank.view.evaluate(HOLD)
    for board in (closes, stays):
        board.show("memory")
        expect(board.root.locator(".mlb-plot-word")).to_be_visible()
    stays.blank.view.evaluate("() => { window.close_board(1); delete window.release; }")
    stays.blank.view.wait_for_function("() => window.release")
    stays.blank.view.evaluate("() => window.release()")
    chart_of(stays)


def test_it_is_fetched_when_the_page_is_idle_before_a_chart_is_seen(open_board) -> None:
    board: BlankBoard = open_board(idle=True)
    board.blank.view.wait_for_function("() => window.sent.some(each => each.kind === 'library')")
    board.show("memory")
    chart_of(board)
    assert board.blank.view.evaluate(FETCHES) == 1


@pytest.mark.parametrize("carries", ["stripped", "lost"])
def test_a_notebook_in_which_no_bytes_arrive_gets_it_as_text_without_waiting(open_board, carries: str) -> None:
    board: BlankBoard = open_board(carries=carries)
    board.blank.view.evaluate(IMPATIENT)
    board.show("memory")
    chart_of(board)
    asked = board.blank.view.evaluate("window.sent.filter(each => ['bytes', 'library'].includes(each.kind))")
    assert [(each["kind"], each.get("text")) for each in asked] == [("bytes", None), ("library", True)]


def test_a_view_without_charts_fetches_nothing(open_board) -> None:
    board: BlankBoard = open_board(panel="traffic", idle=True)
    # Where Chromium calls no page idle the board fetches after eight seconds, and this comes behind it.
    board.blank.view.evaluate("() => new Promise(then => requestIdleCallback(then, { timeout: 10_000 }))")
    assert board.blank.view.evaluate(FETCHES) == 0


def test_until_it_is_there_the_place_of_a_chart_says_so(open_board) -> None:
    board: BlankBoard = open_board()
    board.blank.view.evaluate(HOLD)
    board.show("memory")
    word = board.root.locator(".mlb-plot-word")
    expect(word).to_have_text("The chart is loading: plotly.js is being fetched from Python …")
    expect(board.root.locator(".mlb-alive-sum")).to_be_visible()
    board.blank.view.evaluate("() => window.release()")
    chart_of(board)
    expect(word).to_be_hidden()


def test_where_it_cannot_be_had_one_line_says_why_and_numbers_stay(open_board, monkeypatch) -> None:
    def missing() -> bytes:
        raise ImportError("No module named 'plotly'")

    monkeypatch.setattr(library, "compressed", missing)
    board: BlankBoard = open_board(panel="memory")
    expect(board.root.locator(".mlb-plot-word")).to_have_text(f"✕ {library.MISSING} {library.FIX}")
    expect(board.root.locator(".mlb-alive-sum")).to_be_visible()
    expect(board.root.locator(".main-svg")).to_have_count(0)


def test_without_python_a_chart_says_so_and_comes_when_it_answers(open_board) -> None:
    board: BlankBoard = open_board()
    board.blank.view.evaluate(CUT_OFF)
    board.show("memory")
    word = board.root.locator(".mlb-plot-word")
    expect(word).to_have_text("✕ plotly.js could not be fetched: Python does not answer. The numbers do not need it.")
    board.blank.view.evaluate("() => window.release()")
    board.root.get_by_role("button", name="Try again").click()
    chart_of(board)
    expect(word).to_be_hidden()
