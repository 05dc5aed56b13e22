"""Where communication comes from: only dims that are summed while split, and what is laid out anew."""

from __future__ import annotations

import meshlab as ml

from ...goals.goals import Goal
from ..play.puzzle import Puzzle
from ..play.question import Question
from ..play.setting import Ask
from . import programs


def _most_sent(share: float = 1.0):
    """A goal that follows from the sizes: the logits, summed over both axes, times a share."""

    def goal(program: ml.Program) -> Goal:
        whole = 4 * program.dims["batch"] * program.dims["classes"]
        return ml.goal(keeps={"batch": None}, sends=2 * (3 / 4) * whole * share)

    return goal


P04 = Puzzle(
    "P04",
    "Nothing sent",
    programs.perceptron,
    ml.mesh(x=2, y=2),
    ml.goal(sends=0),
    "batch:x+y",
    ("batch:x", "batch:x hidden:y", "embed:x hidden:y", None),
    "Two layers, forward. Use all four devices, repeat no work, and send nothing.",
    Ask("How many collectives does `batch:x hidden:y` run", lambda plan: len(plan.collectives), "batch:x hidden:y"),
    drawn=("batch", "embed", "hidden"),
)

P05 = Puzzle(
    "P05",
    "What is summed",
    programs.digits,
    ml.mesh(x=2, y=2),
    _most_sent(),
    "hidden:x+y",
    ("batch:x hidden:y", "rows:x hidden:y", "hidden:y"),
    "The network for digits, forward. Leave the batch whole, use all four devices, and send as little as possible.",
    Ask(
        "How many bytes does a device put into the all-reduce of `batch:x hidden:y`",
        lambda plan: plan.collectives[0].payload_bytes,
        "batch:x hidden:y",
    ),
    drawn=("batch", "rows", "cols", "hidden"),
)

P07 = Puzzle(
    "P07",
    "Sum, and keep a part",
    programs.product,
    ml.mesh(x=4),
    ml.goal(stored={"out": "hidden:x"}, keeps={"batch": None}, collectives={"reduce-scatter": 1, "*": 1}),
    {"embed": "x", "out": {"hidden": "x"}},
    ("embed:x", "hidden:x", "batch:x"),
    "A matmul whose result is stored sharded along `hidden`. Sum it with one reduce-scatter, and no other collective.",
    Ask(
        "By what factor does the all-reduce of `embed:x` send more than that reduce-scatter",
        lambda plan: plan.wire_bytes / plan.program.plan(plan.mesh, P07.answer).wire_bytes,
        "embed:x",
    ),
    start={"out": {"hidden": None}},  # so that the board has a column for it
    drawn=("batch", "embed", "hidden"),
)

P09 = Puzzle(
    "P09",
    "Which axis sums",
    lambda: programs.product().resize(batch=4096, embed=4096, hidden=4096),
    ml.mesh("v5p:2x2x4", X=2, Y=2, Z=4),
    ml.goal(keeps={"hidden": None}, stores="40 MB", step="120 us"),
    "embed:X batch:Y+Z",
    ("embed:Z batch:X+Y", "batch:X+Y+Z", "embed:X batch:Z"),
    "A matmul of 4,096³ on 16 chips, with `hidden` whole and at most 40 MB of arguments on a chip."
    " It may take 0.12 ms: over which mesh axis is it summed?",
    Ask(
        "How many microseconds, within 10%, does the matmul take under `embed:Z batch:X+Y`",
        lambda plan: plan.time.estimate * 1e6,
        "embed:Z batch:X+Y",
        near=0.1,
    ),
    chips=("batch", "embed"),
)

P13 = Puzzle(
    "P13",
    "Reshard an array",
    programs.turned,
    ml.mesh(y=4),
    lambda program: ml.goal(
        busy=False,
        stored={"a": "i:y", "out": "j:y"},
        sends=4 * program.dims["i"] * program.dims["j"] / 4 * 3 / 4,
    ),
    {"a": {"i": "y"}, "out": {"j": "y"}},
    ("i:y", "j:y", {"a": {"i": "y"}, "middle": {"i": None}, "out": {"j": "y"}}),
    "The argument is stored sharded along `i`, the result along `j`. Send no more than an all-to-all.",
    Ask(
        "By what factor does gathering the array first send more",
        lambda plan: plan.wire_bytes / plan.program.plan(plan.mesh, P13.answer).wire_bytes,
        {"a": {"i": "y"}, "middle": {"i": None}, "out": {"j": "y"}},
    ),
    start={"a": {"i": None}, "out": {"j": None}},
    drawn=("i", "j"),
)

PUZZLES = (P04, P05, P07, P09, P13)
QUESTIONS: tuple[Question, ...] = ()
