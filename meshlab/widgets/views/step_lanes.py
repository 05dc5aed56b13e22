"""All that runs in a step, slice by slice: what the timeline draws where it is enlarged, as columns of numbers.

    view = step_view(explorer)
    view["what"]["name"][view["slices"]["what"][5]]         position of "dot_general" in view["strings"]

Rows are frames by their depth (`api/step_slices.frames_of`), and below them the lanes: kernels, and what is sent over
mesh axes, in the order of the mesh. What slices of one step have in common stands once in `what`: a model that repeats
its layers has hardly more of it than one layer. A loop is one iteration, stretched over the time of all; the page draws
each of them where somebody opens it. Bytes and FLOPs are by second, so that a part of a slice has its part of them; so
are the shares of the measured step, where the step of this layout was measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypedDict

from ...api.profile import Profile
from ...api.step_slices import KERNELS, LOOP, LOOPS, Frame, Slice, described, frames_of, in_order, paths_of, slices_of
from ...cost.step_time.spent import WAITING
from ...cost.step_time.time import Time
from ...engine.planning.shared_steps import written_out
from ..state.explorer_state import ExplorerState
from ..state.selection import identities
from .asked.profiled_steps import Took, shares_of
from .pending import PendingView
from .timeline import memory_points, segments_of

# The most points of memory over time.
_STRETCHES = 2_000
# Digits of times, and of what takes a time.
_WHEN, _HOW_LONG = 11, 8
Axes = tuple[str, ...]


class StepWhatView(TypedDict):
    """What slices have in common, as columns; texts by their position in `strings`."""

    kind: list[int]
    name: list[int]
    dims: list[int]
    source: list[int]
    code: list[int]
    collective: list[int]
    times: list[int]
    bytes: list[float]
    flops: list[float]
    took: list[float]
    waited: list[float]


class StepSlicesView(TypedDict):
    """Slices as columns, in the order of time; `loop` is the one around by its position in `loops`, -1 for none."""

    row: list[int]
    begin: list[float]
    seconds: list[float]
    what: list[int]
    loop: list[int]


class StepLanesView(TypedDict):
    """A step: rows are `depth` frames, and then the lanes; `loops` are slices."""

    seconds: float
    depth: int
    lanes: list[str]
    strings: list[str]
    what: StepWhatView
    slices: StepSlicesView
    loops: list[int]


class StepView(StepLanesView):
    """With points of memory, in seconds and bytes; whether it was measured."""

    memory: list[list[float]]
    measured: bool


class NoStepView(TypedDict):
    """No time is predicted."""

    seconds: None


class What(NamedTuple):
    """What slices have in common."""

    kind: str
    name: str
    dims: str = ""
    source: str = ""
    code: str = ""
    collective: str = ""
    times: int = 1
    bytes: float = 0.0
    flops: float = 0.0
    took: float = 0.0
    waited: float = 0.0


class Placed(NamedTuple):
    """A slice in its row, and the number of the loop around it."""

    row: int
    begin: float
    seconds: float
    what: What
    loop: int


def step_view(explorer: ExplorerState) -> StepView | NoStepView | PendingView:
    """Describes the step of the layout on the board, slice by slice; `pending` while its costs are worked out."""
    document = explorer.document
    costs = explorer.costs.soon(document) if document.machine else None
    if costs is None and document.machine:
        return {"pending": True}
    if costs is None or costs.time is None:
        return {"seconds": None}
    time = costs.time
    points = memory_points(costs.memory, segments_of(time.spent.spans), float(time.estimate), _STRETCHES)
    profile = explorer.profiles.here(document)
    return {
        **lanes_view(time, profile),
        "memory": [[_rounded(at, _WHEN), most] for at, most in points],
        "measured": profile is not None,
    }


def lanes_view(time: Time, profile: Profile | None = None) -> StepLanesView:
    """Describes all that runs in a predicted step, and what it took where it was measured."""
    plan, slices = time.scenario.plan, list(slices_of(time.spent.spans, 0))
    frames = list(frames_of(slices, paths_of(plan)))
    depth = max((frame.depth + 1 for frame in frames), default=0)
    axes = sorted({each.span.axes for each in slices} | {()}, key=in_order(plan.mesh.axes))
    what_of = _Common(time, slices, profile)
    rows = {each: depth + number for number, each in enumerate(axes)}
    placed = [Placed(each.depth, each.begin, each.seconds, _what_of_frame(each), each.loop) for each in frames]
    placed += [
        Placed(rows[each.span.axes], each.begin, each.seconds, what_of[each], each.loop)
        for each in slices
        if each.thread != LOOPS
    ]
    return {
        "seconds": float(time.estimate),
        "depth": depth,
        "lanes": ["+".join(each) for each in axes],
        **_columns(placed),
    }


def _what_of_frame(frame: Frame) -> What:
    kind, name, source = frame.part
    place, code = ("", "") if source is None else (str(source), source.code)
    return What(kind, name, source=place, code=code, times=frame.times)


class _Common:
    """What the slices of each step have in common.

    Attributes:
        place: the position of the step that stands for each, by its identity.
        named: the name, and all bytes, of the collectives at a position, by their kind and mesh axes.
        flops: of all kernels at a position.
        seconds: of all slices at a position, by kind and mesh axes.
        took: shares of the measured step, by the same; nothing where none was measured.
    """

    def __init__(self, time: Time, slices: Iterable[Slice], profile: Profile | None):
        self.plan: Any = time.scenario.plan
        self.place = {id(each.step): each.position for each in written_out(self.plan.planned.steps, self.plan.steps)}
        self.named = _collectives(self.plan)
        self.flops: defaultdict[int, float] = defaultdict(float)
        for step, times, cost in time.spent.kernels:
            self.flops[self.place[id(step)]] += float(times) * float(cost.flops)
        self.seconds: defaultdict[tuple[int, str, Axes], float] = defaultdict(float)
        for each in slices:
            if each.thread != LOOPS:
                self.seconds[self.key(each)] += each.seconds
        timed = {key for key, seconds in self.seconds.items() if seconds and key[1] != WAITING}
        self.took = {} if profile is None else shares_of(profile, timed)
        self.known: dict[Any, What] = {}

    def key(self, each: Slice) -> tuple[int, str, Axes]:
        return self.place[id(each.span.step)], each.span.kind, each.span.axes

    def __getitem__(self, each: Slice) -> What:
        key = (self.key(each), each.times)
        if key not in self.known:
            self.known[key] = self.new(each)
        return self.known[key]

    def new(self, each: Slice) -> What:
        step, key = each.span.step, self.key(each)
        name, dims, source = described(self.plan, step, each.span.kind)
        collective, sent = self.named.get(key, ("", 0.0))
        seconds, flops = self.seconds[key], self.flops[key[0]] if each.thread == KERNELS else 0.0
        took = self.took.get(key, Took(0.0, 0.0))
        return What(
            each.span.kind,
            name or f"accumulate over {step.in_time}",
            " ".join(dim or "1" for dim in dims),
            "" if source is None else str(source),
            "" if source is None else source.code,
            collective,
            each.times,
            sent / seconds if seconds else 0.0,
            flops / seconds if seconds else 0.0,
            *(share / seconds if seconds else 0.0 for share in took),
        )


def _collectives(plan: Any) -> dict[tuple[int, str, Axes], tuple[str, float]]:
    """Returns the names of collectives and the bytes that they send in all, by position, kind and mesh axes."""
    names = iter(identities(plan))
    found: dict[tuple[int, str, Axes], tuple[str, float]] = {}
    for position, sent in enumerate(plan.collectives_by_step):
        for c in sent:
            key = (position, c.kind, tuple(c.axes))
            _, before = found.get(key, ("", 0.0))
            found[key] = (next(names), before + float(c.wire_bytes * c.times))
    return found


class _Numbers(dict[Any, int]):
    """Numbers what is put into it, in order."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]


class _ColumnsView(TypedDict):
    strings: list[str]
    what: StepWhatView
    slices: StepSlicesView
    loops: list[int]


def _columns(placed: Sequence[Placed]) -> _ColumnsView:
    """Lays slices out as columns, in the order of time."""
    texts, whats = _Numbers(), _Numbers()
    order = sorted(range(len(placed)), key=lambda i: (placed[i].begin, placed[i].row))
    ordered = [placed[i] for i in order]
    slices: StepSlicesView = {
        "row": [each.row for each in ordered],
        "begin": [_rounded(each.begin, _WHEN) for each in ordered],
        "seconds": [_rounded(each.seconds, _HOW_LONG) for each in ordered],
        "what": [whats[each.what] for each in ordered],
        "loop": [each.loop for each in ordered],
    }
    what: Any = {
        name: [texts[value] if isinstance(value, str) else value for value in column]
        for name, column in zip(What._fields, zip(*whats, strict=True), strict=bool(whats))
    }
    where = {number: i for i, number in enumerate(order)}
    loops = [where[number] for number, each in enumerate(placed) if each.what.kind == LOOP]
    return {"slices": slices, "what": what, "loops": loops, "strings": list(texts)}


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
