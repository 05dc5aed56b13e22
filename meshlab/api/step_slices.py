"""What runs on a device in a predicted step, and when: the board's timeline draws it, a Chrome trace lists it.

    for each in slices_of(plan.time.spent.spans):
        each.thread, each.begin, each.seconds, described(plan, each.span.step)

A slice is a kernel, a collective, or a loop or one of its iterations around those inside. The slices of a thread add up
to the seconds of `plan.time`: of kernels to `compute`, of mesh axes to `communication` (on GPUs kernels beside
collectives take longer, by as much). Where iterations are not told one by one, one is stretched over the time of all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ..cost.step_time.spent import Span
from ..engine.code.source import Source
from ..engine.planning.step import Step
from ..engine.plans.plan_data import Plan

KERNELS, LOOPS = "kernels", "loops"


@dataclasses.dataclass(frozen=True)
class Slice:
    """A stretch of one thread, in seconds from the beginning of the step.

    Attributes:
        thread: `KERNELS`, `LOOPS`, or the mesh axes of a collective.
        span: what runs, or the loop that it is an iteration of.
        begin: when it begins.
        seconds: how long it takes.
        times: how many executions it stands for.
        iteration: its number, of an iteration of a loop; else None.
    """

    thread: str
    span: Span
    begin: float
    seconds: float
    times: int = 1
    iteration: int | None = None


def slices_of(spans: Sequence[Span], most: int) -> Iterator[Slice]:
    """Yields what runs on a device, loops before what is inside them.

    Args:
        spans: of a step's outermost block.
        most: slices, above which iterations are not told one by one.
    """
    yield from _slices(spans, 0.0, 1.0, _count(spans) <= most, 1)


def _slices(spans: Sequence[Span], start: float, scale: float, each: bool, times: int) -> Iterator[Slice]:
    for span in spans:
        begin, seconds = start + span.begin * scale, (span.end - span.begin) * scale
        if not span.inside:
            if not span.step.parts or span.step.in_time:  # what a loop in time accumulates is a kernel
                yield Slice("+".join(span.axes) or KERNELS, span, begin, seconds, times)
            continue
        if span.step.loops:
            yield Slice(LOOPS, span, begin, seconds, int(span.times))
        told, inside = (int(span.times), times) if each else (1, times * int(span.times))
        one = seconds / told
        for number in range(told):
            if told > 1:
                yield Slice(LOOPS, span, begin + number * one, one, iteration=number)
            inner = one / span.iteration if span.iteration else 0.0
            yield from _slices(span.inside, begin + number * one, inner, each, inside)


def _count(spans: Sequence[Span]) -> int:
    """The number of slices where each iteration is told."""
    return sum(1 + int(span.times) * (1 + _count(span.inside)) if span.inside else 1 for span in spans)


def described(plan: Plan, step: Step | None) -> tuple[str, Sequence[str | None], Source | None]:
    """Returns the name of what a step moves, or of its operation, with the dims and the line."""
    if step is not None and step.named is not None:
        shown = plan.program.value(step.named)
        return shown.label, shown.dims, shown.source
    operation = step.runs if step is not None else None
    if operation is None:
        return "", (), None
    dims = plan.program.names[operation.outputs[0]] if operation.outputs else ()
    return operation.name, dims, operation.source
