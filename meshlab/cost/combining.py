"""All-reduces that are made one, as XLA does for CPUs and GPUs: then all operands and results are in memory at once.

    all-reduce of g1, …, all-reduce of g2      one all-reduce of (g1, g2), if g2 does not wait for the sum of g1

(openxla/xla, `AllReduceCombiner`.)
"""

from __future__ import annotations

from collections.abc import Sequence

from .nodes import Graph, Node, ancestors


def combine(graph: Graph, found: Sequence[tuple[tuple, int]]):
    """Makes one of all-reduces that are alike and do not wait for each other.

    Args:
        graph: the nodes, which are changed.
        found: what makes an all-reduce alike to others (mesh axes, what it computes, dtype), and its node.
    """
    groups: dict[tuple, list[int]] = {}
    for kind, number in found:
        groups.setdefault(kind, []).append(number)
    if all(len(group) == 1 for group in groups.values()):
        return
    after = ancestors(graph)
    for group in groups.values():
        waiting = group
        while waiting:
            taken, left = [], []
            for number in waiting:
                (left if any(after[number] >> t & 1 for t in taken) else taken).append(number)
            if len(taken) > 1:
                _join(graph, taken)
                after = ancestors(graph) if left else after
            waiting = left


def _join(graph: Graph, taken: Sequence[int]):
    """All-reduces as one node, of which they are the results."""
    nodes = graph.nodes
    main = graph.add(Node("several", [nodes[n].reads[0] for n in taken], None, (), nodes[taken[-1]].step))
    for place, number in enumerate(taken):
        nodes[number].kind, nodes[number].reads, nodes[number].place = "part", (main,), place
