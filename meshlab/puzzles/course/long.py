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


def _turns() -> int:
    """How many times each of 8 devices passes keys on in a ring."""
    plan = programs.attention(fused=True).plan(ml.mesh(y=8), "seq:y kv:y")
    return next(collective.times for collective in plan.collectives)


PUZZLES = (P14,)
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
)
