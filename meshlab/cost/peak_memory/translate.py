"""How one operation becomes nodes: most are one, of a kind that a table tells by their primitive; a few are more.

    mul x, 2.0                       map
    dot_general of x turned          permute → opaque: a product reads its operands in an order of its own
    reduce_max, split and exchanged  fold → collective

What is more follows what XLA makes of these operations before it fuses (openxla/xla: `DotDecomposer`,
`TransposeFolding`, `AlgebraicSimplifier`, `TreeReductionRewriter`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...engine.code.operations import Literal, Operation, item_bytes
from ...engine.planning.steps import Compute
from ..workload.dataflow import Key
from ..workload.primitives import EXPENSIVE
from .graph import Buffer, Node
from .primitive_kinds import KINDS, ascends, orders
from .scope import Scope
from .translate_local_forms import exchanged

Shape = tuple[int, ...]
Rule = Callable[[Scope, Compute, Sequence[int | None], Sequence[Key]], None]

# XLA for CPUs sums along axes that are longer in two stages (`TreeReductionRewriter`); arrays of so many elements are
# handed to a library instead (`YnnMatcher`).
WINDOW, LEAST_ELEMENTS = 32, 4096
_RULES: dict[str, Rule] = {}


def translate(scope: Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    """Adds the nodes of a step to a block that is being built.

    Args:
        scope: the block.
        step: what runs.
        operands: the nodes of its inputs; None for literals.
        made: the keys of its results.
    """
    name = step.operation.name
    kind = KINDS.get(name, "opaque")
    if step.exchanged:
        exchanged(scope, step, operands, made)
    elif name in _RULES:
        _RULES[name](scope, step, operands, made)
    elif len(made) > 1:
        scope.several([r for r in operands if r is not None], made, "opaque")
    else:
        _plain(scope, step, kind, operands, made[0])


def _plain(scope: Scope, step: Compute, kind: str, operands: Sequence[int | None], key: Key):
    """An operation that is one node, of the kind of its primitive."""
    reads, shape = [r for r in operands if r is not None], scope.context.shape(key)
    expensive = step.operation.name in EXPENSIVE and _is_costly(step)
    if kind == "map":
        if not reads:
            kind = "fill"
        elif _before_spread(scope, step, reads, key, expensive):
            return
        else:
            reads = _with_scalars_spread(scope, reads, key, shape)
    if kind == "spread" and reads and math.prod(shape) == math.prod(scope.graph.nodes[reads[0]].shape):
        kind = "view"
    scope.env[key] = number = scope.node(kind, reads, key, expensive=expensive, reused=kind == "spread")
    node = scope.graph.nodes[number]
    node.op = step.operation.name
    if kind in ("map", "fill"):
        node.literals = numbers(step.operation)


def numbers(operation: Operation) -> tuple[Any, ...]:
    """The numbers among the inputs of an operation."""
    return tuple([np.asarray(v.value).item() for v in operation.inputs if isinstance(v, Literal)])


def _is_costly(step: Compute) -> bool:
    """Divisions of whole numbers by a constant are cheap."""
    if step.operation.name not in ("div", "rem"):
        return True
    dtype = step.operation.equation.outvars[0].aval.dtype
    return bool(np.issubdtype(dtype, np.inexact)) or not isinstance(step.operation.inputs[1], Literal)


def _with_scalars_spread(scope: Scope, reads: Sequence[int], key: Key, shape: Shape) -> list[int]:
    """What an operation reads, with scalars among arrays repeated for each element."""
    scalars = [r for r in dict.fromkeys(reads) if shape and not scope.graph.nodes[r].shape]
    spread = {r: scope.node("spread", (r,), key, reused=True) for r in scalars}
    return [spread.get(r, r) for r in reads]


def _before_spread(scope: Scope, step: Compute, reads: Sequence[int], key: Key, expensive: bool) -> bool:
    """Computes what is computed of a repeated array alone before it is repeated, if that is so."""
    nodes = scope.graph.nodes
    arrays = {r for r in reads if nodes[r].shape}
    spread = next(iter(arrays)) if len(arrays) == 1 else -1
    if spread < 0 or nodes[spread].kind != "spread":
        return False
    source = nodes[nodes[spread].reads[0]]
    if not source.shape or source.buffer is None:
        return False
    dtype = scope.context.code.dtypes[key[0]]
    factor = item_bytes(dtype) / item_bytes(scope.context.code.dtypes[source.buffer.key[0]])
    inner = (nodes[spread].reads[0], *(r for r in reads if r != spread))
    small = Node("map", inner, Buffer(source.buffer.key, factor), source.shape, scope.step, expensive=expensive)
    small.op, small.dtype, small.literals = step.operation.name, dtype, numbers(step.operation)
    scope.env[key] = scope.node("spread", (scope.graph.add(small),), key, reused=True)
    return True


def _fold(scope: Scope, read: int, step: Compute, key: Key) -> int:
    """A sum or maximum; of small arrays along long axes in two stages, of which the first is never fused."""
    node, axes = scope.graph.nodes[read], step.operation.params["axes"]
    in_stages = scope.context.backend.libraries and any(node.shape[a] > WINDOW for a in axes)
    if in_stages and math.prod(node.shape) < LEAST_ELEMENTS:
        shape = tuple(math.ceil(n / WINDOW) if a in axes else n for a, n in enumerate(node.shape))
        factor = math.prod(shape) / math.prod(node.shape)
        made = Node("opaque", (read,), Buffer(scope.operand(step, 0), factor), shape, scope.step)
        made.dtype = node.dtype
        read = scope.graph.add(made)
    number = scope.node("fold", (read,), key, expensive=True)
    scope.graph.nodes[number].op = step.operation.name
    return number


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def _turned(scope: Scope, step: Compute, side: int, read: int, order: Sequence[int]) -> int:
    """An operand of a step with its axes in another order; made once."""
    if not scope.context.backend.reorders:
        return read
    axes = tuple(a for a in order if scope.graph.nodes[read].shape[a] != 1)
    if (read, axes) not in scope.turns:
        scope.turns[read, axes] = scope.node("permute", (read,), scope.operand(step, side))
    return scope.turns[read, axes]


@_rule("dot_general")
def _product(scope: Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    """A product of matrices, row by column: batch axes first, then those of rows, then those of columns."""
    (contracted, batched) = step.operation.params["dimension_numbers"]
    if _is_outer(scope, operands, contracted):
        both = [scope.node("spread", (r,), made[0], reused=True) for r in operands if r is not None]
        scope.env[made[0]] = scope.node("map", both, made[0])
        return
    if _of_vectors(scope, operands, contracted, batched):
        both = [r for r in operands if r is not None]
        terms = scope.node("map", both, scope.operand(step, 0))
        scope.graph.nodes[terms].op = "mul"
        scope.env[made[0]] = _summed(scope, terms, made[0])
        return
    reads, sizes = [], []
    for side, read in enumerate(operands):
        if read is None:
            continue
        shape, batch, contract = scope.graph.nodes[read].shape, batched[side], contracted[side]
        free = [a for a in range(len(shape)) if a not in batch and a not in contract]
        inner = [free, contract] if side == 0 else [contract, free]
        wanted, other = [*batch, *inner[0], *inner[1]], [*batch, *inner[1], *inner[0]]
        # A single matrix may be read by rows or by columns.
        single = len(free) <= 1 and len(contract) <= 1
        if not (single and other == sorted(other)) and not ascends(wanted, shape):
            read = _turned(scope, step, side, read, wanted)  # noqa: PLW2901
        lengths = [math.prod(shape[a] for a in axes) for axes in inner]
        sizes.append(lengths[side])
        plain = tuple(n for n in shape if n != 1) if single else (*(shape[a] for a in batch), *lengths)
        reads.append(_as_matrix(scope, read, plain, lengths[side]))
    result, shape = scope.node(scope.context.backend.product, reads, made[0]), scope.context.shape(made[0])
    merged = (*shape[: len(batched[0])], *sizes)
    if len(reads) == len(operands):
        result = _of_matrices(scope, result, merged)
    scope.graph.nodes[result].op = "dot_general"
    scope.env[made[0]] = result


def _as_matrix(scope: Scope, read: int, plain: Shape, free: int) -> int:
    """An operand of a product as XLA reads it; a vector, whose axes of size 1 it takes away, gets one for a matrix."""
    if free != 1 or not scope.context.backend.reorders:
        return scope.viewed(read, plain)
    bare = tuple(n for n in plain if n != 1)
    return scope.viewed(scope.viewed(read, bare), (*bare, 1))


def _of_matrices(scope: Scope, result: int, merged: Shape) -> int:
    """What a product makes, as XLA makes it: axes in one, and those of size 1 taken away and put back for vectors."""
    shape = scope.graph.nodes[result].shape
    bare = tuple(n for n in merged if n != 1)
    if 1 in merged[-2:] and bare != shape and scope.context.backend.reorders:
        return scope.viewed(scope.merged(result, merged, bare), shape)
    return scope.merged(result, merged, shape) if len(merged) != len(shape) else result


@_rule("div")
def _quotient(scope: Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    """A quotient; what is divided by something repeated for it alone is multiplied by its reciprocal, repeated."""
    (above, below), nodes = operands, scope.graph.nodes
    divisor = step.operation.inputs[1]
    spread = nodes[below] if below is not None else None
    alone = isinstance(divisor, int) and scope.context.program.uses[divisor] == 1
    if above is None or spread is None or spread.kind != "spread" or not alone or not _is_costly(step):
        _plain(scope, step, "map", operands, made[0])
        return
    source = nodes[spread.reads[0]]
    inverse = Node("map", spread.reads, source.buffer, source.shape, step, expensive=True)
    inverse.op, inverse.dtype = "div", source.dtype
    repeated = scope.node("spread", (scope.graph.add(inverse),), made[0], reused=True)
    scope.env[made[0]] = number = scope.node("map", (above, repeated), made[0])
    nodes[number].op = "mul"


def _is_outer(scope: Scope, operands: Sequence[int | None], contracted: Sequence[Sequence[int]]) -> bool:
    """Whether a product sums over a single element: then it is a multiplication, element by element."""
    first = operands[0]
    return first is not None and math.prod(scope.graph.nodes[first].shape[a] for a in contracted[0]) == 1


def _of_vectors(
    scope: Scope,
    operands: Sequence[int | None],
    contracted: Sequence[Sequence[int]],
    batched: Sequence[Sequence[int]],
) -> bool:
    """Whether a product is of vectors alone: then XLA multiplies them, and sums (`AlgebraicSimplifier`)."""
    for side, read in enumerate(operands):
        taken = {*contracted[side], *batched[side]}
        if read is None or any(n != 1 for a, n in enumerate(scope.graph.nodes[read].shape) if a not in taken):
            return False
    return scope.context.backend.reorders


def _summed(scope: Scope, read: int, key: Key) -> int:
    """The sum of what was just made."""
    number = scope.node("fold", (read,), key, expensive=True)
    scope.graph.nodes[number].op = "reduce_sum"
    return number


@_rule("conv_general_dilated")
def _convolution(scope: Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    """A convolution: the batch first and the channels last, of the window the channels that it makes last."""
    numbers, reads = step.operation.params["dimension_numbers"], []
    for side, (read, wanted) in enumerate(zip(operands, orders(numbers), strict=False)):
        if read is not None:
            fits = ascends(wanted, scope.graph.nodes[read].shape)
            reads.append(read if fits else _turned(scope, step, side, read, wanted))
    result = scope.node(scope.context.backend.product, reads, made[0])
    if scope.context.backend.reorders and not ascends(orders(numbers)[2], scope.context.shape(made[0])):
        result = scope.node("permute", (result,), made[0])
    scope.env[made[0]] = result


@_rule("add_any", "add")
def _added(scope: Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    """A sum; what is scattered into zeros and then added to something is scattered into that, where XLA does so."""
    nodes = scope.graph.nodes
    if scope.context.backend.fuses:
        for value, read, other in zip(step.operation.inputs, operands, reversed(operands), strict=True):
            node = None if read is None else nodes[read]
            if node is None or other is None or node.op != "scatter-add" or nodes[node.reads[0]].kind != "fill":
                continue
            if isinstance(value, int) and scope.context.program.uses[value] == 1:
                scope.env[made[0]] = again = scope.node("overwrite", (other, *node.reads[1:]), made[0])
                nodes[again].op = node.op
                return
    _plain(scope, step, "map", operands, made[0])


@_rule("reduce_sum")
def _sum(scope: Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    """A sum; that of what is negated is the sum, negated."""
    nodes, read = scope.graph.nodes, operands[0]
    if read is None:
        scope.env[made[0]] = scope.node("fill", (), made[0])
        return
    negated = nodes[read].op == "neg"
    if negated:
        (read,) = nodes[read].reads
    same = math.prod(nodes[read].shape) == math.prod(scope.context.shape(made[0]))
    number = scope.node("view", (read,), made[0]) if same else _fold(scope, read, step, made[0])
    if negated:
        number = scope.node("map", (number,), made[0])
        nodes[number].op = "neg"
    scope.env[made[0]] = number


@_rule("reduce_max", "reduce_min")
def _extreme(scope: Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    (read,) = operands
    scope.env[made[0]] = scope.node("fill", (), made[0]) if read is None else _fold(scope, read, step, made[0])


@_rule("select_and_scatter_add")
def _chosen(scope: Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    """The gradient of a maximum over windows: where each lies is looked for among the indices along all axes.

    XLA for CPUs makes arrays of these indices (`SelectAndScatterExpander`).
    """
    source, operand = operands
    assert source is not None
    assert operand is not None
    graph, (small, large) = scope.graph, (scope.operand(step, side) for side in (0, 1))
    shapes, each = (
        (graph.nodes[source].shape, graph.nodes[operand].shape),
        4 / item_bytes(scope.context.code.dtypes[made[0][0]]),
    )
    rank = len(shapes[1])
    indices = [graph.add(Node("fill", (), Buffer(large, each), shapes[1], step)) for _ in range(rank)]
    main = graph.add(Node("opaque", (operand, *indices), None, (), step))
    parts = [graph.add(Node("part", (main,), Buffer(small, each), shapes[0], step)) for _ in range(rank + 1)]
    joined = graph.add(Node("join", parts[1:], Buffer(small, rank * each), (*shapes[0], rank), step))
    zeros = scope.node("fill", (), made[0])
    scope.env[made[0]] = scope.node("overwrite", (zeros, joined, source), made[0])


@_rule("split")
def _split(scope: Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    """Pieces of an array, each a slice."""
    reads = [r for r in operands if r is not None]
    for key in made:
        scope.env[key] = scope.node("permute" if reads else "fill", reads, key)


@_rule("transpose")
def _transpose(scope: Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    """A transpose; a product of two matrices that is turned is that of the turned ones, in the other order."""
    (read,), (value,) = operands, step.operation.inputs
    assert read is not None
    assert isinstance(value, int)
    node, order = scope.graph.nodes[read], step.operation.params["permutation"]
    if node.op == "dot_general" and len(node.shape) == 2 and scope.context.program.uses[value] == 1:
        node.shape, scope.env[made[0]] = scope.context.shape(made[0]), read
    else:
        scope.env[made[0]] = scope.node("view" if ascends(order, node.shape) else "permute", (read,), made[0])
