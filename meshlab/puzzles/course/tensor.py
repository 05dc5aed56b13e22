"""Tensor parallelism: split by column, then by row, and sum once."""

from __future__ import annotations

import meshlab as ml

from ..play.puzzle import Puzzle
from ..play.question import Question
from ..play.setting import Ask
from . import programs
from .memory import of_xla

_BOTH, _INSIDE = "heads:y ffn:y", "head:y ffn:y"


def sums(program: ml.Program, layout: str) -> int:
    """How many collectives a layout runs on four devices."""
    return len(program.plan(ml.mesh(y=4), layout).collectives)


P08 = Puzzle(
    "P08",
    "The layout of Megatron",
    programs.layer,
    ml.mesh(x=2, y=4),
    ml.goal(collectives={"all-reduce over y": 2, "*": 2}),
    "batch:x heads:y ffn:y",
    ("batch:x heads:y", "batch:x+y", "batch:x seq:y", "batch:x embed:y", "batch:x head:y ffn:y"),
    "A layer of a transformer, forward. Use all eight devices, repeat no work, and sum exactly twice, over `y`.",
    Ask("How many all-reduces does `heads:y` run", lambda plan: len(plan.collectives), "heads:y"),
    drawn=("batch", "seq", "heads", "ffn"),
    chips=("batch", "seq", "heads", "ffn"),
)

PUZZLES = (P08,)
QUESTIONS = (
    Question(
        "5a",
        f"How many all-reduces does `{_INSIDE}` run in a layer, forward",
        lambda: sums(programs.layer(), _INSIDE),
        because="`head` is summed twice, in the scores and where the heads are combined; `ffn` once, after the second"
        " matmul.",
    ),
    Question(
        "5b",
        f"How many does `{_BOTH}` run forward and backward, with the gradients of the weights and of x",
        lambda: sums(programs.layer_gradients(), _BOTH),
        because="Two forward. Backward, what each half takes is whole on all devices: two more, one for each half.",
    ),
    Question(
        "5c",
        "By what factor does a device send more if XLA's own partitioner decides where to sum",
        lambda: of_xla(programs.layer_gradients().plan(ml.mesh(y=4), _BOTH)),
        near=0.02,
        because="It sums the gradients through q, k and v before they are added: 6 arrays of one size instead of 4.",
    ),
)
