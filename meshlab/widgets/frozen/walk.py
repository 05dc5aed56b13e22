"""Which layouts drops lead to, from the one on the board and from there on.

    [*drops(twin, columns, dims)]           Place("hidden", ("model",)), Remove("batch"), …
    reached(twin, columns, dims, 2000)      the layouts that drops lead to, one drop after the other

A drop is one that the page can make (`js/src/hand.ts`): on an axis, added to the dim's axes, in place of one of several
axes, moved from another column, or taken off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from ..documents.document import Document
from ..documents.intents import Place, Remove
from ..state.columns import Column, columns_of, rules_at, scope_columns
from ..state.explorer_state import ExplorerState
from .twin import Twin

Axes = tuple[str, ...]


def drops(explorer: ExplorerState, columns: Sequence[str], dims: Sequence[str]) -> Iterator[Place | Remove]:
    """Yields the drops that the page can make of some dims in some columns, each once."""
    shown = [column for column in all_columns(explorer) if name_of(column) in columns]
    for column in shown:
        for dim in dims:
            yield from _in_column(explorer, column, dim)
        for source in (other for other in shown if other is not column):
            for dim in (dim for dim in dims if _axes(explorer, source, dim)):
                yield from _moved(explorer, column, dim, source.at)


def _in_column(explorer: ExplorerState, column: Column, dim: str) -> Iterator[Place | Remove]:
    at, have = column.at or None, _axes(explorer, column, dim)
    rest = [tuple(axis for axis in have if axis != off) for off in have]
    targets = [_only(explorer, axis, have) for axis in explorer.documents.mesh.axes]
    targets += [_added(explorer, axis, kept) for kept in (have, *rest) for axis in explorer.documents.mesh.axes]
    for axes in dict.fromkeys(axes for axes in (*targets, *rest) if axes):
        yield Place(dim, axes, at)
    yield Remove(dim, at)


def _moved(explorer: ExplorerState, column: Column, dim: str, source: str) -> Iterator[Place]:
    have = _axes(explorer, column, dim)
    for axes in dict.fromkeys(_only(explorer, axis, have) for axis in explorer.documents.mesh.axes):
        yield Place(dim, axes, column.at or None, source)


def _only(explorer: ExplorerState, axis: str, have: Axes) -> Axes:
    """The axes after a drop on one: that alone; one in time joins those that the dim has."""
    return _added(explorer, axis, have) if axis in explorer.documents.mesh.in_time else (axis,)


def _added(explorer: ExplorerState, axis: str, have: Axes) -> Axes:
    """The axes with another one behind those of devices, or of those in time."""
    late = explorer.documents.mesh.in_time
    added = have if axis in have else (*have, axis)
    return (*(each for each in added if each not in late), *(each for each in added if each in late))


def all_columns(explorer: ExplorerState) -> list[Column]:
    program, layout = explorer.program, explorer.layout
    return [*columns_of(program, layout), *scope_columns(program, layout)]


def name_of(column: Column) -> str:
    """A column's glob, whether its rules are optional or not."""
    return column.at.removesuffix("?")


def _axes(explorer: ExplorerState, column: Column, dim: str) -> Axes:
    rules = rules_at(explorer.layout, column)
    there = explorer.documents.mesh.axes
    return tuple(axis for axis in rules.get(dim, rules.get(f"{dim}?", ())) if axis in there)


def reached(twin: Twin, columns: Sequence[str], dims: Sequence[str], limit: int) -> tuple[list[Document], bool]:
    """Finds the layouts that drops lead to from the one that a twin is at, one drop after the other.

    Args:
        twin: at the layout to begin with.
        columns: the columns in which chips are dropped.
        dims: whose chips.
        limit: how many layouts are followed at most.

    Returns:
        The layouts, the nearest first, and whether these are all; where there are more than the limit, those that one
        drop leads to.
    """
    start = twin.document
    away, ahead = {start: 0}, deque([start])
    while ahead and len(away) <= limit:
        here = ahead.popleft()
        twin.begin(here)
        for drop in drops(twin, columns, dims):
            document = twin.after(drop)
            if isinstance(document, Document) and document not in away:
                away[document] = away[here] + 1
                ahead.append(document)
    if len(away) <= limit:
        return list(away), True
    return [document for document, drops_away in away.items() if drops_away <= 1], False
