"""Translates an operation to nodes: most are one, of the kind of their primitive; a few are more.

    mul x, 2.0                       elementwise
    dot_general of x transposed      move → opaque: a matmul reads its operands in an order of its own
    reduce_max, sharded              reduce → collective

Those follow the passes of XLA before fusion (openxla/xla: `DotDecomposer`, `TransposeFolding`, `AlgebraicSimplifier`,
`TreeReductionRewriter`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...engine.code.operations import Literal, Operation, item_bytes
from ...engine.planning.step_keys import Key
from ...engine.planning.steps import Compute
from ...engine.rules import PER_SHARD
from ..workload.primitives import EXPENSIVE
from .graph import Buffer, GraphBuilder, Node
from .primitive_kinds import KINDS, ascends, orders
from .translate_per_shard import translate_per_shard

Shape = tuple[int, ...]
Rule = Callable[[GraphBuilder, Compute, Sequence[int | None], Sequence[Key]], None]

# XLA for CPUs reduces along axes longer than WINDOW in two stages (`TreeReductionRewriter`), and arrays of at least
# LEAST_ELEMENTS by a library instead (`YnnMatcher`).
WINDOW, LEAST_ELEMENTS = 32, 4096
_RULES: dict[str, Rule] = {}


def translate(builder: GraphBuilder, step: Compute, operands: Sequence[int | None], results: Sequence[Key]):
    """Adds the nodes of a step to a block.

    Args:
        builder: the block.
        step: the step.
        operands: the nodes of its operands; None for literals.
        results: the keys of its results.
    """
    name = step.operation.name
    kind = KINDS.get(name, "opaque")
    own = PER_SHARD.get(name)
    if step.per_shard or (own is not None and own.composite):
        translate_per_shard(builder, step, operands, results)
    elif name in _RULES:
        _RULES[name](builder, step, operands, results)
    elif len(results) > 1:
        builder.several([r for r in operands if r is not None], results, "opaque")
    else:
        _plain(builder, step, kind, operands, results[0])


def _plain(builder: GraphBuilder, step: Compute, kind: str, operands: Sequence[int | None], key: Key):
    """Adds an operation as one node, of the kind of its primitive."""
    reads, shape = [r for r in operands if r is not None], builder.context.shape(key)
    expensive = step.operation.name in EXPENSIVE and _is_expensive(step)
    if kind == "elementwise":
        if not reads:
            kind = "constant"
        elif _before_broadcast(builder, step, reads, key, expensive):
            return
        else:
            reads = _with_scalars_broadcast(builder, reads, key, shape)
    if kind == "broadcast" and reads and math.prod(shape) == math.prod(builder.graph.nodes[reads[0]].shape):
        kind = "bitcast"
    builder.env[key] = number = builder.node(kind, reads, key, expensive=expensive, reused=kind == "broadcast")
    node = builder.graph.nodes[number]
    node.op = step.operation.name
    if kind in ("elementwise", "constant"):
        node.literals = literals_of(step.operation)


def literals_of(operation: Operation) -> tuple[Any, ...]:
    """Returns the literals among the operands of an operation."""
    return tuple([np.asarray(v.value).item() for v in operation.inputs if isinstance(v, Literal)])


def _is_expensive(step: Compute) -> bool:
    """Whether an operation of an expensive primitive is so; divisions of integers by a constant are cheap."""
    if step.operation.name not in ("div", "rem"):
        return True
    dtype = step.operation.equation.outvars[0].aval.dtype
    return bool(np.issubdtype(dtype, np.inexact)) or not isinstance(step.operation.inputs[1], Literal)


def _with_scalars_broadcast(builder: GraphBuilder, reads: Sequence[int], key: Key, shape: Shape) -> list[int]:
    """The operands of an operation, with scalars among arrays broadcast."""
    scalars = [r for r in dict.fromkeys(reads) if shape and not builder.graph.nodes[r].shape]
    broadcast = {r: builder.node("broadcast", (r,), key, reused=True) for r in scalars}
    return [broadcast.get(r, r) for r in reads]


def _before_broadcast(builder: GraphBuilder, step: Compute, reads: Sequence[int], key: Key, expensive: bool) -> bool:
    """Adds an operation whose only array is a broadcast in front of that; returns whether it is one."""
    nodes = builder.graph.nodes
    arrays = {r for r in reads if nodes[r].shape}
    broadcast = next(iter(arrays)) if len(arrays) == 1 else -1
    if broadcast < 0 or nodes[broadcast].kind != "broadcast":
        return False
    source = nodes[nodes[broadcast].reads[0]]
    if not source.shape or source.buffer is None:
        return False
    dtype = builder.context.code.dtypes[key[0]]
    factor = item_bytes(dtype) / item_bytes(builder.context.code.dtypes[source.buffer.key[0]])
    before = Node(
        "elementwise",
        (nodes[broadcast].reads[0], *(r for r in reads if r != broadcast)),
        Buffer(source.buffer.key, factor),
        source.shape,
        builder.step,
        expensive=expensive,
        op=step.operation.name,
        dtype=dtype,
        literals=literals_of(step.operation),
    )
    builder.env[key] = builder.node("broadcast", (builder.graph.add(before),), key, reused=True)
    return True


def _reduce(builder: GraphBuilder, read: int, step: Compute, key: Key) -> int:
    """Adds a reduction; of small arrays along long axes in two stages, of which the first is never fused."""
    operand, axes = builder.graph.nodes[read], step.operation.params["axes"]
    in_stages = builder.context.backend.library_rewriter and any(operand.shape[a] > WINDOW for a in axes)
    if in_stages and math.prod(operand.shape) < LEAST_ELEMENTS:
        shape = tuple(math.ceil(n / WINDOW) if a in axes else n for a, n in enumerate(operand.shape))
        factor = math.prod(shape) / math.prod(operand.shape)
        first = Buffer(builder.operand(step, 0), factor)
        read = builder.graph.add(Node("opaque", (read,), first, shape, builder.step, dtype=operand.dtype))
    number = builder.node("reduce", (read,), key, expensive=True)
    builder.graph.nodes[number].op = step.operation.name
    return number


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def _transposed(builder: GraphBuilder, step: Compute, side: int, read: int, order: Sequence[int]) -> int:
    """Returns an operand of a step with its axes in another order."""
    if not builder.context.backend.layout_assignment:
        return read
    axes = tuple(a for a in order if builder.graph.nodes[read].shape[a] != 1)
    if (read, axes) not in builder.derived:
        builder.derived[read, axes] = builder.node("move", (read,), builder.operand(step, side))
    return builder.derived[read, axes]


@_rule("dot_general")
def _matmul(builder: GraphBuilder, step: Compute, operands: Sequence[int | None], results: Sequence[Key]):
    """A matmul, rows by columns: batch axes first, then those of rows, then those of columns."""
    (contracted, batched) = step.operation.params["dimension_numbers"]
    if _is_outer(builder, operands, contracted):
        both = [builder.node("broadcast", (r,), results[0], reused=True) for r in operands if r is not None]
        builder.env[results[0]] = builder.node("elementwise", both, results[0])
        return
    if _is_of_vectors(builder, operands, contracted, batched):
        both = [r for r in operands if r is not None]
        terms = builder.node("elementwise", both, builder.operand(step, 0))
        builder.graph.nodes[terms].op = "mul"
        builder.env[results[0]] = _summed(builder, terms, results[0])
        return
    reads, sizes = [], []
    for side, read in enumerate(operands):
        if read is None:
            continue
        shape, batch, contract = builder.graph.nodes[read].shape, batched[side], contracted[side]
        free = [a for a in range(len(shape)) if a not in batch and a not in contract]
        inner = [free, contract] if side == 0 else [contract, free]
        wanted, other = [*batch, *inner[0], *inner[1]], [*batch, *inner[1], *inner[0]]
        # A single matrix may be read by rows or by columns.
        single = len(free) <= 1 and len(contract) <= 1
        if not (single and other == sorted(other)) and not ascends(wanted, shape):
            read = _transposed(builder, step, side, read, wanted)  # noqa: PLW2901
        lengths = [math.prod(shape[a] for a in axes) for axes in inner]
        sizes.append(lengths[side])
        plain = tuple(n for n in shape if n != 1) if single else (*(shape[a] for a in batch), *lengths)
        reads.append(_as_matrix(builder, read, plain, lengths[side]))
    result, shape = builder.node(builder.context.backend.matmul, reads, results[0]), builder.context.shape(results[0])
    merged = (*shape[: len(batched[0])], *sizes)
    if len(reads) == len(operands):
        result = _as_result(builder, result, merged)
    builder.graph.nodes[result].op = "dot_general"
    builder.env[results[0]] = result


def _as_matrix(builder: GraphBuilder, read: int, plain: Shape, free: int) -> int:
    """Returns an operand of a matmul as XLA reads it; a vector loses its axes of size 1, and gets one for a matrix."""
    if free != 1 or not builder.context.backend.layout_assignment:
        return builder.bitcast(read, plain)
    bare = tuple(n for n in plain if n != 1)
    return builder.bitcast(builder.bitcast(read, bare), (*bare, 1))


def _as_result(builder: GraphBuilder, result: int, merged: Shape) -> int:
    """Returns the result of a matmul as XLA writes it: merged axes, and for vectors without those of size 1."""
    shape = builder.graph.nodes[result].shape
    bare = tuple(n for n in merged if n != 1)
    if 1 in merged[-2:] and bare != shape and builder.context.backend.layout_assignment:
        return builder.bitcast(builder.bitcast_result(result, merged, bare), shape)
    return builder.bitcast_result(result, merged, shape) if len(merged) != len(shape) else result


@_rule("div")
def _quotient(builder: GraphBuilder, step: Compute, operands: Sequence[int | None], results: Sequence[Key]):
    """A division; by a broadcast that has no other reader, it is a multiplication by the broadcast reciprocal."""
    (above, below), nodes = operands, builder.graph.nodes
    divisor = step.operation.inputs[1]
    broadcast = nodes[below] if below is not None else None
    only_reader = isinstance(divisor, int) and builder.context.program.uses[divisor] == 1
    if (
        above is None
        or broadcast is None
        or broadcast.kind != "broadcast"
        or not only_reader
        or not _is_expensive(step)
    ):
        _plain(builder, step, "elementwise", operands, results[0])
        return
    source = nodes[broadcast.reads[0]]
    inverse = Node(
        "elementwise", broadcast.reads, source.buffer, source.shape, step, expensive=True, op="div", dtype=source.dtype
    )
    repeated = builder.node("broadcast", (builder.graph.add(inverse),), results[0], reused=True)
    builder.env[results[0]] = number = builder.node("elementwise", (above, repeated), results[0])
    nodes[number].op = "mul"


def _is_outer(builder: GraphBuilder, operands: Sequence[int | None], contracted: Sequence[Sequence[int]]) -> bool:
    """Whether a matmul contracts a single element: then it is an elementwise multiplication."""
    first = operands[0]
    return first is not None and math.prod(builder.graph.nodes[first].shape[a] for a in contracted[0]) == 1


def _is_of_vectors(
    builder: GraphBuilder,
    operands: Sequence[int | None],
    contracted: Sequence[Sequence[int]],
    batched: Sequence[Sequence[int]],
) -> bool:
    """Whether a matmul is of vectors alone: then XLA multiplies them, and sums (`AlgebraicSimplifier`)."""
    for side, read in enumerate(operands):
        taken = {*contracted[side], *batched[side]}
        if read is None or any(n != 1 for a, n in enumerate(builder.graph.nodes[read].shape) if a not in taken):
            return False
    return builder.context.backend.layout_assignment


def _summed(builder: GraphBuilder, read: int, key: Key) -> int:
    """Adds the sum of a node."""
    number = builder.node("reduce", (read,), key, expensive=True)
    builder.graph.nodes[number].op = "reduce_sum"
    return number


@_rule("conv_general_dilated")
def _convolution(builder: GraphBuilder, step: Compute, operands: Sequence[int | None], results: Sequence[Key]):
    """A convolution: the batch first and the channels last, and of the window the output channels last."""
    numbers, reads = step.operation.params["dimension_numbers"], []
    for side, (read, wanted) in enumerate(zip(operands, orders(numbers), strict=False)):
        if read is not None:
            fits = ascends(wanted, builder.graph.nodes[read].shape)
            reads.append(read if fits else _transposed(builder, step, side, read, wanted))
    result = builder.node(builder.context.backend.matmul, reads, results[0])
    if builder.context.backend.layout_assignment and not ascends(orders(numbers)[2], builder.context.shape(results[0])):
        result = builder.node("move", (result,), results[0])
    builder.env[results[0]] = result


@_rule("add_any", "add")
def _added(builder: GraphBuilder, step: Compute, operands: Sequence[int | None], results: Sequence[Key]):
    """An addition; of a scatter into zeros it is a scatter into the other operand, where XLA does so."""
    nodes = builder.graph.nodes
    if builder.context.backend.matmul_fusion:
        for value, read, other in zip(step.operation.inputs, operands, reversed(operands), strict=True):
            node = None if read is None else nodes[read]
            if node is None or other is None or node.op != "scatter-add" or nodes[node.reads[0]].kind != "constant":
                continue
            if isinstance(value, int) and builder.context.program.uses[value] == 1:
                builder.env[results[0]] = again = builder.node("scatter", (other, *node.reads[1:]), results[0])
                nodes[again].op = node.op
                return
    _plain(builder, step, "elementwise", operands, results[0])


@_rule("reduce_sum")
def _sum(builder: GraphBuilder, step: Compute, operands: Sequence[int | None], results: Sequence[Key]):
    """A sum; that of negated elements is the negated sum."""
    nodes, read = builder.graph.nodes, operands[0]
    if read is None:
        builder.env[results[0]] = builder.node("constant", (), results[0])
        return
    negated = nodes[read].op == "neg"
    if negated:
        (read,) = nodes[read].reads
    same = math.prod(nodes[read].shape) == math.prod(builder.context.shape(results[0]))
    number = builder.node("bitcast", (read,), results[0]) if same else _reduce(builder, read, step, results[0])
    if negated:
        number = builder.node("elementwise", (number,), results[0])
        nodes[number].op = "neg"
    builder.env[results[0]] = number


@_rule("reduce_max", "reduce_min")
def _extreme(builder: GraphBuilder, step: Compute, operands: Sequence[int | None], results: Sequence[Key]):
    (read,) = operands
    builder.env[results[0]] = (
        builder.node("constant", (), results[0]) if read is None else _reduce(builder, read, step, results[0])
    )


@_rule("select_and_scatter_add")
def _chosen(builder: GraphBuilder, step: Compute, operands: Sequence[int | None], results: Sequence[Key]):
    """The gradient of a maximum over windows: the position of each is found among the indices along all axes.

    XLA for CPUs makes arrays of these indices (`SelectAndScatterExpander`).
    """
    source, operand = operands
    assert source is not None
    assert operand is not None
    graph, (small, large) = builder.graph, (builder.operand(step, side) for side in (0, 1))
    shapes, each = (
        (graph.nodes[source].shape, graph.nodes[operand].shape),
        4 / item_bytes(builder.context.code.dtypes[results[0][0]]),
    )
    rank = len(shapes[1])
    indices = [graph.add(Node("constant", (), Buffer(large, each), shapes[1], step)) for _ in range(rank)]
    main = graph.add(Node("opaque", (operand, *indices), None, (), step))
    parts = [graph.add(Node("part", (main,), Buffer(small, each), shapes[0], step)) for _ in range(rank + 1)]
    joined = graph.add(Node("concatenate", parts[1:], Buffer(small, rank * each), (*shapes[0], rank), step))
    zeros = builder.node("constant", (), results[0])
    builder.env[results[0]] = builder.node("scatter", (zeros, joined, source), results[0])


@_rule("split")
def _split(builder: GraphBuilder, step: Compute, operands: Sequence[int | None], results: Sequence[Key]):
    """Parts of an array, each a slice."""
    reads = [r for r in operands if r is not None]
    for key in results:
        builder.env[key] = builder.node("move" if reads else "constant", reads, key)


@_rule("transpose")
def _transpose(builder: GraphBuilder, step: Compute, operands: Sequence[int | None], results: Sequence[Key]):
    """A transpose; of a matmul of two matrices it is the matmul of the transposed ones, in the other order."""
    (read,), (value,) = operands, step.operation.inputs
    assert read is not None
    assert isinstance(value, int)
    node, order = builder.graph.nodes[read], step.operation.params["permutation"]
    if node.op == "dot_general" and len(node.shape) == 2 and builder.context.program.uses[value] == 1:
        node.shape, builder.env[results[0]] = builder.context.shape(results[0]), read
    else:
        builder.env[results[0]] = builder.node("bitcast" if ascends(order, node.shape) else "move", (read,), results[0])
