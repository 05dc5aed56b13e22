"""The pieces of a predicted step, those that take most of it first: what bounds each, and why.

    plan.time.pieces[0].bound       "memory"
    plan.time.pieces[0].because     "12 FLOP/B, below the ridge of 240: it waits for memory."
    plan.time.because               "Most of it: 3.10 ms: dot_general at model.py:7. 12 FLOP/B, below …"

A piece is all kernels of one operation on one line, in one pass, or all collectives of one of the plan's steps. Of a
collective the seconds count in which no kernel runs. Kernels, and these seconds, add up to the estimate, but for
collectives beside each other.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ...engine.planning.shared_steps import written_out
from ...engine.plans.wording import quoted
from ...engine.specs.spec import Axes
from ..machines.units import bytes_text, seconds_text, share_text
from ..workload.scenario import Scenario
from .kernel_groups import COMPUTE, LAUNCH, Group, groups_of
from .spent import WAITING, Span, Spent

_KERNEL = "compute"
# From this share on a piece is most of the step.
_MOST = 0.5
# Less than this share of a collective is not said to be exposed, or hidden.
_LITTLE = 1e-3


@dataclasses.dataclass(frozen=True)
class Piece:
    """What takes a part of a step.

    Attributes:
        name: the operation, "dot_general, backward", or the collective, "all-reduce of logits".
        source: the user's line; "" where there is none.
        bound: "compute", "memory", "launch", "communication over" mesh axes, or "waiting" of a pipeline's stage.
        seconds: of all its executions.
        exposed: of these, the seconds that it adds to the step: of kernels all, of collectives those in which no
            kernel runs.
        times: how often it is executed.
        because: why it takes so long.
        intensity: FLOPs per byte of kernels with matmuls; else None.
        repeated: the mesh axes along which devices repeat it.
    """

    name: str
    source: str
    bound: str
    seconds: float
    exposed: float
    times: int
    because: str
    intensity: float | None = None
    repeated: Axes = ()


def pieces_of(scenario: Scenario, spent: Spent) -> tuple[Piece, ...]:
    """Returns the pieces of a step at one point, those first that add most to it."""
    kernels = [_of_kernels(group, scenario) for group in groups_of(scenario, spent)]
    every = *kernels, *_collectives(scenario, spent), *_waiting(scenario, spent)
    return tuple(sorted(every, key=lambda piece: (-piece.exposed, -piece.seconds)))


def summary(pieces: Sequence[Piece], seconds: float) -> str:
    """Says which piece adds most to a step of so many seconds, and why; "" of a step without any."""
    first = next(iter(pieces), None)
    if first is None or not first.exposed:
        return ""
    head = "Most of it" if first.exposed > _MOST * seconds else "The largest part"
    where = f" at {first.source}" if first.source else ""
    return f"{head}: {seconds_text(first.exposed)}: {first.name}{where}. {first.because}".strip()


def _waiting(scenario: Scenario, spent: Spent) -> Iterator[Piece]:
    """Yields what the busiest stage of a pipeline waits, where it does."""
    if spent.idle:
        seconds, schedule = float(spent.idle), scenario.plan.schedule
        why = f"The schedule is {schedule}. Stages wait while the pipeline fills and drains, and for slower stages."
        yield Piece("waiting for other stages", "", WAITING, seconds, seconds, 1, why)


def _of_kernels(group: Group, scenario: Scenario) -> Piece:
    bound = group.bound(scenario)
    # A launch takes as long for a part of the work.
    why = _waits(group, bound, scenario) + ("" if bound == LAUNCH else _repeats(group.repeated))
    seconds = group.seconds
    return Piece(group.name, group.source, bound, seconds, seconds, group.count, why, group.intensity, group.repeated)


def _waits(group: Group, bound: str, scenario: Scenario) -> str:
    """Says what kernels wait for, by their arithmetic intensity beside the machine's ridge."""
    if bound == LAUNCH:
        took = seconds_text(group.launch(scenario))
        return (
            f"It waits for its launch, {took}."
            if group.count == 1
            else f"It waits for {group.count:,} launches, {took} each."
        )
    rate = float(scenario.flops_per_second(group.dtype)) if group.dtype else 0.0
    ridge = rate / float(scenario.bytes_per_second)
    if bound == COMPUTE:
        if group.intensity is not None and group.intensity >= ridge:
            return (
                f"{_ratio(group.intensity)} FLOP/B, above the ridge of {_ratio(ridge)}: it waits for the matrix units."
            )
        share = share_text(group.flops / group.seconds / rate)
        return f"It waits for the matrix units, of whose FLOP/s these sizes reach {share}."
    if group.intensity is not None and group.intensity < ridge:
        return f"{_ratio(group.intensity)} FLOP/B, below the ridge of {_ratio(ridge)}: it waits for memory."
    none = "" if group.flops else " and multiplies no matrices"
    return f"It waits for memory: it reads and writes {bytes_text(group.nbytes)}{none}."


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def _repeats(axes: Axes) -> str:
    if not axes:
        return ""
    return f" Devices along {quoted(axes)} repeat it: no dim there is on {'it' if len(axes) == 1 else 'them'}."


def _collectives(scenario: Scenario, spent: Spent) -> Iterator[Piece]:
    """Yields the collectives of each step of the plan, by kind and mesh axes."""
    plan, options = scenario.plan, scenario.options
    place = {id(each.step): each.position for each in written_out(plan.planned.steps, plan.steps)}
    found: dict[tuple[int, str, Axes], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for span, times, exposed in _sent(spent.spans, 1.0):
        row = found[place[id(span.step)], span.kind, span.axes]
        for at, more in enumerate(((span.end - span.begin) * times, exposed * times, times)):
            row[at] += more
    for (position, kind, axes), (seconds, exposed, times) in found.items():
        rows = plan.collectives_by_step[position]
        one = next((row for row in rows if row.kind == kind and set(row.axes) == set(axes)), next(iter(rows), None))
        hidden = "" if options.prefetch else _hidden(seconds, exposed)
        why = " ".join(filter(None, (one.because if one else "", hidden)))
        name, over = f"{kind} of {one.value}" if one else kind, f"communication over {'+'.join(axes)}"
        source = str(one.source) if one and one.source else ""
        yield Piece(name, source, over, seconds, exposed, round(times), why)


def _hidden(seconds: float, exposed: float) -> str:
    if exposed <= _LITTLE * seconds:
        return "Kernels hide it."
    if exposed >= (1 - _LITTLE) * seconds:
        return "No kernel runs meanwhile."
    return f"No kernel runs during {seconds_text(exposed)} of its {seconds_text(seconds)}."


def _sent(spans: Sequence[Span], times: float) -> Iterator[tuple[Span, float, float]]:
    """Yields each collective with how often it runs, and the seconds of it in which no kernel of its block runs."""
    busy = sorted((span.begin, span.end) for span in spans if span.inside or span.kind == _KERNEL)
    begins = [begin for begin, _ in busy]
    for span in spans:
        if span.inside:
            yield from _sent(span.inside, times * float(span.times))
        elif span.axes:
            first = max(0, bisect.bisect_right(begins, span.begin) - 1)
            last = bisect.bisect_left(begins, span.end)
            beside = (min(end, span.end) - max(begin, span.begin) for begin, end in busy[first:last])
            yield span, times, max(0.0, span.end - span.begin - sum(max(0.0, seconds) for seconds in beside))
