"""A plan as JSON-like data, which the board, its figures and its snapshot draw.

They are drawn from this and from nothing else, so a number that is on the screen is in here:

    >>> view = plan_view(plan, Marks())
    >>> view["communication"]["by_axis"]
    [{"key": "model", "bytes": 6000}]

It stays below 200 kB, whatever the program: long lists are cut, the largest entries first, and say how many were left
out. Bytes of communication are wire bytes per device and step; payload is given beside them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from ...engine.plans.collective import wire_bytes_by_axis
from ...engine.plans.work import by_contractions, line_of
from ..state.marks import Marks
from ..state.selection import identities, places_of
from ..state.totals import executed

MOST_COLLECTIVES = 120
MOST_PLACES = 200
MOST_LINES = 40


class AxisView(TypedDict):
    """A mesh axis; one in time runs its blocks one after the other."""

    name: str
    size: int
    inTime: NotRequired[bool]
    unit: NotRequired[str]
    meaning: NotRequired[str]


class MeshView(TypedDict):
    axes: list[AxisView]
    size: int


class ChipView(TypedDict):
    """A dim, the mesh axes that shard it, and its size on one device."""

    name: str
    size: int
    axes: list[str]
    local: int


class PlaceRuleView(TypedDict):
    at: str
    dim: str
    axes: list[str]


class LayoutView(TypedDict):
    text: str
    places: list[PlaceRuleView]


class GroupView(TypedDict):
    """A mesh axis, or a set of several that something is sent over, and the number of its mark."""

    key: str
    axes: list[str]
    mark: int


class RefusalView(TypedDict):
    code: str
    text: str
    fix: str
    source: NotRequired[str]


class CollectiveView(TypedDict):
    kind: str
    axes: list[str]
    key: str
    payload: int
    wire: int
    times: int
    total: int
    dtype: str
    value: str
    dims: list[str]
    source: str
    code: str
    because: str
    id: str
    proposed: bool


class CollectivesView(TypedDict):
    rows: list[CollectiveView]
    count: int
    left_out: int


class AxisBytesView(TypedDict):
    """Wire bytes over one set of mesh axes."""

    key: str
    bytes: int


class AxisSumsView(TypedDict):
    """Wire bytes and payload of one device in a step, over one set of mesh axes."""

    key: str
    bytes: int
    payload: int


class KindSumsView(TypedDict):
    kind: str
    bytes: int
    payload: int
    count: int


class LineSumsView(TypedDict):
    line: str
    code: str
    bytes: int
    payload: int
    parts: list[AxisBytesView]


class CommunicationView(TypedDict):
    total: int
    payload: int
    by_axis: list[AxisSumsView]
    by_kind: list[KindSumsView]
    by_line: list[LineSumsView]
    left_out: int


class StoredPartView(TypedDict):
    name: str
    bytes: int
    output: bool


class MemoryView(TypedDict):
    """Exact bytes on one device."""

    parts: list[StoredPartView]
    arguments: int
    outputs: int


class PlanView(TypedDict):
    mesh: MeshView
    chips: list[ChipView]
    layout: LayoutView
    groups: list[GroupView]
    work: float
    lost: str
    collectives: CollectivesView
    communication: CommunicationView
    memory: MemoryView


class PlaceView(TypedDict):
    place: str
    dims: list[str]
    shape: list[int]
    dtype: str
    local: list[int]
    splits: list[list[str]]
    partial: list[str]
    bytes: int
    local_bytes: int


class PlacesView(TypedDict):
    rows: list[PlaceView]
    left_out: int


RefusalsView = dict[str, dict[str, RefusalView | None]]


def plan_view(plan: Any, marks: Marks) -> PlanView:
    """Describes a plan as plain data, ready for JSON; its axes have the marks of an Explorer."""
    groups = axis_groups(plan, marks)
    return {
        "mesh": mesh_view(plan.mesh),
        "chips": chips_view(plan),
        "layout": layout_view(plan.layout),
        "groups": groups,
        "work": plan.work.share,
        "lost": "" if plan.whole_from is None else line_of(plan.whole_from),
        "collectives": collectives_view(plan),
        "communication": communication_view(plan, groups),
        "memory": memory_view(plan),
    }


def mesh_view(mesh: Any) -> MeshView:
    """Describes the mesh axes with their sizes, and what each is."""
    axes: list[AxisView] = [
        {"name": name, "size": axis.size, "inTime": name in mesh.in_time, "unit": axis.unit, "meaning": axis.in_words}
        for name, axis in mesh.kinds.items()
    ]
    return {"axes": axes, "size": mesh.size}


def _key(axes: Iterable[str]) -> str:
    return "+".join(axes)


def axis_groups(plan: Any, marks: Marks) -> list[GroupView]:
    """Lists the mesh axes, and then the sets of several axes that some collective runs over, in the mesh's order."""
    order = list(plan.mesh.axes)
    several = sorted({tuple(c.axes) for c in plan.collectives if len(c.axes) > 1}, key=lambda g: [*map(order.index, g)])
    groups, mark = [*([axis] for axis in order), *map(list, several)], marks.of(order, map(_key, several))
    return [{"key": _key(group), "axes": group, "mark": mark[_key(group)]} for group in groups]


