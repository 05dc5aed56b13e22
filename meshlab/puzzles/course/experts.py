"""Experts: a new layout is an all-to-all. Pipelines: stages wait while they fill and drain."""

from __future__ import annotations

import itertools
from fractions import Fraction

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
    "Tokens come in groups, and each expert works for all groups. Repeat no work, and send everything with two"
    " all-to-alls.",
    Ask(
        "By what factor does `experts:y` send more than the two all-to-alls",
        lambda plan: plan.wire_bytes / plan.program.plan(plan.mesh, P16.answer).wire_bytes,
        "experts:y",
    ),
    drawn=("groups", "tokens", "embed", "ffn"),
)

P21 = Puzzle(
    "P21",
    "Experts without a capacity",
    programs.dropless,
    ml.mesh(y=4),
    ml.goal(collectives={"all-to-all": 3, "*": 3}),
    "tokens:y experts:y",
    ("experts:y", "tokens:y", "tokens:y ffn:y", "ffn:y"),
    "Give each device its own tokens and its own experts. Three all-to-alls send rows to their experts, the numbers of"
    " these experts, and the results back. Nothing else is sent.",
    Ask(
        "How many collectives does `experts:y` run",
        lambda plan: sum(each.times for each in plan.collectives),
        "experts:y",
    ),
    drawn=("tokens", "embed", "ffn"),
)


P17 = Puzzle(
    "P17",
    "Layers in a pipeline",
    programs.deep,
    ml.mesh(data=2, pipe=ml.stages(4), micro=ml.serial(8)),
    ml.goal(busy=1.4, keeps={"batch": "data"}),
    "batch:data+micro layers:pipe",
    ("batch:data", "batch:data+micro", "batch:micro layers:pipe", None),
    "A train step of eight layers on two rows of four stages. `pipe` is an axis of stages, and `micro` cuts the batch"
    " into eight micro-batches. Repeat no work. A stage that waits could have worked, so its waiting counts as work.",
    Ask(
        "In the pipeline, how many times its even share of the work does a stage do, if its waiting counts as work",
        lambda plan: plan.work.taken * plan.work.devices,
        "batch:data+micro layers:pipe",
        near=0.01,
    ),
    drawn=("batch",),
    chips=("batch", "layers"),
)


def bubble(stages: int, micro: int) -> Fraction:
    """The share of a pipeline's time in which a stage waits: GPipe, arXiv 1811.06965."""
    return Fraction(stages - 1, micro + stages - 1)


def _of_tensor_parallelism() -> float:
    """How many times the bytes of expert parallelism tensor parallelism in the experts sends."""
    inside = P16.program.plan(P16.mesh, "groups:y ffn:y")
    return inside.wire_bytes / P16.program.plan(P16.mesh, P16.answer).wire_bytes


def _never_drops() -> float:
    """The factor with which nothing is dropped, whatever tokens choose."""
    return max(P21.program.plan(P21.mesh, P21.answer).memory.range.most.values())


def _of_one_often() -> float:
    """How many times the mean number of rows a device has, with one expert chosen as often as all others together."""
    plan = P21.program.plan(ml.mesh("h100:1x1x4", y=4), P21.answer)
    (busiest,) = plan.time.given(load=(7, *[1] * 7)).experts
    return busiest.asked


PUZZLES = (P16, P17, P21)
QUESTIONS = (
    Question(
        "8a",
        "On 4 devices, by what factor does `groups:y ffn:y` send more than the two all-to-alls of P16",
        _of_tensor_parallelism,
        because="An all-gather brings all tokens to each device, and a reduce-scatter sums the results: each of the two"
        " sends n times what an all-to-all does, and n is 4.",
    ),
    Question(
        "8b",
        "On 4 devices, which is the smallest factor of `ml.dispatch` that never drops a choice",
        _never_drops,
        because="All tokens may choose the experts of one device: it then has all rows, 4 times its share.",
    ),
    Question(
        "8c",
        "4 devices have 2 experts each. Tokens choose the first of the 8 experts as often as all others together, and"
        " the others equally often: how many times the mean number of rows does the first expert's device get",
        _of_one_often,
        near=0.01,
        because="It gets 7/14 of all rows for the first expert and 1/14 for the second: 8/14. The mean is 1/4.",
    ),
    Question(
        "8d",
        "A pipeline of 4 stages and 8 micro-batches: in what share of its ticks does a stage wait",
        lambda: float(bubble(4, 8)),
        near=0.01,
        because="There are 8 + 4 − 1 = 11 ticks, and a stage waits in 3: while the pipeline fills, or while it drains.",
    ),
    Question(
        "8e",
        "What is the least number of micro-batches with which 4 stages wait in less than 10% of the ticks",
        lambda: next(micro for micro in itertools.count(1) if bubble(4, micro) < Fraction(1, 10)),
        because="3/(m + 3) < 1/10 where m + 3 > 30; with m = 27 it is exactly 10%.",
    ),
    Question(
        "8f",
        "4 stages and 8 micro-batches: under 1F1B, for how many micro-batches does the first stage keep activations at"
        " once",
        lambda: ml.Schedule.of("1f1b", stages=4, micro=8).in_flight[0],
        because="The first stage runs 4 forward cells before its first backward cell. From then on, each forward cell"
        " follows a backward cell, which frees its micro-batch.",
    ),
    Question(
        "8g",
        "4 stages, 8 micro-batches, backward cells twice as long as forward ones, and each tick as long as its longest"
        " cell: for what share of the step does a stage wait under 1F1B",
        lambda: ml.Schedule.of("1f1b", stages=4, micro=8).waits,
        near=0.01,
        because="Most ticks have a backward cell on some stage, and last as long as it: the step takes 5/3 of the time"
        " in which a stage works.",
    ),
)
