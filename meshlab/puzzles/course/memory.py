"""Memory: what is stored split need not be computed split."""

from __future__ import annotations

import meshlab as ml

from ...engine.specs.layout import LayoutLike
from ..play.puzzle import Puzzle
from ..play.question import Question
from ..play.setting import Ask
from . import programs

_OPTIMIZER = {"batch": "data", "state/*": {"ffn": "data"}}
_FSDP = {"batch": "x", "params/*": {"embed": "x"}, "out/1/*": {"embed": "x"}}


def _fsdp_sends(program: ml.Program) -> float:
    """The bytes that FSDP sends on four devices: each weight is gathered, each gradient scattered, the loss summed."""
    weight = 4 * program.dims["embed"] * program.dims["hidden"]
    return 2 * 2 * weight * 3 / 4 + 2 * 4 * 3 / 4


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
    "7 billion parameters in bfloat16, with 12 bytes of optimizer state each, on 8 devices. Keep the batch sharded,"
    " store at most 14 GB, and send no more than data parallelism does.",
    Ask(
        "How many GB does a device store if only the optimizer state is sharded",
        lambda plan: plan.stored.argument_bytes / 1e9,
        _OPTIMIZER,
        near=0.02,
    ),
)

P11 = Puzzle(
    "P11",
    "FSDP, written as rules",
    programs.perceptron_step,
    ml.mesh(x=4),
    lambda program: ml.goal(keeps={"batch": "x"}, stored={"params/*": "embed:x"}, sends=_fsdp_sends(program)),
    _FSDP,
    ("batch:x", "embed:x", {"params/*": {"embed": "x"}}),
    "The loss and gradients of two layers. Compute with the batch sharded, and store the weights sharded along"
    " `embed`.",
    Ask(
        "How many collectives does FSDP run for two weights, besides the sum of the loss",
        lambda plan: sum(bool(c.shape) for c in plan.collectives),
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
    "The same step; its batch is small compared with the weights. Store at most 17 kB, and send a quarter of FSDP's"
    " bytes.",
    Ask("By what factor does XLA's partitioner send more than the plan of FSDP", of_xla, _FSDP, near=0.02),
)

_MESH = P10.mesh


def _stored(layout: LayoutLike) -> float:
    """GB of arguments that a device stores of the 7 billion parameters and their optimizer."""
    return P10.program.plan(_MESH, layout).stored.argument_bytes / 1e9


def _peak_of_llama() -> float:
    program = programs.llama_8b()
    return program.plan(_MESH, ml.layouts.fsdp(program, _MESH)).memory.donated.peak_bytes / 1e9


PUZZLES = (P10, P11, P12)
QUESTIONS = (
    Question(
        "6a",
        "7 billion parameters in bfloat16, and a master copy and two moments in float32: how many GB does each of 8"
        " devices store under `batch:data`",
        lambda: _stored("batch:data"),
        near=0.02,
        because="2 bytes for the weight and 3 × 4 for the optimizer are 14 bytes, 7 billion times, on each device.",
    ),
    Question(
        "6b",
        "By how many GB do a device's stored arguments shrink from ZeRO-1 to ZeRO-2",
        lambda: _stored(_OPTIMIZER) - _stored({**_OPTIMIZER, "grads/*": {"ffn": "data"}}),
        because="Gradients are made and used up within a step: they count at its peak, and are not stored from one step"
        " to the next.",
    ),
    Question(
        "6c",
        "Llama 3 8B on 8 H100s, one sequence of 4,096 tokens on each: how many GB is the peak under FSDP, within 25%",
        _peak_of_llama,
        near=0.25,
        because="12 bytes of each of 8 billion parameters, by 8, are 12 GB. Gradients, bfloat16 copies, activations and"
        " temporaries come on top.",
    ),
)
