"""One block of steps while its graph is built: the node of each key, and the helpers that add nodes.

    scope = Scope(context)
    scope.source(key)                      a node for an input
    scope.node("elementwise", (1, 2), key)         a node that makes a key; in 32 bits, where the compiler widens 16
    scope.read(key)                        the node of a key; one that stands for it, where another block makes it

A `Context` holds what all blocks of one plan share: the program, the mesh, the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from .graph import Buffer, Graph, Node

Shape = tuple[int, ...]
# Kinds that read and write whole arrays.
_WHOLE = frozenset(("opaque", "collective", "scatter"))


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


class BlockGraph:
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
        if ("in order", read) not in self.derived:
            node = self.graph.nodes[read]
            copy = Node("move", (read,), node.buffer, node.shape, self.step)
            copy.dtype = node.dtype
            self.derived["in order", read] = self.graph.add(copy)
        return self.derived["in order", read]

    def source(self, key: Key) -> int:
        """Adds a node for an input."""
        number = self.env[key] = self.graph.add(Node("source", (), Buffer(key), self.context.shape(key), None))
        self.graph.nodes[number].dtype = self.context.code.dtypes[key[0]]
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
        dtype = self.context.code.dtypes[key[0]]
        widens = dtype in self.context.widened
        if kind in _WHOLE and self.transposed:
            reads = [self.in_order(r) for r in reads]
        if widens and kind in _WHOLE:
            shape = self.context.shape(key)
            wide = self.graph.add(Node(kind, [self.wide(r) for r in reads], Buffer(key, 2), shape, self.step))
            return self.narrow(wide, key)
        costly = expensive or (widens and kind in ("elementwise", "reduce"))
        node = Node(kind, reads, Buffer(key), self.context.shape(key), self.step, expensive=costly, reused=reused)
        node.dtype = dtype
        return self.graph.add(node)

    def bitcast(self, read: int, shape: Shape) -> int:
        """Returns a node under another shape."""
        read = self.in_order(read)
        node = self.graph.nodes[read]
        if node.shape == shape or node.buffer is None:
            return read
        if ("bitcast", read, shape) not in self.derived:
            view = Node("bitcast", (read,), node.buffer, shape, self.step)
            view.dtype = node.dtype
            self.derived["bitcast", read, shape] = self.graph.add(view)
        return self.derived["bitcast", read, shape]

    def bitcast_result(self, number: int, own: Shape, shape: Shape) -> int:
        """Gives the node that was just added a shape of its own, and adds a bitcast of it to another."""
        node = self.graph.nodes[number]
        view = Node("bitcast", (number,), node.buffer, shape, self.step)
        view.dtype, node.shape = node.dtype, own
        return self.graph.add(view)

    def wide(self, read: int) -> int:
        """Returns a node of a dtype that is computed in 32 bits, in these."""
        node = self.graph.nodes[read]
        if node.buffer is None or node.dtype not in self.context.widened:
            return read
        if ("wide", read) not in self.derived:
            buffer = Buffer(node.buffer.key, 2 * node.buffer.factor)
            self.derived["wide", read] = self.graph.add(Node("elementwise", (read,), buffer, node.shape, self.step))
        return self.derived["wide", read]

    def rounded(self, read: int) -> int:
        """Returns a node, rounded to 16 bits."""
        node = self.graph.nodes[read]
        assert node.buffer is not None
        if ("rounded", read) not in self.derived:
            half = Node("copy", (read,), Buffer(node.buffer.key, node.buffer.factor / 2), node.shape, self.step)
            half.dtype = jnp.dtype(jnp.bfloat16)
            self.derived["rounded", read] = self.graph.add(half)
        return self.derived["rounded", read]

    def narrow(self, read: int, key: Key) -> int:
        """Adds the rounding of a node in 32 bits to its own dtype, which is expensive."""
        node = Node("elementwise", (read,), Buffer(key), self.context.shape(key), self.step, expensive=True)
        node.dtype = self.context.code.dtypes[key[0]]
        return self.graph.add(node)

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
