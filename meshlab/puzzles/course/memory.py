"""Memory: what is stored split need not be computed split."""

from __future__ import annotations

import meshlab as ml

from ..play.puzzle import Puzzle
from ..play.question import Question
from ..play.setting import Ask
from . import programs

_OPTIMIZER = {"batch": "data", "state/*": {"ffn": "data"}}
_FSDP = {"batch": "x", "params/*": {"embed": "x"}, "out/1/*": {"embed": "x"}}


def of_xla(plan: ml.Plan) -> float:
    """How many times the plan's bytes XLA's own partitioner sends, given the plan's shardings of all values."""
    beside = plan.xla()
    return beside.inserted_wire_bytes / beside.planned_wire_bytes


P10 = Puzzle(
    "P10",
    "The table of ZeRO",
    programs.adam,
    ml.mesh("h100", data=8),
    ml.goal(keeps={"batch": "data"}, stores="14 GB", sends="24.6 GB"),
    {"batch": "data", "params": {"ffn": "data"}, "state/*": {"ffn": "data"}},
    ("batch:data", "embed:data", _OPTIMIZER),
    "7 billion parameters in bfloat16 and 12 bytes of optimizer for each, on 8 devices. Keep the batch split, store at"
    " most 14 GB, and send no more than data parallelism does.",
    Ask(
        "How many GB does a device store if only the optimizer's state is split",
        lambda plan: plan.stored.argument_bytes / 1e9,
        _OPTIMIZER,
        near=0.02,
    ),
)

P11 = Puzzle(
    "P11",
    "FSDP, said in rules",
    programs.perceptron_step,
    ml.mesh(x=4),
    ml.goal(
        keeps={"batch": "x"},
        stored={"params/*": "embed:x"},
        collectives={"all-gather": 2, "reduce-scatter": 2},
    ),
    _FSDP,
    ("batch:x", "embed:x", {"params/*": {"embed": "x"}}),
    "The loss and gradients of two layers. Compute with the batch split, and store the weights split along `embed`.",
    Ask(
        "How many all-gathers and reduce-scatters does FSDP of two weights run",
        lambda plan: sum(c.kind in {"all-gather", "reduce-scatter"} for c in plan.collectives),
        _FSDP,
    ),
    drawn=("batch", "embed", "hidden"),
)

P12 = Puzzle(
    "P12",
    "Less than FSDP",
    programs.perceptron_step,
    ml.mesh(x=4),
    ml.goal(stores="17 kB", sends="13 kB"),
    "hidden:x",
    (_FSDP, "batch:x", "embed:x"),
    "The same step; its batch is small beside the weights. Store at most 17 kB, and send a quarter of FSDP's bytes.",
    Ask("By what factor does XLA's partitioner send more than the plan of FSDP", of_xla, _FSDP, near=0.02),
)

PUZZLES = (P10, P11, P12)
QUESTIONS: tuple[Question, ...] = ()
