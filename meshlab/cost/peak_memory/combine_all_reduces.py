"""Combines all-reduces into one, as XLA does for CPUs and GPUs: then all operands and results are in memory at once.

    all-reduce of q, of k, of v     one all-reduce of (q, k, v): none depends on another

XLA starts with the first that is left, in the order in which their results are needed, and adds equal kinds, up to one
that depends on one of them. Then it orders anew, since the readers of one depend on all by now, and starts again
(openxla/xla, `AllReduceCombiner`, `CombineInstructionsByKey`).
"""

from __future__ import annotations

import collections
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence

from ...engine.code.operations import item_bytes
from .graph import Graph, Node, topological

Kind = Hashable


def combine(graph: Graph, all_reduces: Sequence[tuple[Kind, int]], threshold: float):
    """Combines all-reduces of one kind that do not depend on each other.

    Args:
        graph: the nodes, which are changed.
        all_reduces: the kind (mesh axes, reduction, dtype) and the node of each.
        threshold: the most bytes of a combined one.
    """
    left = {number: kind for kind, number in all_reduces}
    order: list[int] = []
    dependencies: Mapping[int, tuple[int, int]] = {}
    while any(count > 1 for count in collections.Counter(left.values()).values()):
        if not order:
            nodes = topological(graph)
            graph.before = graph.before or tuple(nodes)
            order = [number for number in nodes if number in left]
            dependencies = _dependencies(graph, nodes, left)
        group = _next_group(graph, order, left, dependencies, threshold)
        if len(group) > 1:
            _join(graph, group)
            order = []


def _dependencies(graph: Graph, order: Sequence[int], left: Iterable[int]) -> dict[int, tuple[int, int]]:
    """For each all-reduce a bit of its own, and the bits of those that it depends on."""
    bits = {number: 1 << rank for rank, number in enumerate(left)}
    masks = [0] * len(graph.nodes)
    for number in order:
        for read in graph.nodes[number].reads:
            masks[number] |= masks[read] | bits.get(read, 0)
    return {number: (bit, masks[number]) for number, bit in bits.items()}


def _next_group(
    graph: Graph,
    order: Sequence[int],
    left: dict[int, Kind],
    dependencies: Mapping[int, tuple[int, int]],
    threshold: float,
) -> list[int]:
    """Removes the all-reduces that are combined next from those that are left, in order."""
    group: list[int] = []
    kind, size, members = None, 0.0, 0
    for number in order:
        if number not in left or (kind is not None and left[number] != kind):
            continue
        kind = left[number]
        one, (bit, depends_on) = _nbytes(graph.nodes[number]), dependencies[number]
        if one <= threshold and (size + one > threshold or depends_on & members):
            break
        del left[number]
        if one <= threshold:
            group.append(number)
            size, members = size + one, members | bit
    return group


def _nbytes(node: Node) -> float:
    return math.prod(node.shape) * item_bytes(node.dtype)


def _join(graph: Graph, group: Sequence[int]):
    """Makes all-reduces the results of one node."""
    nodes = graph.nodes
    main = graph.add(Node("several", [nodes[n].reads[0] for n in group], None, (), nodes[group[-1]].step))
    for rank, number in enumerate(group):
        nodes[number].kind, nodes[number].reads, nodes[number].position = "part", (main,), rank
