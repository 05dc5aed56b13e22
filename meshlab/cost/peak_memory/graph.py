"""The graph that a compiler sees of one block of steps, before it fuses and orders nodes.

A plan's step is one node, or a few: a matmul reads a transposed copy of an operand whose axes are in the wrong order, a
gather of an axis that is not the first has a transpose before and after. Each node makes one array, whose size is that
of a value in a spec, so that one graph holds for any sizes of dims and mesh axes.

Kinds whose elements can be computed where they are read (`FUSED`):

    constant      a number repeated, or the indices along an axis: reads no array
    elementwise   each element from the elements at the same position
    broadcast     one array repeated along new axes
    bitcast       the same bytes under another shape
    move          elements change places: transposes, slices, padding
    concatenate   arrays joined along an axis
    gather        elements found by index
    reduce        sums and maxima along axes
    matmul        a matmul or a convolution, where compilers fuse others into it

Kinds that can only compute their operands (`LAST`): `update` writes a part of its first operand in place, `store`
writes its operand into the stack of a loop.

Kinds that read memory and write memory: `opaque` (matmuls, convolutions, sorts), `scatter` (in place of its first
operand, if that has no other reader), `collective`, `copy`, `carry` (the initial value that a loop carries).

`source` is an input. `several`, `loop` and `branch` have `part`s for results. A `barrier` lets all its operands
`through` at once, so that nothing is fused across it.

While its graph grows, a block is a `GraphBuilder`, which knows the node of each value in each spec:

    builder = GraphBuilder(context)
    builder.source(key)                            a node for an input
    builder.node("elementwise", (1, 2), key)       a node that makes a key; in 32 bits, where the compiler widens 16
    builder.read(key)                              the node of a key; where another block makes it, a node for that

A `Context` holds what all blocks of one plan share: the program, the mesh, the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from ...engine.code.operations import Literal
from ...engine.collectives.kinds import ALL_REDUCE
from ...engine.planning.step import Step
from ...engine.planning.step_keys import Key, keys
from ...engine.planning.steps import Compute, Nested
from ...engine.programs.program import Program
from ...engine.specs.spec import Grid, Spec
from ..machines.placed import Placement
from ..workload.dataflow import local_shapes
from .backends import Backend

FUSED = frozenset(
    ("constant", "elementwise", "broadcast", "bitcast", "move", "concatenate", "gather", "reduce", "matmul")
)
LAST = frozenset(("update", "store"))
FUSES = FUSED | LAST
# Kinds that read and write whole arrays, each axis in its place in memory.
_WHOLE = frozenset(("opaque", "collective", "scatter"))

Shape = tuple[int, ...]


class Buffer(NamedTuple):
    """The bytes of one array on one device.

    Attributes:
        key: the value and spec that it is as large as.
        factor: times its bytes.
    """

    key: Key
    factor: float = 1.0


class Node:
    """One operation, as a compiler sees it.

    Attributes:
        kind: see above.
        reads: the numbers of its operands.
        buffer: the bytes of its result; None where it has none of its own.
        shape: of its result, on one device.
        step: the step that it belongs to; None for inputs.
        expensive: whether each element takes many instructions.
        reused: whether it reads each element of its operands many times.
        op: the primitive's name, where it is a step's own.
        dtype: of its result.
        literals: the scalar literals among its operands.
        position: for a part, the position of the result.
        inner: for a loop or branches, the graphs inside.
        carries: for a loop, the number of its first operands that it carries.
        buffers: for a loop, the bytes of its carries and stacks.
        starts: for a loop, the nodes whose buffers it carries; set when its copies are inserted.
    """

    __slots__ = (
        "buffer",
        "buffers",
        "carries",
        "dtype",
        "expensive",
        "inner",
        "kind",
        "literals",
        "op",
        "position",
        "reads",
        "reused",
        "shape",
        "starts",
        "step",
    )

    def __init__(
        self,
        kind: str,
        reads: Sequence[int],
        buffer: Buffer | None,
        shape: tuple[int, ...],
        step: Step | None,
        *,
        expensive: bool = False,
        reused: bool = False,
        dtype: Any = None,
        op: str = "",
        literals: tuple[Any, ...] = (),
    ):
        self.kind, self.reads, self.buffer, self.shape, self.step = kind, tuple(reads), buffer, shape, step
        self.expensive, self.reused = expensive, reused
        self.dtype, self.op, self.literals, self.position = dtype, op, literals, 0
        self.inner: tuple[Graph, ...] = ()
        self.carries = 0
        self.buffers: tuple[Buffer, ...] = ()
        self.starts: tuple[int, ...] = ()

    @property
    def is_collective(self) -> bool:
        """Whether it sends; several all-reduces at once are one node."""
        return self.kind in ("collective", "several")


class Graph:
    """The nodes of one block.

    Attributes:
        nodes: by number.
        inputs: the nodes that stand for the block's inputs, in order.
        outside: the nodes that stand for values from around the block, by key.
        outputs: the nodes that the block returns; None for literals.
        output_buffers: the bytes of each output; None for literals.
        backend: the compiler.
        rounded: the nodes that are only read rounded to 16 bits.
        before: the nodes in order (`topological`) before all-reduces were combined; empty if none were.
    """

    def __init__(self, backend: Backend):
        self.backend = backend
        self.rounded: set[int] = set()
        self.nodes: list[Node] = []
        self.inputs: list[int] = []
        self.outside: dict[Key, int] = {}
        self.outputs: list[int | None] = []
        self.output_buffers: list[Buffer | None] = []
        self.before: tuple[int, ...] = ()

    def add(self, node: Node) -> int:
        """Adds a node; returns its number."""
        self.nodes.append(node)
        return len(self.nodes) - 1


def topological(graph: Graph) -> list[int]:
    """Returns the nodes, each after its operands: from the outputs, depth first."""
    return depth_first(graph, {number: node.reads for number, node in enumerate(graph.nodes)})


def depth_first(graph: Graph, reads: Mapping[int, Sequence[int]]) -> list[int]:
    """Returns some nodes, each after its operands: sources first, then from the outputs, depth first.

    Args:
        graph: the nodes.
        reads: the operands of each of them.
    """
    nodes, order, done = graph.nodes, [], set()
    sources = [number for number in reads if nodes[number].kind == "source"]
    for start in (*sources, *[n for n in graph.outputs if n is not None and n in reads], *reads):
        if start in done:
            continue
        done.add(start)
        # The path from the start down, each node with its operands that are left.
        path, left = [start], [iter(reads[start])]
        while path:
            for read in left[-1]:
                if read not in done:
                    done.add(read)
                    path.append(read)
                    left.append(iter(reads[read]))
                    break
            else:
                order.append(path.pop())
                left.pop()
    return order


def ancestors(graph: Graph, order: Sequence[int]) -> list[int]:
    """Returns for each node the set of those that it depends on, itself included, as bits.

    Args:
        graph: the nodes.
        order: all of them, each after its operands.
    """
    masks = [0] * len(graph.nodes)
    for number in order:
        bits = 1 << number
        for read in graph.nodes[number].reads:
            bits |= masks[read]
        masks[number] = bits
    return masks


class Context:
    """The facts that all blocks of one plan share.

    Args:
        program: the plan's.
        grid: the mesh axes' sizes.
        backend: the compiler.
        placement: the mesh on a machine of that compiler; None without one.
    """

    def __init__(self, program: Program, grid: Grid, backend: Backend, placement: Placement | None):
        self.program, self.grid, self.backend, self.placement = program, grid, backend, placement
        self.original_of, self.code = program.original_of, program.code
        self.shapes = local_shapes(program, grid)
        # XLA for CPUs computes these dtypes in float32 (`FloatNormalization`).
        self.widened = frozenset((jnp.dtype(jnp.bfloat16),) if backend.float_normalization else ())
        # Values that are one number everywhere, known at compile time.
        self.constant: set[Key] = set()

    def shape(self, key: Key) -> Shape:
        """Returns the shape of one device's shard."""
        return self.shapes[key]

    def key(self, value: int, spec: Spec) -> Key:
        """Returns the key of a value in a spec."""
        return self.original_of.get(value, value), spec

    def returned(self, values: Sequence[Any], specs: Sequence[Spec | None]) -> list[Key | None]:
        """Returns the keys of a block's outputs; None for literals."""
        return [
            self.key(v, s) if isinstance(v, int) and s is not None else None for v, s in zip(values, specs, strict=True)
        ]


