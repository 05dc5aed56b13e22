"""Reads the arguments of `ml.goal` into conditions: an entry of a table for each argument.

    read("sends", "≤ 8 kB")     ([Bounded("sends", Most(8000.0, "8 kB"))], [])
    read("sends", "8 kg")       ([], ["sends: '8 kg': there is no unit `kg`. …"])

An argument is one item or several, such as the dims of `keeps`; each is read by itself, so that all that is wrong is
said at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..cost.machines.bounds import read_bytes, read_count
from ..cost.machines.hardware import Hardware, hardware
from ..engine.collectives.kinds import KINDS
from ..engine.errors import LayoutError, MeshlabError, closest, listed, shown
from ..engine.specs.layout import Layout
from ..engine.specs.spec import Axes
from ..engine.tensors.dims import Dim
from .bounded import ANY, MEASURES, Bounded, Counted, Fits, StoredBytes
from .conditions import Condition
from .sharded import Busy, Keeps, Silent, StoredAs

_AXES = 'give a mesh axis, "data", several, ("data", "model"), or None'
_STORED = 'or say how it is split, "embed:data" or {"embed": None}'


class Reader(NamedTuple):
    """How an argument is read: into items, and each of them into conditions."""

    items: Callable[[Any], Iterable[Any]]
    make: Callable[[Any], Iterable[Condition]]


def read(name: str, given: Any) -> tuple[list[Condition], list[str]]:
    """Returns the conditions of an argument of `ml.goal`, and what is wrong with it."""
    conditions: list[Condition] = []
    problems: list[str] = []
    reader = READERS[name]
    try:
        items = list(reader.items(given))
    except MeshlabError as error:
        return [], [f"{name}: {error}"]
    for item in items:
        try:
            conditions += reader.make(item)
        except MeshlabError as error:
            problems.append(f"{name}: {error}")
    return conditions, problems


def _one(given: Any) -> list[Any]:
    return [] if given is None or given is False else [given]


def _several(given: Any) -> list[Any]:
    if not isinstance(given, str | tuple | list):
        raise MeshlabError(f'{shown(given)} names no mesh axes: write "model" or ("data", "model")')
    return [given] if isinstance(given, str) else list(given)


def _pairs(given: Any) -> list[tuple[Any, Any]]:
    if not isinstance(given, Mapping):
        raise MeshlabError(f'{shown(given)} must be a dict: keeps={{"batch": None}}, collectives={{"all-reduce": 2}}')
    return list(given.items())


def _fits(given: Any) -> list[Condition]:
    if given is True:
        return [Fits(None)]
    if not isinstance(given, str | Hardware):
        raise MeshlabError(f'{shown(given)} is not a machine: write fits=True or fits="v5e"')
    return [Fits(hardware(given))]


def _busy(given: Any) -> list[Condition]:
    if given is True:
        return [Busy()]
    if isinstance(given, bool) or not isinstance(given, int | float) or not 1 <= given < math.inf:
        raise MeshlabError(
            f"{shown(given)} must be True, False, or how many times its share a device may do, at least 1"
        )
    return [Busy(float(given))]


def _silent(given: Any) -> list[Condition]:
    return [Silent(_text(given, "a mesh axis"))]


def _keeps(pair: tuple[Any, Any]) -> list[Condition]:
    dim, axes = pair
    name = _text(dim.name if isinstance(dim, Dim) else dim, "a dim")
    return [Keeps(name, _axes(name, axes))]


def _counted(pair: tuple[Any, Any]) -> list[Condition]:
    kind, over, axis = _text(pair[0], "a kind of collective").partition(" over ")
    if kind not in (ANY, *KINDS):
        raise MeshlabError(
            f"there is no collective `{kind}`.{closest(kind, KINDS)} There are {listed(KINDS)}, and `{ANY}` for any"
        )
    try:
        return [Counted(kind, axis.strip(" `") if over else None, read_count(pair[1]))]
    except MeshlabError as error:
        raise MeshlabError(f"`{pair[0]}`: {error}") from None


def _stored(pair: tuple[Any, Any]) -> list[Condition]:
    place, given = _text(pair[0], "a place"), pair[1]
    try:
        if isinstance(given, str) and ":" in given:
            rules = _layout(given)
            if at := [*rules.places, *rules.scopes]:
                raise MeshlabError(f"{shown(given)} has rules for {listed(at)}; {_STORED}")
            whole = [(dim, ()) for dim in rules.whole]
            return [StoredAs(place, dim, axes) for dim, axes in (*rules.dim_rules, *whole)]
        if isinstance(given, Mapping):
            named = {dim.name if isinstance(dim, Dim) else dim: axes for dim, axes in given.items()}
            return [StoredAs(place, _text(dim, "a dim"), _axes(dim, axes)) for dim, axes in named.items()]
        return [StoredBytes(place, read_bytes(given))]
    except MeshlabError as error:
        instead = "" if isinstance(given, str | Mapping) else f"; {_STORED}"
        raise MeshlabError(f"`{place}`: {error}{instead}") from None


def _layout(given: str) -> Layout:
    try:
        return Layout.of(given)
    except LayoutError as error:
        raise MeshlabError(f"{shown(given)}: {error.in_one_line}") from None


def _axes(dim: str, given: Any) -> Axes:
    """Reads the mesh axes of a dim, as a layout is written; None and none are whole."""
    axes = () if given is None else tuple(given.split("+")) if isinstance(given, str) else given
    if not isinstance(axes, tuple | list) or not all(isinstance(axis, str) and axis.strip() for axis in axes):
        raise MeshlabError(f"`{dim}` is given {shown(given)}: {_AXES}")
    if len(set(axes)) < len(axes):
        raise MeshlabError(f"`{dim}` is given an axis twice: {shown(given)}")
    return tuple(axis.strip() for axis in axes)


def _text(given: Any, what: str) -> str:
    if not isinstance(given, str) or not given.strip():
        raise MeshlabError(f"{shown(given)} is not the name of {what}")
    return given.strip()


def _bounded(name: str) -> Reader:
    return Reader(_one, lambda given: [Bounded(name, MEASURES[name].read(given))])


READERS: Mapping[str, Reader] = {
    "fits": Reader(_one, _fits),
    **{name: _bounded(name) for name in MEASURES},
    "busy": Reader(_one, _busy),
    "silent": Reader(_several, _silent),
    "keeps": Reader(_pairs, _keeps),
    "collectives": Reader(_pairs, _counted),
    "stored": Reader(_pairs, _stored),
}
