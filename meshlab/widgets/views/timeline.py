"""A step over time as plain data: one lane of kernels, one for each set of mesh axes, phases, and memory below.

    view = timeline_view(costs)
    view["lanes"][0]        {"key": "", "segments": [{"begin": 0.0, "end": 0.31, "kind": "compute", …}, …]}
    view["phases"]          [{"name": "forward", "begin": 0.0, "end": 0.9}, …]
    view["memory"]          [[0.0, 40e9], [0.2, 43e9], …]

Each segment has the seconds in which something runs in it: they add up to those of `plan.time`, lane by lane, and those
in which no kernel runs to what is exposed. Lanes have the order of the mesh, sets of axes behind its axes. A loop is
drawn as one iteration, stretched over the time of all. Segments that would be narrower than a pixel are joined with
their neighbours of the same kind, so that a step of any length is a few hundred; where the page enlarges it, it asks
for all of them (`step_lanes.py`).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict

from ...api.step_slices import LOOPS, described, in_order, slices_of
from ...cost.peak_memory.memory import Memory
from ...cost.step_time.spent import Span
from ...cost.step_time.time import Time
from ...engine.planning.shared_steps import written_out
from ...engine.planning.step import Step
from ..state.selection import identities

# Shares of the whole step: what is shorter is joined with what is beside it, and what is nearer is no gap.
_SHORT, _GAP = 1 / 400, 1 / 1200
COMPUTE, EXPOSED = "compute", "exposed"
# The most points of memory over time.
_STRETCHES = 120


@dataclasses.dataclass(frozen=True)
class Segment:
    """A stretch of one lane.

    Attributes:
        begin: seconds from the beginning of the step.
        end: seconds from the beginning of the step.
        kind: "compute", the kind of a collective, "waiting" for other stages, or "exposed" where no kernel runs.
        times: how often it is executed.
        step: the longest step in it; None where nothing runs.
        axes: the mesh axes of a collective.
        seconds: in which something runs; between joined segments nothing does.
    """

    begin: float
    end: float
    kind: str
    times: int
    step: Step | None
    axes: tuple[str, ...]
    seconds: float


class SegmentView(TypedDict):
    """A stretch of a lane from `begin` to `end` of the step, and the seconds in which something runs in it."""

    begin: float
    end: float
    seconds: float
    kind: str
    times: int
    collective: str | None
    name: str
    dims: list[str]
    source: str


class LaneView(TypedDict):
    """The kernels of a step, whose key is empty, or what is sent over mesh axes."""

    key: str
    segments: list[SegmentView]


class PhaseView(TypedDict):
    """A pass of the step, in seconds from its beginning."""

    name: str
    begin: float
    end: float


class LoopView(TypedDict):
    """A loop of the step, in seconds from its beginning."""

    begin: float
    end: float
    times: int


class TimelineView(TypedDict):
    """A step over time; `memory` are points of seconds and bytes."""

    seconds: float
    lanes: list[LaneView]
    exposed: list[SegmentView]
    phases: list[PhaseView]
    loops: list[LoopView]
    memory: list[list[float]]


def timeline_view(time: Time, memory: Memory) -> TimelineView:
    """Describes the timeline of a step.

    Args:
        time: the predicted time of a plan.
        memory: the predicted memory of the same plan.

    Returns:
        Plain data: the whole duration, lanes of segments, phases, the trip counts of loops, and memory over time.
    """
    plan, whole = time.scenario.plan, float(time.estimate)
    spans = list(segments_of(time.spent.spans))
    lanes: dict[tuple[str, ...], list[Segment]] = {(): []}
    for segment in spans:
        lanes.setdefault(segment.axes, []).append(segment)
    named = collectives_of(plan)
    return {
        "seconds": whole,
        "lanes": [
            {"key": "+".join(axes), "segments": [_segment_view(plan, s, named) for s in _joined(lanes[axes], whole)]}
            for axes in sorted(lanes, key=in_order(plan.mesh.axes))
        ],
        "exposed": [_segment_view(plan, s, named) for s in _joined(list(_gaps(lanes[()], whole)), whole)],
        "phases": list(_phases(lanes[()], whole)),
        "loops": list(_loops(time.spent.spans)),
        "memory": memory_points(memory, spans, whole),
    }


def segments_of(spans: Sequence[Span]) -> Iterator[Segment]:
    """Yields kernels and collectives; an iteration is stretched over its loop."""
    for each in slices_of(spans, 0):
        if each.thread != LOOPS:
            span, end = each.span, each.begin + each.seconds
            yield Segment(each.begin, end, span.kind, each.times, span.step, span.axes, each.seconds)


def _gaps(lane: Iterable[Segment], whole: float) -> Iterator[Segment]:
    """Yields the stretches of a step in which no kernel runs: exposed communication."""
    end = 0.0
    for segment in sorted(lane, key=lambda each: each.begin):
        if segment.begin > end:
            yield Segment(end, segment.begin, EXPOSED, 1, None, (), segment.begin - end)
        end = max(end, segment.end)
    if whole > end:
        yield Segment(end, whole, EXPOSED, 1, None, (), whole - end)


def _joined(lane: list[Segment], whole: float) -> list[Segment]:
    """Joins segments that are too short, or too near, to be drawn for themselves."""
    groups: list[list[Segment]] = []
    begin = end = 0.0
    for segment in sorted(lane, key=lambda each: each.begin):
        near = bool(groups) and segment.begin - end <= _GAP * whole and segment.kind == groups[-1][0].kind
        if near and min(end - begin, segment.end - segment.begin) < _SHORT * whole:
            groups[-1].append(segment)
            end = max(end, segment.end)
        else:
            groups.append([segment])
            begin, end = segment.begin, segment.end
    return [_one(group) if group[1:] else group[0] for group in groups]


def _one(group: list[Segment]) -> Segment:
    """Returns segments as one, called by the longest of them."""
    longest = max(group, key=lambda each: each.end - each.begin)
    end, seconds = max(each.end for each in group), sum(each.seconds for each in group)
    return dataclasses.replace(longest, begin=group[0].begin, end=end, seconds=seconds)


def collectives_of(plan: Any) -> dict[int, dict[tuple[str, str], str]]:
    """Names the collectives of each step, by its identity and by their kind and mesh axes, as the view lists them."""
    names = dict(zip(map(id, plan.collectives), identities(plan), strict=True))
    sent = [{(c.kind, "+".join(c.axes)): names[id(c)] for c in of_step} for of_step in plan.collectives_by_step]
    written = written_out(plan.planned.steps, plan.steps)
    return {id(each.step): sent[each.position] for each in written if sent[each.position]}


def _segment_view(plan: Any, segment: Segment, named: Mapping[int, Mapping[tuple[str, str], str]]) -> SegmentView:
    name, dims, source = described(plan, segment.step, segment.kind)
    return {
        "begin": _placed(segment.begin),
        "end": _placed(segment.end),
        "seconds": segment.seconds,
        "kind": segment.kind,
        "times": segment.times,
        "collective": named.get(id(segment.step), {}).get((segment.kind, "+".join(segment.axes))),
        "name": name,
        "dims": [dim or "1" for dim in dims],
        "source": "" if source is None else str(source),
    }


def _placed(time: float) -> float:
    """Returns a time as precisely as it is drawn: the digits behind are half of what is sent."""
    return float(f"{time:.10g}")


def _phases(lane: list[Segment], whole: float) -> Iterator[PhaseView]:
    """Yields the forward pass, the backward pass, and the update behind it, where the program has a backward pass."""
    backward = [s for s in lane if s.step is not None and s.step.runs is not None and s.step.runs.backward]
    if not backward:
        return
    first, last = min(s.begin for s in backward), max(s.end for s in backward)
    for name, begin, end in (("forward", 0.0, first), ("backward", first, last), ("update", last, whole)):
        if end - begin > _SHORT * whole:
            yield {"name": name, "begin": begin, "end": end}


def _loops(spans: Iterable[Span]) -> Iterator[LoopView]:
    """Yields the outermost loops with their trip counts; a first iteration or a condition is no loop of its own."""
    for step, group in itertools.groupby(spans, key=lambda span: span.step):
        if step.loops and (times := step.parts[0].times) > 1:
            parts = list(group)
            yield {"begin": parts[0].begin, "end": parts[-1].end, "times": times}


def memory_points(
    memory: Memory, spans: Iterable[Segment], whole: float, stretches: int = _STRETCHES
) -> list[list[float]]:
    """Returns the memory as points of seconds and bytes: of each stretch the most that is alive in a step that begins.

    Steps that are fused into others have no time of their own; they count with the step before them.
    """
    begins: dict[int, float] = {}
    for segment in spans:
        begins.setdefault(id(segment.step), segment.begin)
    highest: dict[int, float] = {}
    stretch = 0
    for step, point in zip(memory.liveness.points, memory.timeline, strict=True):
        begin = begins.get(id(step))
        stretch = stretch if begin is None or not whole else int(begin / whole * stretches)
        highest[stretch] = max(highest.get(stretch, 0.0), float(point.bytes))
    return [[stretch / stretches * whole, most] for stretch, most in sorted(highest.items())]
