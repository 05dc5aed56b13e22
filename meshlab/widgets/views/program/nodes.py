"""What is sent of a program's tree: nodes as columns, and what nodes name by its position.

nodes_view([Row(-1, 0, 1, …), Row(0, 1, 2, …)])["parent"]        [-1, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

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
