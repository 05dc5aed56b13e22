"""A goal on the board: ticked while a chip is dragged, said when it is met, pending while costs are worked out."""

from __future__ import annotations

import re
import threading

import pytest
from playwright.sync_api import Locator, expect

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.test_accessible import AXE, violations
from tests.browser.test_room import CUT, OUTSIDE
from tests.widgets import small
from tests.widgets.gates import Gate, costs_of

GOAL = {"sends": "700 B", "keeps": {"batch": "data"}, "collectives": {"all-gather": 0}}
# What stands on the board, and where: nothing of it may move while a chip is held.
PLACES = """() => [...document.querySelectorAll(".mlb-goal li, .mlb-zone, .mlb-chip:not(.mlb-ghost), .mlb-stage")]
    .map(each => { const box = each.getBoundingClientRect(); return [each.className, box.x, box.y, box.width]; })"""


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh(), "batch:data", goal=ml.goal(**GOAL))


def on_machine(**conditions: object) -> Explorer:
    """A board on a machine, whose costs are known."""
    goal = ml.goal(**{**GOAL, **conditions})  # type: ignore[arg-type]
    shown = explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data", goal=goal)
    shown.view()
    return shown


def strip(board: BlankBoard) -> Locator:
    return board.root.get_by_role("group", name="goal", exact=True)


def condition(board: BlankBoard, text: str) -> Locator:
    return strip(board).get_by_role("listitem").filter(has_text=text)


def states(board: BlankBoard) -> dict[str, str]:
    """How far each condition is met, in the words that a screen reader reads."""
    marks = strip(board).locator("li > .mlb-goal-mark")
    names = marks.evaluate_all("marks => marks.map(mark => mark.ariaLabel)")
    texts = marks.evaluate_all("marks => marks.map(mark => mark.nextElementSibling.textContent)")
    return dict(zip(texts, names, strict=True))


def test_a_board_without_a_goal_shows_none(open_board) -> None:
    board = open_board(explore(small.program(), small.mesh()))
    expect(board.root.locator(".mlb-goal")).to_be_hidden()


def test_a_layout_is_dragged_until_the_goal_is_met_and_undo_unticks(open_board) -> None:
    board: BlankBoard = open_board()
    missed = {"sends at most 700 B": "missed", "repeats no work": "missed", "keeps batch on data": "met"}
    assert states(board) == missed | {"runs no all-gather": "met"}
    expect(strip(board)).to_contain_text("Goal 2 of 4")
    expect(condition(board, "sends at most")).to_contain_text("1.67 kB")
    with board.next_revision():
        board.drag("hidden", "model")
    expect(strip(board)).to_contain_text("Goal met")
    assert set(states(board).values()) == {"met"}
    expect(condition(board, "sends at most")).to_contain_text("660 B")
    expect(board.status).to_have_text(
        re.compile(r"^Goal met: all 4 conditions hold\. .*; DP over data \+ TP over model$")
    )
    board.blank.shot("goal-met")
    board.button("undo").click()
    expect(strip(board)).to_contain_text("Goal 2 of 4")
    assert states(board)["repeats no work"] == "missed"
    expect(board.status).to_have_text(re.compile(r"; DP over data\. Goal: 2 of 4 conditions met\.$"))


def test_by_keyboard_alone(open_board) -> None:
    board: BlankBoard = open_board()
    with board.next_revision():
        board.carry("hidden", "model")
    expect(board.status).to_contain_text("Goal met: all 4 conditions hold.")
    with board.next_revision():
        board.keyboard.press("Delete")  # the chip still has the focus
    expect(board.status).to_contain_text("Goal: 2 of 4 conditions met.")


def test_a_zone_says_what_a_drop_there_would_meet_and_nothing_moves(open_board) -> None:
    board: BlankBoard = open_board(on_machine(fits=True, step="1 ms"), width=1112, height=640)
    board.press("hidden")
    before = board.blank.view.evaluate(PLACES)
    board.move_to("model")
    sends = condition(board, "sends at most").locator(".mlb-after")
    expect(sends).to_have_text("→ ✓ 660 B")
    expect(sends.get_by_role("img", name="met")).to_be_visible()
    expect(condition(board, "repeats no work").locator(".mlb-after")).to_have_text("→ ✓ 12.5% each")
    expect(condition(board, "fits its memory").locator(".mlb-after")).to_contain_text("kB")
    expect(condition(board, "keeps").locator(".mlb-after")).to_have_count(0)
    assert board.blank.view.evaluate(PLACES) == before
    assert board.blank.view.evaluate(CUT) == []
    board.keyboard.press("Escape")
    expect(strip(board).locator(".mlb-after")).to_have_count(0)


