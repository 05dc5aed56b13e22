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
    lambda program: ml.goal(sends=0, stores=4 * _elements(program) / 4),
    "heads:y",
    ("seq:y", _GATHERED, "kv:y", "head:y"),
    "The core of attention. Each device stores a quarter of all three arrays. Send nothing.",
    Ask(
        "How many bytes does a device send if queries, keys and values are all stored sharded along the sequence",
        lambda plan: plan.wire_bytes,
        _GATHERED,
    ),
    drawn=("kv", "heads"),
)

_RING = "seq:y kv:y"

P15 = Puzzle(
    "P15",
    "Pass the keys around",
    programs.attention_gradients,
    ml.mesh(y=4),
    ml.goal(peak="3 MB"),
    _RING,
    ("seq:y", "kv:y", "head:y"),
    "Attention as one operation, forward and backward, with fewer heads than devices. All four devices work, and none"
    " ever holds all keys: at most 3 MB at the peak.",
    Ask(
        "In a ring, keys and values go around once in the forward pass and once in the backward pass. The backward"
        " pass also sends their gradients around, and back to the device of the keys. How many collective-permutes does"
        " a device run",
        lambda plan: sum(c.times for c in plan.collectives if c.kind == "collective-permute"),
        _RING,
    ),
)


def _elements(program: ml.Program) -> int:
    dims = program.dims
    return dims["batch"] * dims["heads"] * dims["head"] * (dims["seq"] + 2 * dims["kv"])


def _peak(seq: int) -> float:
    """GB at the peak of Llama 3 8B under FSDP on 8 H100s, one sequence on each."""
    mesh, program = ml.mesh("h100", data=8), programs.llama_8b(seq=seq)
    return program.plan(mesh, ml.layouts.fsdp(program, mesh)).memory.donated.peak_bytes / 1e9


def _of_gathering() -> float:
    """How many times the bytes of Ulysses a layer of attention sends that gathers keys and values."""
    mesh, program = ml.mesh(y=8), programs.attention()
    ulysses = program.plan(mesh, {"seq": "y", "@core": {"seq": None, "heads": "y"}})
    return program.plan(mesh, "seq:y").wire_bytes / ulysses.wire_bytes


def _busiest() -> float:
    """What percentage of the FLOPs of causal attention the last of 8 devices has in a ring."""
    return 100 * programs.attention_gradients(causal=True).plan(ml.mesh(y=8), _RING).work.share


def _turns() -> int:
    """How many times each of 8 devices passes keys on in a ring."""
    plan = programs.attention(fused=True).plan(ml.mesh(y=8), "seq:y kv:y")
    return next(collective.times for collective in plan.collectives)


PUZZLES = (P14, P15)
QUESTIONS = (
    Question(
        "7a",
        "Llama 3 8B under FSDP on 8 H100s, a sequence on each: how many GB is the peak at 32,768 tokens, within 15%",
        lambda: _peak(32_768),
        near=0.15,
        because="Linear: from 4,096 to 8,192 tokens it grew by 2.8 GB, and there are six more steps of that size.",
    ),
    Question(
        "7b",
        "On 8 devices, by what factor does a layer of attention send more with keys and values gathered than with heads"
        " split in its core",
        _of_gathering,
        because="Of n devices each gathers (n − 1)/n of two whole arrays, or sends (n − 1)/n of its n-th part of four:"
        " the factor is n/2.",
    ),
    Question(
        "7c",
        "In a ring of 8 devices, how many times does each device pass keys on to the next",
        _turns,
        because="Its own keys are there from the start; the keys of the seven others come by, one after another.",
    ),
    Question(
        "7d",
        "Under a causal mask, what percentage of the FLOPs of attention does the busiest of 8 devices do in a ring,"
        " within 3%",
        _busiest,
        near=0.03,
        because="The last eighth of the queries looks at 15/16 of the keys, the average query at a half: 1/8 × 15/8.",
    ),
)
