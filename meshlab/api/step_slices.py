"""What runs on a device in a predicted step, and when: the board's timeline draws it, a Chrome trace lists it.

    slices = list(slices_of(plan.time.spent.spans, 0))
    for each in slices:
        each.thread, each.begin, each.seconds, described(plan, each.span.step, each.span.kind)
    for frame in frames_of(slices, paths_of(plan)):
        frame.depth, frame.part.name, frame.begin, frame.seconds            1, "attention", 0.31, 0.02

A slice is a kernel, a collective, or a loop or one of its iterations around those inside. The slices of a thread add up
to the seconds of `plan.time`: of kernels to `compute`, of mesh axes to `communication` (on GPUs kernels beside
collectives take longer, by as much). Where iterations are not told one by one, one is stretched over the time of all.

A frame is the stretch of what kernels have in common that follow each other: a loop, an iteration, a repetition of
layers that are written out, a scope (or else a function), a line. Frames are inside each other, as calls in a profile.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..cost.step_time.spent import WAITING, Span
from ..engine.code.source import Source
from ..engine.planning.shared_steps import WrittenOut, written_out
from ..engine.planning.step import Step
from ..engine.plans.plan_data import Plan
from ..engine.programs.gradients import gradient_values

KERNELS, LOOPS = "kernels", "loops"
LOOP, ITERATION, REPETITION, SCOPE, FUNCTION, LINE = "loop", "iteration", "repetition", "scope", "function", "line"
# A loop is two frames: it, and an iteration.
_FRAMES = 2


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
        depth: how many frames of loops it is in.
        loop: the number of the innermost loop that it is in, in the order in which they are yielded; -1 for none.
    """

    thread: str
    span: Span
    begin: float
    seconds: float
    times: int = 1
    iteration: int | None = None
    depth: int = 0
    loop: int = -1


class Part(NamedTuple):
    """What kernels have in common: its kind, what it is called, and where it is written."""

    kind: str
    name: str
    source: Source | None = None


class Frame(NamedTuple):
    """The stretch in which kernels that have something in common follow each other.

    Attributes:
        depth: how many frames it is in.
        part: what they have in common.
        begin: when it begins, in seconds from the beginning of the step.
        seconds: how long it takes.
        times: how many iterations a loop has; else 1.
        loop: the number of the innermost loop that it is in; -1 for none.
    """

    depth: int
    part: Part
    begin: float
    seconds: float
    times: int = 1
    loop: int = -1


def slices_of(spans: Sequence[Span], most: int) -> Iterator[Slice]:
    """Yields what runs on a device, loops before what is inside them.

    Args:
        spans: of a step's outermost block.
        most: slices, above which iterations are not told one by one.
    """
    yield from _slices(spans, 0.0, 1.0, _Around(_count(spans) <= most, itertools.count()))


class _Around(NamedTuple):
    """What is around the slices of a block: how often they run, and in which loop.

    Attributes:
        each: whether each iteration is told.
        numbers: those of the loops to come.
    """

    each: bool
    numbers: Iterator[int]
    times: int = 1
    depth: int = 0
    loop: int = -1


