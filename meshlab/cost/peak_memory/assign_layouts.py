"""Moves transposed copies of arrays towards where they are computed, as XLA's layout assignment does.

    mul(matmul, x) → copy → all-gather of axis 1      mul(copy of matmul, copy of x) → all-gather of axis 1

XLA gives the layout that a collective needs to all elementwise operations that only it reads, and copies their operands
(openxla/xla, `LayoutAssignment`, which propagates layouts from users to operands).
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

from .graph import Graph, Node

# Kinds that take the layout of their user.
_PROPAGATING = frozenset(("elementwise", "broadcast"))


def hoist_copies(graph: Graph, copies: Sequence[int]):
    """Moves transposed copies up to the operands of what only they read.

    Args:
        graph: the nodes, which are changed.
        copies: the nodes that transpose their operand for a collective.
    """
    nodes = graph.nodes
    users = collections.Counter(read for node in nodes for read in set(node.reads))
    users.update(number for number in graph.outputs if number is not None)
    copy_of: dict[int, int] = {}
    waiting = list(copies)
    while waiting:
        copy = waiting.pop()
        (read,) = nodes[copy].reads
        node = nodes[read]
        if node.kind not in _PROPAGATING or users[read] > 1 or len(node.shape) < 2:
            continue
        nodes[copy].kind, reads = "bitcast", []
        for operand in node.reads:
            if len(nodes[operand].shape) > 1:
                if operand not in copy_of:
                    copy_of[operand] = _copied(graph, operand)
                    users[operand] += 1
                    waiting.append(copy_of[operand])
                if copy_of[operand] not in reads:
                    users[operand] -= 1
                    users[copy_of[operand]] += 1
                reads.append(copy_of[operand])
            else:
                reads.append(operand)
        node.reads = tuple(reads)


def _copied(graph: Graph, number: int) -> int:
    """Adds a transposed copy of a node's result."""
    node = graph.nodes[number]
    copy = Node("move", (number,), node.buffer, node.shape, node.step, dtype=node.dtype)
    return graph.add(copy)
