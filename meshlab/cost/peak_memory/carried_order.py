"""Finds the arrays that a loop carries in another order of axes than they are stored in, on TPUs.

    cache [batch, time, head], into which a loop writes x @ w: [batch, head], one position a turn
    carried as [time, batch, head]: copied before the loop, and back behind it

The TPU compiler makes the rows and the last axis of the columns of a matmul's result the axes of its tiles. What is
written of it has that order, and so has the array that it is written to, with the axes that are written one by one in
front. So it was in the programs that libtpu 0.0.42 compiled for v5e.
"""

from __future__ import annotations

from .graph import Context, Graph, Node

# Kinds between a matmul and what is written.
_BETWEEN = frozenset(("bitcast", "elementwise", "move", "concatenate"))


def is_reordered(context: Context, body: Graph, position: int) -> bool:
    """Says whether a loop carries an array in another order, because of what it writes into it.

    Args:
        context: the plan's.
        body: an iteration of the loop.
        position: of the array among what the loop carries.
    """
    number = body.outputs[position]
    node = None if number is None else body.nodes[number]
    if node is None or node.kind != "update" or node.reads[0] != body.inputs[position] or node.buffer is None:
        return False
    written = body.nodes[node.reads[1]]
    if len(written.shape) != len(node.shape):
        return False
    order = _order(context, _products(body, node.reads[1]))
    names = context.program.names[node.buffer.key[0]]
    whole = [axis for axis, size in enumerate(node.shape) if size > 1]
    thin = [axis for axis in whole if written.shape[axis] == 1]
    wanted = thin + [names.index(name) for name in order if name in names and names.index(name) in {*whole} - {*thin}]
    return sorted(wanted) == whole and wanted != whole


def _products(body: Graph, number: int) -> list[Node]:
    """Returns the matmuls of whose results a node is computed, element by element."""
    waiting, seen, found = [number], set(), []
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        node = body.nodes[each]
        if node.kind == "matmul":
            found.append(node)
        elif node.kind in _BETWEEN:
            waiting += node.reads
    return found


def _order(context: Context, products: list[Node]) -> list[str]:
    """Returns the dims of a matmul's result from major to minor: columns but the last, rows, the last column."""
    step = products[0].step if len(products) == 1 else None
    operation = step.computes if step else None
    if operation is None or operation.name != "dot_general" or any(operation.params["dimension_numbers"][1]):
        return []
    rows = len(context.code.shape_of(operation.inputs[0])) - len(operation.params["dimension_numbers"][0][0])
    names = context.program.names[operation.outputs[0]]
    return [name for name in (*names[rows:-1], *names[:rows], *names[max(rows, len(names) - 1) :]) if name is not None]
