"""Puzzles: a number is predicted, and a layout is looked for that meets a goal; the plan is the judge.

    from meshlab import puzzles
    puzzles.Q["2a"].predict(16)     a question of a lesson
    puzzles.P08                     the task; .predict(1), .show(), .check("heads:y"), .hint()
    puzzles.verify(lines)           receipts, planned again
    puzzles.report()                what was done in this session, as Markdown

The puzzles of the course stand in `course`, a module for each lesson.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ..engine.errors import MeshlabError, closest
from .course import backward, collectives, experts, long, memory, names, own, real, serving, shards, solver, tensor
from .play import receipts
from .play.code import CodePuzzle as CodePuzzle
from .play.judging import Answer as Answer
from .play.judging import Unsolved as Unsolved
from .play.proving import Proof as Proof
from .play.puzzle import Puzzle as Puzzle
from .play.question import Question as Question
from .play.question import Told as Told
from .play.receipts import Verified as Verified
from .play.setting import Ask as Ask

_LESSONS = (names, shards, collectives, backward, tensor, memory, long, experts, serving, own, solver, real)
# The questions of the lessons, by name: `puzzles.Q["2a"]`.
Q: Mapping[str, Question] = MappingProxyType(
    {question.name: question for lesson in _LESSONS for question in lesson.QUESTIONS}
)
# The puzzles of the course, by name.
COURSE: Mapping[str, Puzzle] = MappingProxyType(
    {each.name: each for lesson in _LESSONS for each in lesson.PUZZLES if isinstance(each, Puzzle)}
)
P01, P02, P03, P04, P05, P06, P07, P08, P09 = (COURSE[f"P0{i}"] for i in range(1, 10))
C01 = names.C01
P10, P11, P12, P13, P14, P15, P16, P17, P18, P19, P20, P21 = (COURSE[f"P{i}"] for i in range(10, 22))


def verify(lines: str | Iterable[str], *own: Puzzle) -> Verified:
    """Plans the layouts of receipts again, and says which hold.

    Args:
        lines: receipts, or a text with one in each line.
        *own: puzzles of your own, beside those of the course.
    """
    known = {**COURSE, **{puzzle.name: puzzle for puzzle in own}}

    def find(name: str) -> Puzzle:
        if name not in known:
            raise MeshlabError(f"There is no puzzle `{name}`.{closest(name, known)}")
        return known[name]

    return receipts.verified(lines, find)


def report(*own: Puzzle) -> str:
    """Returns what was done with the puzzles of the course in this session, and with your own, as Markdown."""
    return receipts.report((puzzle, puzzle.attempts) for puzzle in [*COURSE.values(), *own])
