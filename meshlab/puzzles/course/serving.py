"""Serving: decoding reads its weights and its cache."""

from __future__ import annotations

import meshlab as ml

from ..play.puzzle import Puzzle
from ..play.question import Question
from ..play.setting import Ask
from . import programs
from .shards import copies

P18 = Puzzle(
    "P18",
    "Fewer heads than devices",
    programs.decoding,
    ml.mesh(a=8, b=2),
    ml.goal(stores="34 kB", sends="200 B"),
    "heads:a kv:b",
    ("heads:a", "heads:a group:b", "heads:a head:b", "kv:a+b", "heads:b kv:a"),
    "One token attends to a cache of 1,024 in bfloat16, on 8 heads, with 16 devices. Store it once, and send 200 bytes"
    " at most.",
    Ask(
        "How many copies of the cache do the devices hold under `heads:a group:b`",
        lambda plan: round(copies(plan)),
        "heads:a group:b",
    ),
)

PUZZLES = (P18,)
QUESTIONS: tuple[Question, ...] = ()
