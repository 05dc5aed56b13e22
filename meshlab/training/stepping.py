"""The loop of a training: feed a batch, run the plan, carry its outputs to the next step.

    for step in taken(plan, start, feeds, signature):
        step.loss, step.values["params"]

`plan.fit` and the Run button of a board both take their steps from here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from time import perf_counter
from typing import Any

import jax

from ..engine.running.printing import run_printing
from .feeding import check_batch
from .signature import Signature


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """One step that was taken.

    Attributes:
        values: the step's arguments by name; of those that are carried, what the step gave.
        outputs: what it returned, in order.
        batch: which arguments were of its batch.
        loss: None where the program has none.
        metrics: the other numbers, by place.
        seconds: from its call until its outputs are there; the first compiles too.
    """

    values: Mapping[str, Any]
    outputs: tuple[Any, ...]
    batch: frozenset[str]
    loss: float | None
    metrics: Mapping[str, float]
    seconds: float


def taken(
    plan: Any,
    start: Mapping[str, Any],
    feeds: Iterator[Mapping[str, Any]],
    signature: Signature,
    donate: bool = False,
) -> Iterator[Step]:
    """Yields the steps of a training, one for each batch.

    Args:
        plan: the plan to run.
        start: values of its arguments, by name.
        feeds: the arguments that change, step by step.
        signature: which of its outputs is the loss.
        donate: whether a step may overwrite what the one before gave.
    """
    program, values = plan.program, dict(start)
    for batch in feeds:
        check_batch(batch, start, program)
        values.update(batch)
        begun = perf_counter()
        arguments = tuple(values[name] for name in program.parameters)
        outputs = jax.block_until_ready(run_printing(plan, arguments, donate))
        seconds = perf_counter() - begun
        ordered = tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)
        values.update({name: ordered[index] for name, index in program.carry.items()})
        yield Step(dict(values), ordered, frozenset(batch), *signature.read(outputs), seconds)
