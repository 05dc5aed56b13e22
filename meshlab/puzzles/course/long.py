"""Long sequences: queries and keys are two dims."""

from __future__ import annotations

import meshlab as ml

from ..play.puzzle import Puzzle
from ..play.question import Question
from ..play.setting import Ask
from . import programs

_GATHERED = {"seq": "y", "k": {"kv": "y"}, "v": {"kv": "y"}}

P14 = Puzzle(
    "P14",
    "Split a long context",
    programs.core,
    ml.mesh(y=4),
    lambda program: ml.goal(sends=0, stores=4 * 3 * _elements(program) / 4),
    "heads:y",
    ("seq:y", _GATHERED, "kv:y", "head:y"),
    "The core of attention, of 64 queries and keys. Each device stores a quarter of all three arrays. Send nothing.",
    Ask(
        "How many bytes does a device send if queries, keys and values are all stored split along the sequence",
        lambda plan: plan.wire_bytes,
        _GATHERED,
    ),
    drawn=("kv", "heads"),
)


def _elements(program: ml.Program) -> int:
    dims = program.dims
    return dims["batch"] * dims["heads"] * dims["head"] * (dims["seq"] + 2 * dims["kv"]) // 3


PUZZLES = (P14,)
QUESTIONS: tuple[Question, ...] = ()
