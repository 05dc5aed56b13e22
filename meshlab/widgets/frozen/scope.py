"""Which layouts a file has, and how that is said: what drops lead to, and what has a button or a card.

scope = scope_of(explorer, columns=(), dims=None, limit=2000)
scope.layouts           the one on the board, then presets, what was tried, what Auto has found, and what drops lead to
scope.said(documents)   "65 layouts are recorded: all that drops lead to, and 5 others: presets, tried layouts …"
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ...engine.errors import closest, listed, shown
from ...engine.specs.layout import Layout
from ..documents.document import Document, ExplorerError
from ..state.columns import COMPUTE
from ..state.explorer_state import ExplorerState
from ..views.search import TIES
from .twin import Twin
from .walk import all_columns, name_of, reached


@dataclasses.dataclass(frozen=True)
class Scope:
    """The layouts of a file.

    Attributes:
        start: the one on the board.
        buttons: those that have a button or a card.
        dropped: those that drops lead to, the nearest first.
        whole: whether these are all of them; else those that one drop leads to.
        columns: in which chips are dropped, by their globs; "" is compute.
        dims: of which chips are dropped.
        every: whether these are all dims.
        limit: how many layouts there are at most.
    """

    start: Document
    buttons: tuple[Document, ...]
    dropped: tuple[Document, ...]
    whole: bool
    columns: tuple[str, ...]
    dims: tuple[str, ...]
    every: bool
    limit: int

    @functools.cached_property
    def shown(self) -> frozenset[Document]:
        """Those that are seen without a drop: on the board, on buttons and cards."""
        return frozenset((self.start, *self.buttons))

    @functools.cached_property
    def layouts(self) -> tuple[Document, ...]:
        """All of them, each once, in the order in which they are recorded."""
        return tuple(dict.fromkeys((self.start, *self.buttons, *self.dropped)))[: self.limit]

    def said(self, recorded: Collection[Document], refused: Collection[Document] = ()) -> str:
        """Says which layouts are recorded; those that are refused lack nothing, for a drop says why."""
        nearest = sum(each in recorded for each in self.dropped)
        more = len(recorded) - nearest
        beside = f", and {more:,} other{'s' * (more > 1)}: presets, tried layouts and Auto's" if more else ""
        reach = self._reach(nearest, sum(each not in refused for each in self.dropped))
        return f"{_layouts(len(recorded))} recorded: {reach}{beside}."

    def _reach(self, count: int, legal: int) -> str:
        reach = f"that drops{self._of()} lead to" if self.whole else f"within one drop{self._of()}"
        if count < legal:
            return f"the nearest {count:,} of the {legal:,} {reach}"
        return f"all {reach}" if self.whole else f"all {reach} (more drops lead to over {self.limit:,})"

    def _of(self) -> str:
        """Says of which chips, and in which columns, where that is no matter of course."""
        dims = "" if self.every else f" of {listed(self.dims)}"
        columns = [glob for glob in self.columns if glob != COMPUTE]
        return f"{dims}{f' in compute and {listed(columns)}' if columns else ''}"


def _layouts(count: int) -> str:
    return "1 layout is" if count == 1 else f"{count:,} layouts are"


def scope_of(explorer: Any, columns: Iterable[str], dims: Iterable[Any] | None, limit: int) -> Scope:
    """Finds the layouts of a file.

    Args:
        explorer: whose board it is.
        columns: the columns in which chips are dropped, beside compute.
        dims: of which chips are dropped; None for all.
        limit: how many layouts there are at most.

    Raises:
        ExplorerError: there is no such column or dim.
    """
    named, chips = columns_named(explorer, columns), dims_named(explorer, dims)
    dropped, whole = reached(Twin(explorer), named, chips, limit)
    every = len(chips) == len(explorer.program.dims)
    return Scope(explorer.document, tuple(seeds(explorer)), tuple(dropped), whole, named, chips, every, limit)


def columns_named(explorer: ExplorerState, asked: Iterable[str]) -> tuple[str, ...]:
    """Returns the columns in which drops are recorded, the compute rules first.

    Args:
        explorer: the Explorer.
        asked: others, by their globs or their names on the board: "params/*", "params", "@core".

    Raises:
        ExplorerError: there is no such column.
    """
    known = {
        name: name_of(column) for column in all_columns(explorer) for name in (column.at, name_of(column), column.label)
    }
    given = [asked] if isinstance(asked, str) else list(asked)
    _check("columns", "column", given, {name: name for name in known if name})
    return tuple(dict.fromkeys((COMPUTE, *(known[name] for name in given))))


def dims_named(explorer: ExplorerState, asked: Iterable[Any] | None) -> tuple[str, ...]:
    """Returns the dims whose drops are recorded, in the program's order; all of them by default."""
    dims = tuple(explorer.program.dims)
    if asked is None:
        return dims
    given = [getattr(each, "name", each) for each in ([asked] if isinstance(asked, str) else asked)]
    _check("dims", "dim", given, dict.fromkeys(dims))
    return tuple(dim for dim in dims if dim in given)


def _check(argument: str, what: str, given: Sequence[Any], known: dict[str, Any]) -> None:
    wrong = next((each for each in given if not isinstance(each, str) or each not in known), None)
    if wrong is not None:
        raise ExplorerError(
            f"share() was given {shown(wrong)} among its `{argument}`; there is no such {what}."
            f"{closest(str(wrong), known)} There are {listed(known)}."
        )


def seeds(explorer: ExplorerState) -> list[Document]:
    """Returns the documents that have a button or a card: presets, what was tried, what a search has found."""
    present = explorer.document
    tried = [each.under(present) for each in explorer.tried]
    layouts = [preset.layout for preset in explorer.documents.presets if preset.layout is not None]
    found = [dataclasses.replace(present, layout=layout) for layout in (*layouts, *_found(explorer))]
    return [each for each in dict.fromkeys((*tried, *found)) if is_beside(each, present)]


def is_beside(document: Document, present: Document) -> bool:
    """Whether a document is of the same program, mesh and machine as the present one: another layout of it."""
    return dataclasses.replace(document, layout=present.layout) == present


def _found(explorer: ExplorerState) -> Iterator[Layout]:
    """Yields what the latest search has found: its layout, those that are as good, and the front of time and memory."""
    choice = explorer.choice
    if choice is None:
        return
    yield choice.plan.layout
    yield from itertools.islice(choice.proof.ties, TIES)
    if explorer.searches.fastest is not None:
        yield from (point.layout for point in choice.pareto)
