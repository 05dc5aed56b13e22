"""Let the solver play: a large model on a large machine, against Auto."""

from __future__ import annotations

import meshlab as ml

from ..play.puzzle import Puzzle
from ..play.question import Question
from ..play.setting import Ask
from . import programs

_SPLIT = {dim: "data+model" for dim in ("ffn", "head", "vocab")}
_MESH = ml.mesh("h100", data=8, model=8)


def _recipe(plan: ml.Plan) -> ml.Plan:
    both = ml.layouts.fsdp(plan.program, _MESH, data="data")
    both &= ml.layouts.tensor_parallel(plan.program, _MESH, model="model")
    return plan.program.plan(_MESH, both)


P20 = Puzzle(
    "P20",
    "Beat the solver",
    programs.llama_70b,
    _MESH,
    ml.goal(busy=False, fits=True, step="3.95 s"),
    {"batch": "data+model", "params/*": _SPLIT, "opt_state/*": _SPLIT},
    ("batch:data+model", "batch:data ffn:model heads:model vocab:model"),
    "A step of training of Llama 3 70B, 64 sequences of 4,096 tokens, on 64 H100s. It has to fit, and to take 3.95 s at"
    " most; ml.auto.layout takes a minute.",
    Ask(
        "How many seconds, within 10%, does FSDP over `data` with tensor parallelism over `model` take",
        lambda plan: _recipe(plan).time.estimate,
        "batch:data+model",
        near=0.1,
    ),
)


def _equal_batch() -> float:
    """The batch at which two large layers send as much split by it as split by `ffn`: the one does not depend on it."""
    mesh, program = ml.mesh("h100:1x8", x=8), programs.large_step()
    weights, activations = (program.plan(mesh, layout).wire_bytes for layout in ("batch:x", "ffn:x"))
    return program.dims["batch"] * weights / activations


def _sent_more_than_the_answer() -> float:
    """How many times the bytes of the puzzle's answer, which is what Auto finds, the recipe sends."""
    best = P20.plan(P20.answer)
    return _recipe(best).wire_bytes / best.wire_bytes


PUZZLES = (P20,)
QUESTIONS = (
    Question(
        "10a",
        "Two layers of 4,096 × 16,384, a training step: at which batch size do `batch:x` and `ffn:x` send the same"
        " bytes",
        _equal_batch,
        near=0.01,
        because="Two gradients of embed × ffn are as large as one sum of batch × embed where the batch is 2 × 16,384.",
    ),
    Question(
        "10b",
        "Llama 3 70B on 64 H100s: how many times the bytes of the best layout that Auto finds, within 10%, does FSDP"
        " with tensor parallelism send",
        _sent_more_than_the_answer,
        near=0.1,
        because="Both send about as much. But a device waits for sums of activations, and gathers weights while it"
        " computes: 1.2 s of communication are exposed, against 0.4 s. And under tensor parallelism each device runs"
        " the norms of eight times as many tokens.",
    ),
)
