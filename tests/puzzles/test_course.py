"""The puzzles of the course: each is one, its wrong tries fail with three hints, and its answer passes as compiled."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from meshlab import puzzles
from meshlab.engine.plans.per_shard_collectives import traced_implementations
from meshlab.engine.specs.layout import Layout
from meshlab.puzzles.play import hints
from meshlab.puzzles.play.attempts import Attempts
from meshlab.puzzles.play.puzzle import Puzzle

LESSONS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.py"))
# One compiles XLA's program, one traces a model of 70 billion parameters.
SLOW = ("P12", "P20")
EACH = [pytest.param(name, marks=[pytest.mark.nightly] if name in SLOW else []) for name in puzzles.COURSE]
each = pytest.mark.parametrize("name", EACH)


def fresh(name: str) -> Puzzle:
    """A puzzle that nobody has tried."""
    return dataclasses.replace(puzzles.COURSE[name], attempts=Attempts())


@pytest.mark.share(3)
@each
def test_each_is_a_puzzle(name):
    proof = fresh(name).prove()
    assert proof, proof
    assert str(proof).startswith(f"{name}: proved in ")
    assert 1 <= len(proof.passing) < proof.tried


@pytest.mark.share(3)
@each
def test_wrong_tries_fail_with_three_hints_and_the_answer_passes(name):
    puzzle = fresh(name)
    assert puzzle.ask is not None
    assert puzzle.number is not None
    assert not puzzle.check(puzzle.answer)
    assert puzzle.hint().startswith("First predict: ")
    puzzle.predict(puzzle.number)
    for wrong in puzzle.wrong:
        assert not puzzle.check(wrong)
        hints = [puzzle.hint() for _ in range(3)]
        assert hints[0].startswith("Missed: each device ")
        assert hints[2].startswith(("Try this: ", "A first step towards an answer: "))
    answer = puzzle.check(puzzle.answer)
    assert answer.passed, answer
    assert answer.prediction.endswith(", right.")
    assert puzzles.verify(answer.receipt).hold


@pytest.mark.parametrize("name", ["P15", "P21"])
def test_no_verdict_on_what_people_try_has_to_trace_once_the_board_is_open(name):
    puzzle = fresh(name)
    puzzle.show()
    goal, traced = puzzle.goal_of(puzzle.program), traced_implementations(puzzle.program)
    before = len(traced)
    for layout in (puzzle.answer, *puzzle.wrong):
        goal.judge(puzzle.plan(layout))
    assert len(traced) == before > 0


# Whose board is shown in a lesson, and so on the site; and two that begin with a column at a place.
SHOWN = re.findall(r"^puzzles\.(\w+)\.show\(\)$", "\n".join(map(Path.read_text, LESSONS)), re.MULTILINE)
SHARED = [*SHOWN, "P07", "P13"]


@pytest.mark.share(8)
@pytest.mark.parametrize("name", SHARED)
def test_the_file_of_each_that_is_shown_is_small(name, tmp_path):
    assert len(SHOWN) >= 12
    assert fresh(name).share(tmp_path / "board.html", limit=100).bytes <= 200_000


@pytest.mark.share(5)
@pytest.mark.parametrize("reader", ["ada", "bea", "cy", "dan", "eve"])
def test_each_stays_a_puzzle_at_the_sizes_of_a_reader(reader):
    for puzzle in puzzles.COURSE.values():
        if puzzle.drawn:
            own = puzzle.of(reader)
            assert all(own.program.dims[d] >= 0.5 * puzzle.program.dims[d] for d in puzzle.drawn)
            assert own.prove(), own.prove()


@each
def test_each_says_what_is_asked_before_it_shows_its_board(name):
    puzzle = fresh(name)
    assert puzzle.ask is not None
    assert f"asks first: {puzzle.ask.text}?" in repr(puzzle.show())
    text = str(puzzle)
    assert puzzle.task in text
    assert f"puzzles.{name}.predict(…)" in text


def test_names_are_those_that_the_module_has():
    assert all(getattr(puzzles, name) is puzzle for name, puzzle in puzzles.COURSE.items())
    assert len(puzzles.COURSE) == 21


def test_the_last_hint_solves_it_where_it_says_try_this():
    """What it says is planned before it is said: each change that is named is made, and the goal is met."""
    solved = 0
    for name in sorted({*puzzles.COURSE} - {*SLOW}):
        puzzle = fresh(name)
        for wrong in puzzle.wrong:
            found = hints.leading(puzzle, Layout.of(wrong))
            solved += bool(found)
            assert not found or puzzle.verdict(hints.changed(Layout.of(wrong), found)).met
    assert solved > 20


@pytest.mark.parametrize("name", puzzles.Q)
def test_each_question_of_a_lesson_says_why(name):
    question = puzzles.Q[name]
    assert question.name == name
    assert question.because.endswith(".")
    assert str(question).startswith(f"{name}. {question.text}?")
