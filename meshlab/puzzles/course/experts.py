"""Experts: a new layout is an all-to-all."""

from __future__ import annotations

import meshlab as ml

from ..play.puzzle import Puzzle
from ..play.question import Question
from ..play.setting import Ask
from . import programs

P16 = Puzzle(
    "P16",
    "To the experts and back",
    programs.experts,
    ml.mesh(y=4),
    ml.goal(collectives={"all-to-all": 2, "*": 2}),
    "groups:y experts:y",
    ("experts:y", "groups:y", "groups:y ffn:y", "routes:y experts:y", "groups:y senders:y"),
    "Tokens come in groups, and each expert works for all groups. Repeat no work, and send by two all-to-alls.",
    Ask(
        "By what factor does `experts:y` send more than the two all-to-alls",
        lambda plan: plan.wire_bytes / plan.program.plan(plan.mesh, P16.answer).wire_bytes,
        "experts:y",
    ),
    drawn=("groups", "tokens", "embed", "ffn"),
)

PUZZLES = (P16,)
QUESTIONS: tuple[Question, ...] = ()
