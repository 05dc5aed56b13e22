"""Gives large reductions to a library, before anything else is fused: XLA for CPUs does so, with YNNPACK.

    mul → reduce_sum → sqrt, of 64 × 128 floats: one call of the library, which computes all three

The library fuses the nodes that only it reads, and its only reader (openxla/xla, `LibraryRewriter`, `YnnMatcher`).
"""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...engine.rules import names_where
from .graph import Graph, Node
from .translate import LEAST_ELEMENTS

# Primitives that the library has (`YnnMatcher`).
_LIBRARY = names_where(lambda traits: traits.library)


class LibraryCall(NamedTuple):
    """The nodes that one call of the library computes.

    Attributes:
        reads: the nodes that it reads from memory.
        inside: the nodes that it computes, the one that it stores first.
        broadcast: the scalars among what it reads that are broadcast in memory.
    """

    reads: tuple[int, ...]
    inside: tuple[int, ...]
    broadcast: tuple[int, ...]


def library_calls(
    graph: Graph, order: list[int], users: list[list[int]], returned: frozenset[int]
) -> dict[int, LibraryCall]:
    """Returns the calls of the library in a graph, by the node that each stores.

    Args:
        graph: the nodes; those of scalars that are broadcast in memory are added.
        order: the nodes, each after its operands; what is added comes first.
        users: the nodes that read each node; what is added has none.
        returned: the outputs.
    """
    finder = _LibraryFinder(graph, users, returned)
    for number in reversed(order):
        if number not in finder.taken and finder.starts(graph.nodes[number]):
            finder.add(number)
    order[:0] = reversed(range(len(users), len(graph.nodes)))
    users.extend([] for _ in graph.nodes[len(users) :])
    return finder.calls


class _LibraryFinder:
    """Grows the calls of one graph.

    Attributes:
        calls: by the node that each stores.
        taken: the nodes inside them.
        shared: how many nodes of the graph have each scalar as a literal, by scalar and shape.
    """

    def __init__(self, graph: Graph, users: Sequence[Sequence[int]], returned: frozenset[int]):
        self.graph, self.nodes, self.users, self.returned = graph, graph.nodes, users, returned
        self.calls: dict[int, LibraryCall] = {}
        self.taken: set[int] = set()
        self.shared: Mapping[tuple, int] = collections.Counter(
            (value, node.shape) for node in graph.nodes for value in set(node.literals) if node.shape
        )

    def starts(self, node: Node) -> bool:
        """Whether a call starts at a node: a large reduction of floats."""
        if node.kind != "reduce" or node.op not in _LIBRARY or str(node.dtype) != "float32" or not node.reads:
            return False
        return math.prod(self.nodes[node.reads[0]].shape) >= LEAST_ELEMENTS

    def add(self, reduction: int):
        """Adds the call that starts at a reduction."""
        inside, root = self.grown(reduction)
        reads = dict.fromkeys(r for n in sorted(inside) for r in self.nodes[n].reads if r not in inside)
        broadcast = []
        for number in sorted(inside):
            node = self.nodes[number]
            for value in set(node.literals):
                mine = sum(value in self.nodes[n].literals and self.nodes[n].shape == node.shape for n in inside)
                if node.kind == "elementwise" and self.shared[value, node.shape] > mine:
                    # Common subexpressions are one by now: a scalar that other nodes broadcast, too, is in memory.
                    broadcast.append(self.broadcast(value, node))
        self.taken |= inside
        self.calls[root] = LibraryCall(
            (*dict.fromkeys((*reads, *broadcast)),), (root, *(inside - {root})), (*broadcast,)
        )

    def grown(self, reduction: int) -> tuple[set[int], int]:
        """Returns the nodes of the call that starts at a reduction, and the one among them that it stores."""
        inside, root = {reduction}, reduction
        # Up, then down, until nothing more goes in: a reader below may be the last one that kept an operand out.
        while True:
            before = len(inside)
            waiting = [r for n in inside for r in self.nodes[n].reads]
            while waiting:
                read = waiting.pop()
                if read in inside or read in self.returned or not self.fits(read):
                    continue
                if all(user in inside for user in self.users[read]):
                    inside.add(read)
                    waiting += self.nodes[read].reads
            users = self.users[root]
            while root not in self.returned and len(users) == 1 and self.fits(users[0]):
                root = users[0]
                inside.add(root)
                users = self.users[root]
            if len(inside) == before:
                return inside, root

    def fits(self, number: int) -> bool:
        """Whether the library may compute a node."""
        node = self.nodes[number]
        if number in self.taken:
            return False
        if node.kind in ("broadcast", "bitcast"):
            return True
        if node.kind == "constant":
            return node.op != "iota"
        large = math.prod(node.shape) >= LEAST_ELEMENTS
        return node.kind == "elementwise" and large and node.op in _LIBRARY and str(node.dtype) == "float32"

    def broadcast(self, value: float, node: Node) -> int:
        """Returns the node of a scalar that is broadcast to a node's shape."""
        for number, other in enumerate(self.nodes):
            if other.kind == "constant" and other.literals == (value,) and other.shape == node.shape:
                return number
        return self.graph.add(Node("constant", (), node.buffer, node.shape, node.step, literals=(value,)))