def test_costs_that_are_worked_out_are_pending_and_not_missed(open_board, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = on_machine(fits=True, step="1 ms")
    board: BlankBoard = open_board(explorer)
    gate, there = Gate(monkeypatch, explorer.costs), costs_of(explorer)
    with board.next_revision():
        board.drag("hidden", "model")
    assert states(board)["takes at most 1 ms a step"] == states(board)["fits its memory"] == "pending"
    expect(condition(board, "takes at most")).to_contain_text("…")
    expect(board.status).not_to_contain_text("Goal")
    gate.open.set()
    assert there.wait(60)
    board.blank.poll()
    expect(strip(board)).to_contain_text("Goal met")
    expect(board.status).to_have_text(re.compile(r"^Goal met: all 6 conditions hold\."))


def test_a_goal_that_is_met_by_a_late_peak_is_said(open_board, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = explore(small.program(), small.mesh(), "batch:data", goal=ml.goal(**{**GOAL, "fits": "v5e"}))
    board: BlankBoard = open_board(explorer)
    explorer.view()
    gate, there = Gate(monkeypatch, explorer.peaks), threading.Event()
    explorer.subscribe(lambda what: there.set() if what == "goal" else None)
    with board.next_revision():
        board.drag("hidden", "model")
    assert states(board)["fits the memory of one Google TPU v5e"] == "pending"
    gate.open.set()
    assert there.wait(60)
    board.blank.poll()
    expect(board.status).to_have_text(re.compile(r"^Goal met: all 5 conditions hold\."))


def test_a_script_sets_another_goal(open_board, explorer: Explorer) -> None:
    board: BlankBoard = open_board()
    explorer.set_goal(ml.goal(silent="data"))
    board.blank.poll()
    expect(condition(board, "sends nothing over data")).to_contain_text("1.67 kB")
    explorer.set_goal(None)
    board.blank.poll()
    expect(board.root.locator(".mlb-goal")).to_be_hidden()


def test_the_reason_is_shown_to_pointer_and_keyboard(open_board) -> None:
    board: BlankBoard = open_board()
    term = condition(board, "repeats no work").get_by_role("button")
    hint = board.root.get_by_role("tooltip")
    term.hover()
    expect(hint).to_contain_text("Devices along model repeat small.py:")
    board.mouse.move(0, 0)
    expect(hint).to_be_hidden()
    term.focus()
    expect(hint).to_contain_text("no dim there is on it.")
    assert condition(board, "keeps").get_by_role("button").count() == 0


@pytest.mark.parametrize("width", [700, 1112, 1280])
def test_many_conditions_have_room(open_board, width: int) -> None:
    explorer = on_machine(
        fits="h100", peak="1 GiB", stores="1 kB", step="1 ms", silent="model", stored={"params/*": "hidden:model"}
    )
    board: BlankBoard = open_board(explorer, width=width, height=720)
    assert strip(board).get_by_role("listitem").count() == 10
    assert board.blank.view.evaluate(CUT) == []
    assert board.root.evaluate(OUTSIDE) == []
    board.blank.shot(f"goal-{width}", full=True)


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: (cd meshlab/widgets/js && npm ci)")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible_missed_held_and_met(open_board, theme: str) -> None:
    board: BlankBoard = open_board(on_machine(step="1 ms"), theme=theme)
    board.blank.view.add_script_tag(path=str(AXE))
    assert violations(board.blank.view) == []
    board.press("hidden")
    board.move_to("model")
    expect(strip(board).locator(".mlb-after").first).to_be_visible()
    assert violations(board.blank.view) == []
    with board.next_revision():
        board.mouse.up()
    expect(strip(board)).to_contain_text("Goal met")
    assert violations(board.blank.view) == []
    board.blank.shot(f"goal-{theme}")


def test_a_quiet_goal_gives_no_answer_away_before_it_is_met(open_board) -> None:
    explorer = explore(small.program(), small.mesh(), "batch:data", goal=ml.goal(**GOAL, quiet=True))
    board: BlankBoard = open_board(explorer)
    assert states(board)["sends at most 700 B"] == "missed"
    expect(strip(board).locator(".mlb-goal-value")).to_have_count(0)
    expect(strip(board).get_by_role("button")).to_have_count(0)
    answers = [board.root.locator(".mlb-auto"), board.root.locator(".mlb-preset").first]
    answers.append(board.root.locator('[role=tab][data-tab="compare"]'))
    for each in answers:
        expect(each).to_be_hidden()
    board.press("hidden")
    board.move_to("model")
    expect(board.note("model")).not_to_be_empty()
    expect(board.root.locator("[data-best]")).to_have_count(0)
    expect(strip(board).locator(".mlb-after")).to_have_count(0)
    assert not any(sent["kind"] == "advise" for sent in board.blank.view.evaluate("window.sent"))
    with board.next_revision():
        board.mouse.up()
    expect(condition(board, "sends at most")).to_contain_text("660 B")
    for each in answers:
        expect(each).to_be_visible()