def _slices(spans: Sequence[Span], start: float, scale: float, around: _Around) -> Iterator[Slice]:
    _, _, times, depth, loop = around
    for span in spans:
        begin, seconds = start + span.begin * scale, (span.end - span.begin) * scale
        if not span.inside:
            if not span.step.parts or span.step.in_time:  # what a loop in time accumulates is a kernel
                yield Slice("+".join(span.axes) or KERNELS, span, begin, seconds, times, None, depth, loop)
            continue
        inside = around
        if span.step.loops:
            yield Slice(LOOPS, span, begin, seconds, int(span.times), None, depth, loop)
            inside = around._replace(depth=depth + _FRAMES, loop=next(around.numbers))
        told = int(span.times) if around.each else 1
        inside, one = inside._replace(times=times * int(span.times) // told), seconds / told
        for number in range(told):
            if told > 1:
                yield Slice(LOOPS, span, begin + number * one, one, 1, number, depth + 1, inside.loop)
            inner = one / span.iteration if span.iteration else 0.0
            yield from _slices(span.inside, begin + number * one, inner, inside)


def _count(spans: Sequence[Span]) -> int:
    """The number of slices where each iteration is told."""
    return sum(1 + int(span.times) * (1 + _count(span.inside)) if span.inside else 1 for span in spans)


def frames_of(slices: Iterable[Slice], path_of: Callable[[Step], Sequence[Part]]) -> Iterator[Frame]:
    """Yields the frames of kernels and loops; those of one depth follow each other.

    Args:
        slices: as `slices_of` yields them.
        path_of: what a step is in, outermost first, but for loops.
    """
    opened: list[tuple[Part, float]] = []
    depth, loop, end = 0, -1, 0.0
    for each in slices:
        if each.thread not in (KERNELS, LOOPS):
            continue
        path = path_of(each.span.step) if each.thread == KERNELS else ()
        same = 0
        while each.depth == depth and same < min(len(path), len(opened)) and opened[same][0] == path[same]:
            same += 1
        yield from (Frame(depth + i, *opened[i], end - opened[i][1], 1, loop) for i in range(same, len(opened)))
        depth, loop, end = each.depth, each.loop, each.begin + each.seconds
        opened = [*opened[:same], *((part, each.begin) for part in path[same:])]
        if each.thread == LOOPS:
            yield Frame(depth, loop_of(each), each.begin, each.seconds, each.times, loop)
    yield from (Frame(depth + i, part, begin, end - begin, 1, loop) for i, (part, begin) in enumerate(opened))


def loop_of(each: Slice) -> Part:
    """Returns what a loop, or one of its iterations, is called."""
    step = each.span.step
    if each.iteration is not None:
        return Part(ITERATION, f"iteration {each.iteration}")
    source = step.runs.source if step.runs else None
    return Part(LOOP, step.title or f"loop over {step.in_time}", source)


def paths_of(plan: Plan) -> Callable[[Step], Sequence[Part]]:
    """Returns a function that says of a step of the plan what it is in, but for loops."""
    known = {id(each.step): _path(each) for each in written_out(plan.planned.steps, plan.steps)}
    return lambda step: known.get(id(step), ())


def _path(each: WrittenOut) -> Sequence[Part]:
    operation, path = each.step.serves, []
    if each.repetitions > 1:
        path.append(Part(REPETITION, f"{each.number:,} of {each.repetitions:,}"))
    if operation is None:
        return path
    source = operation.source
    path += [Part(SCOPE, name) for name in operation.scope]
    if source is not None:
        if not operation.scope and not source.function.startswith("<"):
            path.append(Part(FUNCTION, source.function))
        path.append(Part(LINE, source.code or str(source), source))
    return path


def described(plan: Plan, step: Step | None, kind: str) -> tuple[str, Sequence[str | None], Source | None]:
    """Returns the name of what a step moves, or of its operation, with the dims and the line; or that it waits."""
    if kind == WAITING:
        return "waiting for other stages", (), None
    if step is not None and step.named is not None:
        shown = plan.program.value(step.named)
        gradient = None if shown.place else gradient_values(plan.program).get(step.named)
        return f"gradient of {gradient}" if gradient else shown.label, shown.dims, shown.source
    operation = step.runs if step is not None else None
    if operation is None:
        return "", (), None
    dims = plan.program.names[operation.outputs[0]] if operation.outputs else ()
    return operation.called, dims, operation.source


def in_order(mesh_axes: Iterable[str]) -> Callable[[Sequence[str]], tuple[bool, list[int]]]:
    """Returns a key by which lanes are sorted as the mesh is: kernels, its axes, and then sets of them."""
    order = list(mesh_axes)
    return lambda axes: (len(axes) > 1, [order.index(axis) for axis in axes])