def chips_view(plan: Any) -> list[ChipView]:
    """Lists the program's dims with the axes that shard each, those first that split the most."""
    sizes: Mapping[str, int] = plan.mesh.axes
    chips: list[ChipView] = []
    rules = {name.removesuffix("?"): axes for name, axes in plan.layout.rules.items()}
    for name in by_contractions(plan.program):
        size = plan.program.dims[name]
        axes = [axis for axis in rules.get(name, ()) if axis in sizes]  # an optional rule may name none
        local = -(-size // math.prod(sizes[axis] for axis in axes))
        chips.append({"name": name, "size": size, "axes": axes, "local": local})
    return chips


def layout_view(layout: Any) -> LayoutView:
    """Describes a layout as text, and its rules for single places."""
    places: list[PlaceRuleView] = [
        {"at": glob, "dim": dim, "axes": list(axes or ())}
        for glob, rules in (*layout.places.items(), *layout.scopes.items())
        for dim, axes in rules.items()
    ]
    return {"text": str(layout), "places": places}


def refusals_view(refusals: Mapping[str, Mapping[str, Any]]) -> RefusalsView:
    """Describes, for each dim and axis, why the dim is refused there, or None where it is legal."""
    return {
        dim: {axis: None if refusal is None else refusal_view(refusal) for axis, refusal in by_axis.items()}
        for dim, by_axis in refusals.items()
    }


def refusal_view(refusal: Any) -> RefusalView:
    return {"code": refusal.code, "text": refusal.text, "fix": refusal.fix or "", "source": _line(refusal.source)}


def _line(source: Any) -> str:
    return "" if source is None else str(source)


def _total(collective: Any) -> int:
    return round(collective.wire_bytes * collective.times)


def collectives_view(plan: Any) -> CollectivesView:
    """Lists the collectives, those that send most first, each with its cause, and whether some remedy may be tried.

    The count is of those that one step executes, as in the plan's table: one in a scan counts as often as it runs.
    What remedies do is asked for when a row opens: planning them takes longer than a drop may (`views/remedies.py`).
    """
    ordered = sorted(plan.collectives, key=_total, reverse=True)
    names = dict(zip(map(id, plan.collectives), identities(plan), strict=True))
    rows: list[CollectiveView] = [
        {
            "id": names[id(c)],
            "kind": c.kind,
            "axes": list(c.axes),
            "key": _key(c.axes),
            "payload": int(c.payload_bytes),
            "wire": int(c.wire_bytes),
            "times": int(c.times),
            "total": _total(c),
            "dtype": str(c.dtype),
            "value": c.value,
            "dims": [str(dim) for dim in c.dims],
            "source": _line(c.source),
            "code": getattr(c.source, "code", "") or "",
            "because": c.because,
            "proposed": bool(c.proposed),
        }
        for c in ordered[:MOST_COLLECTIVES]
    ]
    return {"rows": rows, "count": executed(plan), "left_out": len(ordered) - len(rows)}


def communication_view(plan: Any, groups: Sequence[GroupView]) -> CommunicationView:
    """Sums wire bytes and payload by mesh axis, by kind, and by source line; of lines by mesh axis as well."""
    of_line: dict[str, list[Any]] = defaultdict(list)
    for collective in plan.collectives:
        of_line[_line(collective.source) or "(no source line)"].append(collective)
    code = {line: getattr(its[-1].source, "code", "") or "" for line, its in of_line.items()}
    by_axis, *by_line = (
        {key: round(count) for key, count in wire_bytes_by_axis(some).items()}
        for some in (plan.collectives, *of_line.values())
    )
    order = [group["key"] for group in groups]
    lines = sorted(zip(of_line, by_line, strict=True), key=lambda item: -sum(item[1].values()))
    payload = _payloads(plan.collectives, lambda c: _key(c.axes))
    of_lines = _payloads(plan.collectives, lambda c: _line(c.source) or "(no source line)")
    return {
        "total": round(plan.wire_bytes),
        "payload": sum(payload.values()),
        "by_axis": [{"key": key, "bytes": by_axis[key], "payload": payload[key]} for key in order if key in by_axis],
        "by_kind": _by_kind(plan.collectives),
        "by_line": [
            {
                "line": line,
                "code": code[line],
                "bytes": sum(parts.values()),
                "payload": of_lines[line],
                "parts": [{"key": key, "bytes": parts[key]} for key in order if key in parts],
            }
            for line, parts in lines[:MOST_LINES]
        ],
        "left_out": max(0, len(lines) - MOST_LINES),
    }


def _payloads(collectives: Iterable[Any], key: Callable[[Any], str]) -> dict[str, int]:
    """Adds up the payload of a step by whatever a collective is counted under."""
    sums: dict[str, int] = defaultdict(int)
    for c in collectives:
        sums[key(c)] += int(c.payload_bytes * c.times)
    return sums


def _by_kind(collectives: Iterable[Any]) -> list[KindSumsView]:
    """Sums wire bytes, payload and executions by kind, what sends most first."""
    payload, wire, times = _payloads(collectives, lambda c: c.kind), defaultdict(float), defaultdict(int)
    for c in collectives:
        wire[c.kind] += c.wire_bytes * c.times
        times[c.kind] += int(c.times)
    kinds = sorted(wire, key=lambda kind: -wire[kind])
    return [
        {"kind": kind, "bytes": round(wire[kind]), "payload": payload[kind], "count": times[kind]} for kind in kinds
    ]


def memory_view(plan: Any) -> MemoryView:
    """Describes the exact bytes of arguments and outputs on one device."""
    parts: list[StoredPartView] = [
        {"name": name, "bytes": int(size), "output": name == "out" or name.startswith("out/")}
        for name, size in plan.stored.parts.items()
    ]
    return {
        "parts": parts,
        "arguments": int(plan.stored.argument_bytes),
        "outputs": int(plan.stored.output_bytes),
    }


def places_view(plan: Any) -> PlacesView:
    """Lists the tensors that have a place, each with its global shape and its shape on one device."""
    places = places_of(plan.program)
    listed = places[:MOST_PLACES]
    return {"rows": [place_view(plan, place) for place in listed], "left_out": len(places) - len(listed)}


def names_of(value: Any) -> list[str]:
    """Names a value's axes; one of size 1 has no name."""
    return [name or "1" for name in value.dims]


def place_view(plan: Any, place: str) -> PlaceView:
    """Describes one tensor: its dims, its shape, its shape on one device, and the axes that shard it."""
    value, spec = plan.program.place(place), plan.spec(place)
    sizes = plan.mesh.axes
    parts = (math.prod(sizes[axis] for axis in axes) for axes in spec.splits)
    local = [-(-size // part) for size, part in zip(value.shape, parts, strict=True)]
    return {
        "place": place,
        "dims": names_of(value),
        "shape": [int(size) for size in value.shape],
        "dtype": str(value.dtype),
        "local": local,
        "splits": [list(axes) for axes in spec.splits],
        "partial": list(spec.partial),
        "bytes": int(value.nbytes),
        "local_bytes": int(value.nbytes) * math.prod(local) // max(1, math.prod(value.shape)),
    }
