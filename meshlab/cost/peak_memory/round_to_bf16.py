"""What lies in memory in 16 bits though the program says 32: whatever is only read by products that round it anyway.

    h   float32, read by two products                 stored as bfloat16
    w   float32 stack, a loop's turns multiply by it  rounded once, before the loop
    m   float32, read by a product and by a sum       stored as it is

At JAX's default precision a TPU multiplies in bfloat16, so XLA rounds what products read where it is made, moves it
rounded, and rounds what a loop reads before the loop.
"""

from __future__ import annotations

import jax.numpy as jnp

from ...engine.planning.steps import Compute
from .graph import Buffer, Graph, topological

# What only moves elements: rounded before as well as after.
_MOVES = frozenset(("view", "permute", "join", "spread", "through"))
_FLOAT, _ROUNDED = "float32", jnp.dtype(jnp.bfloat16)


def store_rounded(graph: Graph):
    """Finds what a block only reads rounded, and halves the bytes of what it makes of that."""
    users: list[list[int]] = [[] for _ in graph.nodes]
    order = topological(graph)
    for number in order:
        for read in dict.fromkeys(graph.nodes[number].reads):
            users[read].append(number)
    returned = {n for n in graph.outputs if n is not None}
    for number in reversed(order):
        node = graph.nodes[number]
        if number in returned or not users[number] or node.buffer is None or str(node.dtype) != _FLOAT:
            continue
        if all(_rounds(graph, user) for user in users[number]):
            graph.rounded.add(number)
            if node.kind != "source":
                node.buffer, node.dtype = Buffer(node.buffer.key, node.buffer.factor / 2), _ROUNDED


def _rounds(graph: Graph, number: int) -> bool:
    """Whether a node rounds what it reads: a product at the default precision, a cast, a move of what is rounded."""
    node = graph.nodes[number]
    if node.kind == "product":
        return not isinstance(node.step, Compute) or _is_default(node.step.operation.params.get("precision"))
    if node.op == "convert_element_type":
        return str(node.dtype) == str(_ROUNDED)
    if node.kind == "barrier":
        return True  # what comes through is asked itself
    moves = node.kind in _MOVES or (node.kind == "collective" and node.op != "all-reduce")
    return moves and number in graph.rounded


def _is_default(precision: object) -> bool:
    """Whether that is JAX's default precision, for both operands."""
    both = precision if isinstance(precision, tuple) else (precision,)
    return all(one is None or str(one).endswith("DEFAULT") for one in both)
