"""All-reduces that are made one, as XLA does for CPUs and GPUs: then all operands and results are in memory at once.

    all-reduce of q, of k, of v     one all-reduce of (q, k, v): none waits for another

XLA starts with the first that is left, in the order in which their results are needed, and adds those like it, up to
the one that waits for one of them; then it orders anew, for what waits for one waits for all by now, and starts again
(openxla/xla, `AllReduceCombiner`, `CombineInstructionsByKey`).
"""

from __future__ import annotations

import collections
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence

from ...engine.code.operations import item_bytes
from .graph import Graph, Node, topological

Kind = Hashable


def combine(graph: Graph, found: Sequence[tuple[Kind, int]], most: float):
    """Makes one of all-reduces that are alike and do not wait for each other.

    Args:
        graph: the nodes, which are changed.
        found: what makes an all-reduce alike to others (mesh axes, what it computes, dtype), and its node.
        most: so many bytes they have together at most.
    """
    left = {number: kind for kind, number in found}
    order: list[int] = []
    waits: Mapping[int, tuple[int, int]] = {}
    while any(count > 1 for count in collections.Counter(left.values()).values()):
        if not order:
            whole = topological(graph)
            graph.before = graph.before or tuple(whole)
            order = [number for number in whole if number in left]
            waits = _waits(graph, whole, left)
        taken = _taken(graph, order, left, waits, most)
        if len(taken) > 1:
            _join(graph, taken)
            order = []


def _waits(graph: Graph, order: Sequence[int], left: Iterable[int]) -> dict[int, tuple[int, int]]:
    """For each all-reduce a bit of its own, and those of the others that it waits for."""
    bits = {number: 1 << place for place, number in enumerate(left)}
    found = [0] * len(graph.nodes)
    for number in order:
        for read in graph.nodes[number].reads:
            found[number] |= found[read] | bits.get(read, 0)
    return {number: (bit, found[number]) for number, bit in bits.items()}


def _taken(
    graph: Graph, order: Sequence[int], left: dict[int, Kind], waits: Mapping[int, tuple[int, int]], most: float
) -> list[int]:
    """Takes from those that are left the ones that are made one next, in order."""
    taken: list[int] = []
    kind, size, members = None, 0.0, 0
    for number in order:
        if number not in left or (kind is not None and left[number] != kind):
            continue
        kind = left[number]
        one, (bit, waiting) = _nbytes(graph.nodes[number]), waits[number]
        if one <= most and (size + one > most or waiting & members):
            break
        del left[number]
        if one <= most:
            taken.append(number)
            size, members = size + one, members | bit
    return taken


def _nbytes(node: Node) -> float:
    return math.prod(node.shape) * item_bytes(node.dtype)


def _join(graph: Graph, taken: Sequence[int]):
    """Makes all-reduces the results of one node."""
    nodes = graph.nodes
    main = graph.add(Node("several", [nodes[n].reads[0] for n in taken], None, (), nodes[taken[-1]].step))
    for place, number in enumerate(taken):
        nodes[number].kind, nodes[number].reads, nodes[number].place = "part", (main,), place
