"""Tensor parallelism: split by column, then by row, and sum once."""

from __future__ import annotations

import meshlab as ml

from ..play.puzzle import Puzzle
from ..play.question import Question
from ..play.setting import Ask
from . import programs

P08 = Puzzle(
    "P08",
    "Two sums a layer",
    programs.layer,
    ml.mesh(x=2, y=4),
    ml.goal(collectives={"all-reduce over y": 2, "*": 2}),
    "batch:x heads:y ffn:y",
    ("batch:x heads:y", "batch:x+y", "batch:x seq:y", "batch:x embed:y", "batch:x head:y ffn:y"),
    "A layer of a transformer, forward. Use all eight devices, repeat no work, and sum exactly twice, over `y`.",
    Ask("How many all-reduces does `heads:y` run", lambda plan: len(plan.collectives), "heads:y"),
    drawn=("batch", "seq", "heads", "ffn"),
)

PUZZLES = (P08,)
QUESTIONS: tuple[Question, ...] = ()
