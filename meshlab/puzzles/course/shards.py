"""Meshes and shards: how many copies there are, what a device holds, which layouts are legal."""

from __future__ import annotations

import itertools
import math

import meshlab as ml

from ..play.puzzle import Puzzle
from ..play.question import Question
from ..play.setting import Ask
from . import programs


def copies(plan: ml.Plan) -> float:
    """How many bytes all devices hold of arguments, for each byte of them."""
    one = plan.program.plan(ml.mesh(alone=1)).stored.argument_bytes
    return plan.stored.argument_bytes * math.prod(plan.mesh.axes.values()) / one


def legal(plan: ml.Plan) -> int:
    """How many layouts are legal in which each dim lies on one mesh axis or none."""
    dims, found = list(plan.program.dims), 0
    for chosen in itertools.product((None, *plan.mesh.axes), repeat=len(dims)):
        rules = {dim: axis for dim, axis in zip(dims, chosen, strict=True) if axis}
        try:
            plan.program.plan(plan.mesh, rules)
        except ml.LayoutError:
            continue
        found += 1
    return found


P01 = Puzzle(
    "P01",
    "Copies",
    programs.cube,
    ml.mesh(X=4, Y=8, Z=2),
    lambda program: ml.goal(
        busy=False, stored={"a": 4 * math.prod(program.dims.values()) / 64}, keeps={"j": None, "k": "Z"}
    ),
    "i:X+Y k:Z",
    ("i:X", "i:X k:Z", "i:Y k:Z", "j:Y i:X k:Z"),
    "64 devices hold one array of floats. Store one copy in total, with `k` on `Z` and `j` whole.",
    Ask("How many copies of the array do all devices hold together under `i:X`", copies, "i:X"),
    drawn=("i",),
)

P02 = Puzzle(
    "P02",
    "What a device holds",
    programs.table,
    ml.mesh(X=2, Y=8, Z=2),
    ml.goal(busy=False, stored={"a": 16_384}, keeps={"i": "Y"}),
    "i:Y j:X",
    ("i:Y", "i:X+Y"),
    "A table of 128 × 2,048 bytes. Keep the rows on `Y` alone, and store at most 16,384 bytes on a device.",
    Ask("How many bytes does a device hold under `i:X+Z`", lambda plan: plan.stored.argument_bytes, "i:X+Z"),
    drawn=(),
)

P03 = Puzzle(
    "P03",
    "What is legal",
    programs.perceptron,
    ml.mesh(x=2, y=2),
    lambda program: ml.goal(
        busy=False,
        stored={"x": "batch:whole embed:whole", "w/*": 2 * program.dims["embed"] * program.dims["hidden"]},
    ),
    "hidden:x+y",
    ("embed:x hidden:y", "batch:x hidden:y", "hidden:x", None),
    "Two dims of one array cannot share a mesh axis. Give each device all of `x`, and a quarter of each weight.",
    Ask("Each dim is on `x`, on `y`, or on neither: how many of the 27 layouts are legal", legal),
    drawn=("batch", "embed", "hidden"),
)

PUZZLES = (P01, P02, P03)
QUESTIONS = (
    Question(
        "2a",
        "On a mesh data=4 × model=2, which is the first row of a batch of 64 that device 5 holds under `batch:data`",
        lambda: programs.perceptron_step().plan(ml.mesh(data=4, model=2), "batch:data").shard("x", 5)[0][0],
        because="Device 5 is in row 5 // 2 = 2 of the mesh, and each row holds 64 / 4 = 16 rows of the batch.",
    ),
)
