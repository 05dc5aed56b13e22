"""All-reduces that are made one, as XLA does for CPUs and GPUs: then all operands and results are in memory at once.

    all-reduce of q, of k, of v     one all-reduce of (q, k, v): none waits for another

Of those that are alike, each joins the one before it (in the order in which their results are needed), unless it waits
for one that has joined already (openxla/xla, `AllReduceCombiner`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..engine.code import item_bytes
from .nodes import Graph, Node, ancestors, topological


def combine(graph: Graph, found: Sequence[tuple[tuple, int]], most: float):
    """Makes one of all-reduces that are alike and do not wait for each other.

    Args:
        graph: the nodes, which are changed.
        found: what makes an all-reduce alike to others (mesh axes, what it computes, dtype), and its node.
        most: so many bytes they have together at most.
    """
    groups: dict[tuple, list[int]] = {}
    for kind, number in found:
        groups.setdefault(kind, []).append(number)
    if all(len(group) == 1 for group in groups.values()):
        return
    place = {number: position for position, number in enumerate(topological(graph))}
    after = ancestors(graph)
    for group in groups.values():
        taken: list[int] = []
        for number in sorted(group, key=place.__getitem__):
            size = sum(_nbytes(graph.nodes[t]) for t in (*taken, number))
            if size > most or any(after[number] >> t & 1 or after[t] >> number & 1 for t in taken):
                _join(graph, taken, after)
                taken = []
            taken.append(number)
        _join(graph, taken, after)


def _nbytes(node: Node) -> float:
    return math.prod(node.shape) * item_bytes(node.dtype)


def _join(graph: Graph, taken: Sequence[int], after: list[int]):
    """Makes all-reduces the results of one node, and has all that wait for one of them wait for all."""
    if len(taken) <= 1:
        return
    nodes = graph.nodes
    main = graph.add(Node("several", [nodes[n].reads[0] for n in taken], None, (), nodes[taken[-1]].step))
    members, waits = 0, 1 << main
    for position, number in enumerate(taken):
        nodes[number].kind, nodes[number].reads, nodes[number].place = "part", (main,), position
        members |= 1 << number
        waits |= after[number]
    for number, bits in enumerate(after):
        if bits & members:
            after[number] = bits | waits
    after.append(waits & ~members)
