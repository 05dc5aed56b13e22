"""What is sent of a program's tree: nodes as columns, and what nodes name by its position.

nodes_view([Row(-1, 0, 1, …), Row(0, 1, 2, …)])["parent"]        [-1, 0]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypedDict

PHASE, SCOPE, FUNCTION, LOOP, BLOCK, ALIKE, LINE, STEP, COLLECTIVE, SLICE = range(10)
KINDS = ("phase", "scope", "function", "loop", "block", "alike", "line", "step", "collective", "slice")

# So many operations of a line are named beside it.
_MOST_NAMES = 4

# Name, size, local size, mesh axes.
SizedDimView = tuple[int, int, int, int]
# Dtype, dims, mesh axes of partial sums.
ValueTypeView = tuple[int, list[SizedDimView], int]


class SentView(TypedDict):
    """A collective of one step: the payload, and the wire bytes, of one device each time."""

    id: str
    kind: str
    key: str
    payload: int
    wire: float
    times: int
    value: str
    dims: list[str]
    source: str
    code: str
    because: str


class ProgramNodesView(TypedDict):
    """Nodes as columns; texts, types, collectives and other nodes by their position, -1 for none."""

    parent: list[int]
    kind: list[int]
    label: list[int]
    name: list[int]
    source: list[int]
    value: list[int]
    uses: list[int]
    makes: list[int]
    reads: list[list[int]]
    collective: list[int]
    times: list[int]


class ProgramDataView(TypedDict):
    kinds: list[str]
    strings: list[str]
    types: list[ValueTypeView]
    collectives: list[SentView]
    nodes: ProgramNodesView


class Row(NamedTuple):
    """One node."""

    parent: int
    kind: int
    label: int
    name: int
    source: int
    value: int
    uses: int
    makes: int
    reads: list[int]
    collective: int
    times: int


def nodes_view(rows: Sequence[Row]) -> ProgramNodesView:
    """Lays nodes out as columns."""
    return {
        "parent": [row.parent for row in rows],
        "kind": [row.kind for row in rows],
        "label": [row.label for row in rows],
        "name": [row.name for row in rows],
        "source": [row.source for row in rows],
        "value": [row.value for row in rows],
        "uses": [row.uses for row in rows],
        "makes": [row.makes for row in rows],
        "reads": [row.reads for row in rows],
        "collective": [row.collective for row in rows],
        "times": [row.times for row in rows],
    }


def phases_of(backward: Sequence[bool]) -> list[str]:
    """Names the phase of each part of a block, by whether it is of a backward pass: nothing where none is."""
    if not any(backward):
        return [""] * len(backward)
    first, behind = backward.index(True), len(backward) - list(reversed(backward)).index(True)
    return ["forward" if i < first else "backward" if i < behind else "update" for i in range(len(backward))]


def named_together(names: Iterable[str]) -> str:
    """Names the operations of a line, each once."""
    each = list(dict.fromkeys(names))
    more = [f"{len(each) - _MOST_NAMES} more"] if len(each) > _MOST_NAMES else []
    return ", ".join(each[:_MOST_NAMES] + more)


class Table(dict[Any, int]):
    """Numbers what is put into it, in order."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]


class Memo(dict[Any, Any]):
    """Remembers what a function returned: most of a program's thousands of steps ask for the same."""

    def __init__(self, function: Callable[[Any], Any]):
        super().__init__()
        self.function = function

    def __missing__(self, key: Any) -> Any:
        self[key] = found = self.function(key)
        return found


class Nodes:
    """Gathers the nodes of a program, each behind its parent.

    Attributes:
        strings: all texts.
        types: the types of values: a dtype, a tuple of (name, size, local size, mesh axes), mesh axes of partial sums.
        collectives: those of nodes.
        rows: the nodes.
    """

    def __init__(self):
        self.strings, self.types = Table({"": 0}), Table()
        self.collectives: list[SentView] = []
        self.rows: list[Row] = []

    def add(
        self,
        parent: int,
        kind: int,
        label: str = "",
        *,
        name: str = "",
        source: str = "",
        value: str = "",
        uses: str = "",
        makes: int = -1,
        reads: Sequence[int] = (),
        collective: int = -1,
        times: int = 1,
    ) -> int:
        """Adds a node behind all others, and returns its number."""
        text = self.strings
        told = text[label], text[name], text[source], text[value], text[uses]
        self.rows.append(Row(parent, kind, *told, makes, list(reads), collective, times))
        return len(self.rows) - 1

    def send(self, parent: int, sent: SentView, **facts: Any) -> int:
        """Adds the node of a collective."""
        self.collectives.append(sent)
        return self.add(parent, COLLECTIVE, collective=len(self.collectives) - 1, **facts)

    def data(self) -> ProgramDataView:
        """Returns all that is sent."""
        strings = self.strings  # types put more into it
        types: list[ValueTypeView] = [
            (
                strings[str(dtype)],
                [(strings[d], size, local, strings[axes]) for d, size, local, axes in dims],
                strings[partial],
            )
            for dtype, dims, partial in self.types
        ]
        return {
            "kinds": list(KINDS),
            "strings": list(strings),
            "types": types,
            "collectives": self.collectives,
            "nodes": nodes_view(self.rows),
        }
