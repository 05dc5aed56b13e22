"""Stores f32 arrays as bf16 where only bf16 matmuls read them, as XLA for TPUs does.

    h   float32, read by two matmuls                      stored as bfloat16
    w   float32 stack, read by the matmuls of a loop      rounded once, before the loop
    m   float32, read by a matmul and by a sum            stored as it is

At JAX's default precision a TPU multiplies in bfloat16, so XLA rounds the operands of matmuls where they are computed,
moves them rounded, and rounds the inputs of a loop before it.
"""

from __future__ import annotations

import jax.numpy as jnp

from ...engine.collectives.kinds import ALL_REDUCE
from .graph import Buffer, Graph, topological

# Kinds that only move elements: rounded before as well as after.
_MOVES = frozenset(("bitcast", "move", "concatenate", "broadcast", "through"))
_FLOAT, _ROUNDED = jnp.dtype(jnp.float32), jnp.dtype(jnp.bfloat16)


def store_rounded(graph: Graph):
    """Marks the nodes of a block that are only read rounded, and halves the bytes of those that it computes."""
    users: list[list[int]] = [[] for _ in graph.nodes]
    order = topological(graph)
    for number in order:
        for read in graph.nodes[number].reads:
            users[read].append(number)
    returned = {n for n in graph.outputs if n is not None}
    for number in reversed(order):
        node = graph.nodes[number]
        if number in returned or not users[number] or node.buffer is None or node.dtype != _FLOAT:
            continue
        if all(_rounds(graph, user) for user in users[number]):
            graph.rounded.add(number)
            if node.kind != "source":
                node.buffer, node.dtype = Buffer(node.buffer.key, node.buffer.factor / 2), _ROUNDED


def _rounds(graph: Graph, number: int) -> bool:
    """Whether a node rounds its operands: a matmul at the default precision, a cast, or a move of rounded elements."""
    node = graph.nodes[number]
    if node.kind == "matmul":
        operation = node.step.computes if node.step else None
        return operation is None or _is_default(operation.params.get("precision"))
    if node.op == "convert_element_type":
        return node.dtype == _ROUNDED
    if node.kind == "barrier":
        return True  # its operands are judged at their own `through`
    moves = node.kind in _MOVES or (node.kind == "collective" and node.op != ALL_REDUCE.name)
    return moves and number in graph.rounded


def _is_default(precision: object) -> bool:
    """Whether a precision is JAX's default, for both operands."""
    both = precision if isinstance(precision, tuple) else (precision,)
    return all(one is None or str(one).endswith("DEFAULT") for one in both)