class GraphBuilder:
    """One block while its graph is built.

    Attributes:
        graph: its nodes.
        env: the node of each key.
        step: the step that is translated.
        derived: nodes that are derived from one operand, and made once: transposed, bitcast, widened, rounded.
        reductions: the all-reduces, each with its kind (`combine_all_reduces`).
        transposed: nodes whose axes are in another order in memory.
        copies: nodes that transpose their operand for a collective.
    """

    def __init__(self, context: Context):
        self.context, self.graph = context, Graph(context.backend)
        self.env: dict[Key, int] = {}
        self.step: Step | None = None
        self.derived: dict[tuple, int] = {}
        self.reductions: list[tuple[tuple, int]] = []
        self.transposed: set[int] = set()
        self.copies: list[int] = []

    def in_order(self, read: int) -> int:
        """Returns a node with its axes in order in memory."""
        if read not in self.transposed:
            return read
        node = self.graph.nodes[read]
        return self.once(
            ("in order", read), Node("move", (read,), node.buffer, node.shape, self.step, dtype=node.dtype)
        )

    def once(self, name: tuple, node: Node) -> int:
        """Adds a node that is derived from another, if none of its name was; returns the number of that."""
        if name not in self.derived:
            self.derived[name] = self.graph.add(node)
        return self.derived[name]

    def source(self, key: Key) -> int:
        """Adds a node for an input."""
        dtype = self.context.code.dtypes[key[0]]
        node = Node("source", (), Buffer(key), self.context.shape(key), None, dtype=dtype)
        number = self.env[key] = self.graph.add(node)
        return number

    def read(self, key: Key) -> int:
        """Returns the node of a key; if it is from around the block, one that stands for it."""
        number = self.env.get(key)
        if number is None and key in self.context.constant:
            # A constant is repeated inside a loop (`WhileLoopConstantSinking`).
            number = self.env[key] = self.node("constant", (), key)
        elif number is None:
            number = self.graph.outside[key] = self.source(key)
        return number

    def node(self, kind: str, reads: Sequence[int], key: Key, expensive: bool = False, reused: bool = False) -> int:
        """Adds a node that makes a key."""
        dtype, shape = self.context.code.dtypes[key[0]], self.context.shape(key)
        widens = dtype in self.context.widened
        if kind in _WHOLE and self.transposed:
            reads = [self.in_order(r) for r in reads]
        if widens and kind in _WHOLE:
            wide = self.graph.add(Node(kind, [self.wide(r) for r in reads], Buffer(key, 2), shape, self.step))
            return self.narrow(wide, key)
        costly = expensive or (widens and kind in ("elementwise", "reduce"))
        node = Node(kind, reads, Buffer(key), shape, self.step, expensive=costly, reused=reused, dtype=dtype)
        return self.graph.add(node)

    def bitcast(self, read: int, shape: Shape) -> int:
        """Returns a node under another shape."""
        read = self.in_order(read)
        node = self.graph.nodes[read]
        if node.shape == shape or node.buffer is None:
            return read
        view = Node("bitcast", (read,), node.buffer, shape, self.step, dtype=node.dtype)
        return self.once(("bitcast", read, shape), view)

    def bitcast_result(self, number: int, own: Shape, shape: Shape) -> int:
        """Gives the node that was just added a shape of its own, and adds a bitcast of it to another."""
        node = self.graph.nodes[number]
        node.shape = own
        return self.graph.add(Node("bitcast", (number,), node.buffer, shape, self.step, dtype=node.dtype))

    def wide(self, read: int) -> int:
        """Returns a node of a dtype that is computed in 32 bits, in these."""
        node = self.graph.nodes[read]
        if node.buffer is None or node.dtype not in self.context.widened:
            return read
        buffer = Buffer(node.buffer.key, 2 * node.buffer.factor)
        return self.once(("wide", read), Node("elementwise", (read,), buffer, node.shape, self.step))

    def rounded(self, read: int) -> int:
        """Returns a node, rounded to 16 bits."""
        node = self.graph.nodes[read]
        assert node.buffer is not None
        half = Buffer(node.buffer.key, node.buffer.factor / 2)
        copy = Node("copy", (read,), half, node.shape, self.step, dtype=jnp.dtype(jnp.bfloat16))
        return self.once(("rounded", read), copy)

    def narrow(self, read: int, key: Key) -> int:
        """Adds the rounding of a node in 32 bits to its own dtype, which is expensive."""
        dtype, shape = self.context.code.dtypes[key[0]], self.context.shape(key)
        return self.graph.add(Node("elementwise", (read,), Buffer(key), shape, self.step, expensive=True, dtype=dtype))

    def several(self, reads: Sequence[int], results: Sequence[Key], kind: str) -> int:
        """Adds a node with several results."""
        main = self.graph.add(Node(kind, reads, None, (), self.step))
        for position, key in enumerate(results):
            self.env[key] = number = self.node("part", (main,), key)
            self.graph.nodes[number].position = position
        return main

    def all_reduce(self, read: int, key: Key, axes: Sequence[str], operation: str) -> int:
        """Adds an all-reduce."""
        number = self.node("collective", (read,), key)
        node = self.graph.nodes[number]
        node.op = ALL_REDUCE.name
        collective = number if node.kind == "collective" else node.reads[0]
        kind = (tuple(sorted(axes)), operation, str(self.context.code.dtypes[key[0]]))
        self.reductions.append((kind, collective))
        return number

    def operand(self, step: Compute, position: int) -> Key:
        """Returns the key of an operand of a step."""
        value, spec = step.operation.inputs[position], step.operands[position]
        assert isinstance(value, int)
        assert spec is not None
        return self.context.key(value, spec)

    def operands(self, step: Compute | Nested) -> list[int | None]:
        """Returns the nodes of a step's operands; None for literals."""
        return [
            None if spec is None or isinstance(value, Literal) else self.read(self.context.key(value, spec))
            for value, spec in zip(step.operation.inputs, step.operands, strict=True)
        ]

    def results(self, step: Compute | Nested) -> tuple[Key, ...]:
        """Returns the keys of a step's results."""
        return keys(step.operation.outputs, step.results, self.context.original_of)
