"""Let the solver play: a large model on a large machine, against Auto."""

from __future__ import annotations

import meshlab as ml

from ..play.puzzle import Puzzle
from ..play.question import Question
from ..play.setting import Ask
from . import programs

_SPLIT = {dim: "data+model" for dim in ("ffn", "head", "vocab")}
_MESH = ml.mesh("h100", data=8, model=8)


def _with_tensor_parallelism(plan: ml.Plan) -> float:
    both = ml.layouts.fsdp(plan.program, _MESH, data="data")
    both &= ml.layouts.tensor_parallel(plan.program, _MESH, model="model")
    return plan.program.plan(_MESH, both).time.estimate


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
        _with_tensor_parallelism,
        "batch:data+model",
        near=0.1,
    ),
)

PUZZLES = (P20,)
QUESTIONS: tuple[Question, ...] = ()
