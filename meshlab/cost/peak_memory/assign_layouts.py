"""Where arrays change the order of their axes for a collective: XLA does it as early as it can.

    mul(dot, x) → copy → all-gather of axis 1      mul(copy of dot, copy of x) → all-gather of axis 1

XLA chooses the layout that a collective wants for all that is computed element by element for it alone, and copies what
that is made of (openxla/xla, `LayoutAssignment`, which hands layouts from users to operands).
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

from .graph import Graph, Node

# What has a layout of its own as soon as it is computed.
_HANDED_ON = frozenset(("map", "spread"))


def relay(graph: Graph, copies: Sequence[int]):
    """Moves copies in another order up to what is not computed for them alone.

    Args:
        graph: the nodes, which are changed.
        copies: the nodes that put the axes of what they read in another order.
    """
    nodes = graph.nodes
    users = collections.Counter(read for node in nodes for read in set(node.reads))
    users.update(number for number in graph.outputs if number is not None)
    made: dict[int, int] = {}
    waiting = list(copies)
    while waiting:
        copy = waiting.pop()
        (read,) = nodes[copy].reads
        node = nodes[read]
        if node.kind not in _HANDED_ON or users[read] > 1 or len(node.shape) < 2:
            continue
        nodes[copy].kind, reads = "view", []
        for operand in node.reads:
            if len(nodes[operand].shape) > 1:
                if operand not in made:
                    made[operand] = _copied(graph, operand)
                    users[operand] += 1
                    waiting.append(made[operand])
                if made[operand] not in reads:
                    users[operand] -= 1
                    users[made[operand]] += 1
                reads.append(made[operand])
            else:
                reads.append(operand)
        node.reads = tuple(reads)


def _copied(graph: Graph, number: int) -> int:
    """A copy of what a node makes."""
    node = graph.nodes[number]
    copy = Node("permute", (number,), node.buffer, node.shape, node.step)
    copy.dtype = node.dtype
    return graph.add(copy)
