"""The backward pass: what is repeated forward is summed backward."""

from __future__ import annotations

import meshlab as ml

from ..play.puzzle import Puzzle
from ..play.question import Question
from ..play.setting import Ask
from . import programs


def payload(plan: ml.Plan) -> float:
    """The bytes that a device puts into the collectives of a step."""
    return sum(c.payload_bytes * c.times for c in plan.collectives)


def in_each(plan: ml.Plan) -> float:
    """How many times as much is sent where gradients are summed in each micro-batch."""
    mesh = ml.mesh(data=4, micro=ml.serial(4, reduce="each"))
    return plan.program.plan(mesh, plan.layout).wire_bytes / plan.wire_bytes


P06 = Puzzle(
    "P06",
    "Gradients of the whole batch",
    programs.digits_gradients,
    ml.mesh(x=4),
    lambda program: ml.goal(sends=2 * (3 / 4) * 4 * program.dims["batch"] * program.dims["classes"]),
    "hidden:x",
    ("batch:x", "rows:x", "cols:x", None),
    "The gradients of the network for digits. Use all four devices, and send no more than a sum of the logits.",
    Ask("How many bytes does a device put into the all-reduces of both gradients under `batch:x`", payload, "batch:x"),
    drawn=("batch", "rows", "cols", "hidden"),
)

P19 = Puzzle(
    "P19",
    "Sum once",
    lambda: programs.perceptron_step(4096),
    ml.mesh(data=4, micro=ml.serial(4, reduce="once")),
    ml.goal(peak="600 kB", sends="50 kB"),
    "batch:data+micro",
    ("batch:data", "batch:micro", "batch:micro hidden:data"),
    "A step with four micro-batches, whose gradients are summed once. Send no more than data parallelism, in 600 kB.",
    Ask("By what factor does the traffic grow if each micro-batch sums its gradients", in_each, "batch:data+micro"),
)


def _of_the_loss() -> float:
    plan = programs.perceptron_step().plan(ml.mesh(x=4), "batch:x")
    return next(c.payload_bytes for c in plan.collectives if c.value == "out/0")


PUZZLES = (P06, P19)
QUESTIONS = (
    Question(
        "4a",
        "Under `batch:x`, how many bytes does a device put into the all-reduce of the loss",
        _of_the_loss,
        because="A loss has no dims left: it is a single number of 32 bits, however large the batch.",
    ),
)
