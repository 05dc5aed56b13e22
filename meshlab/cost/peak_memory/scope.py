"""One block of steps while its graph is built: the node of each key, and the helpers that add nodes.

    scope = Scope(context)
    scope.source(key)                      a node for what comes in
    scope.node("map", (1, 2), key)         a node that makes a key; in 32 bits, where the compiler widens 16
    scope.read(key)                        the node of a key; one that stands for it, where another block makes it

A `Context` holds what all blocks of one plan share: the program, the mesh, the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from ...engine.code.operations import Literal
from ...engine.planning.steps import Compute, Nested, Step
from ...engine.programs.data import Program
from ...engine.specs.spec import Grid, Spec, local_shape
from ..machines.placement import Placement
from ..workload.dataflow import Key, keys
from .backends import Backend
from .graph import Buffer, Graph, Node

Shape = tuple[int, ...]
# Kinds that read and write whole arrays.
_WHOLE = frozenset(("opaque", "collective", "overwrite"))


class Context:
    """The facts that all blocks of one plan share.

    Args:
        program: whose steps they are.
        grid: the mesh axes' sizes.
        backend: whose compiler it is.
        placement: how the mesh lies on a machine of that compiler; None where it lies on none.
    """

    def __init__(self, program: Program, grid: Grid, backend: Backend, placement: Placement | None):
        self.program, self.grid, self.backend, self.placement = program, grid, backend, placement
        self.roots, self.code = program.roots, program.code
        self.shapes: dict[Key, Shape] = {}
        # XLA for CPUs computes in float32 what is of these dtypes (`FloatNormalization`).
        self.widened = frozenset((jnp.dtype(jnp.bfloat16),) if backend.widens else ())
        # What holds one number everywhere, known when the program is compiled.
        self.constant: set[Key] = set()

    def shape(self, key: Key) -> Shape:
        """The shape of one device's shard."""
        found = self.shapes.get(key)
        if found is None:
            found = self.shapes[key] = local_shape(self.code.shapes[key[0]], key[1], self.grid)
        return found

    def key(self, value: int, spec: Spec) -> Key:
        """The key of a value in a spec."""
        return self.roots.get(value, value), spec

    def returned(self, values: Sequence[Any], specs: Sequence[Spec | None]) -> list[Key | None]:
        """The keys of what a block returns; None for literals."""
        return [
            self.key(v, s) if isinstance(v, int) and s is not None else None for v, s in zip(values, specs, strict=True)
        ]


class Scope:
    """A block that is being built.

    Attributes:
        graph: its nodes.
        env: the node of each key.
        step: the step that is translated.
        turns: operands whose axes were put in another order, by node and order.
        reductions: the all-reduces, with what makes them alike.
        relaid: nodes whose axes are in another order in memory.
        copies: nodes that put the axes of what they read in another order, for a collective.
    """

    def __init__(self, context: Context):
        self.context, self.graph = context, Graph(context.backend)
        self.env: dict[Key, int] = {}
        self.step: Step | None = None
        self.turns: dict[tuple, int] = {}
        self.reductions: list[tuple[tuple, int]] = []
        self.relaid: set[int] = set()
        self.copies: list[int] = []

    def straight(self, read: int) -> int:
        """What is read, with its axes in order in memory."""
        if read not in self.relaid:
            return read
        if ("straight", read) not in self.turns:
            node = self.graph.nodes[read]
            copy = Node("permute", (read,), node.buffer, node.shape, self.step)
            copy.dtype = node.dtype
            self.turns["straight", read] = self.graph.add(copy)
        return self.turns["straight", read]

    def source(self, key: Key) -> int:
        """A node for what comes in."""
        number = self.env[key] = self.graph.add(Node("source", (), Buffer(key), self.context.shape(key), None))
        self.graph.nodes[number].dtype = self.context.code.dtypes[key[0]]
        return number

    def read(self, key: Key) -> int:
        """The node of a key; if it is made around the block, one that stands for it."""
        number = self.env.get(key)
        if number is None and key in self.context.constant:
            # What is one number everywhere is made anew inside a loop (`WhileLoopConstantSinking`).
            number = self.env[key] = self.node("fill", (), key)
        elif number is None:
            number = self.graph.outside[key] = self.source(key)
        return number

    def node(self, kind: str, reads: Sequence[int], key: Key, expensive: bool = False, reused: bool = False) -> int:
        """A node that makes a key."""
        dtype = self.context.code.dtypes[key[0]]
        widens = dtype in self.context.widened
        if kind in _WHOLE and self.relaid:
            reads = [self.straight(r) for r in reads]
        if widens and kind in _WHOLE:
            shape = self.context.shape(key)
            wide = self.graph.add(Node(kind, [self.wide(r) for r in reads], Buffer(key, 2), shape, self.step))
            return self.narrow(wide, key)
        costly = expensive or (widens and kind in ("map", "fold"))
        made = Node(kind, reads, Buffer(key), self.context.shape(key), self.step, expensive=costly, reused=reused)
        made.dtype = dtype
        return self.graph.add(made)

    def viewed(self, read: int, shape: Shape) -> int:
        """What is read, under another shape; made once."""
        read = self.straight(read)
        node = self.graph.nodes[read]
        if node.shape == shape or node.buffer is None:
            return read
        if ("viewed", read, shape) not in self.turns:
            view = Node("view", (read,), node.buffer, shape, self.step)
            view.dtype = node.dtype
            self.turns["viewed", read, shape] = self.graph.add(view)
        return self.turns["viewed", read, shape]

    def merged(self, number: int, made: Shape, shape: Shape) -> int:
        """What was just made, as made under one shape and then viewed under another."""
        node = self.graph.nodes[number]
        view = Node("view", (number,), node.buffer, shape, self.step)
        view.dtype, node.shape = node.dtype, made
        return self.graph.add(view)

    def wide(self, read: int) -> int:
        """What is read of a dtype that is widened, in the wider one."""
        node = self.graph.nodes[read]
        if node.buffer is None or node.dtype not in self.context.widened:
            return read
        if ("wide", read) not in self.turns:
            buffer = Buffer(node.buffer.key, 2 * node.buffer.factor)
            self.turns["wide", read] = self.graph.add(Node("map", (read,), buffer, node.shape, self.step))
        return self.turns["wide", read]

    def rounded(self, read: int) -> int:
        """What is read, rounded to 16 bits."""
        node = self.graph.nodes[read]
        assert node.buffer is not None
        if ("rounded", read) not in self.turns:
            half = Node("copy", (read,), Buffer(node.buffer.key, node.buffer.factor / 2), node.shape, self.step)
            half.dtype = jnp.dtype(jnp.bfloat16)
            self.turns["rounded", read] = self.graph.add(half)
        return self.turns["rounded", read]

    def narrow(self, read: int, key: Key) -> int:
        """What was made in a wider dtype, in its own; rounding is expensive."""
        made = Node("map", (read,), Buffer(key), self.context.shape(key), self.step, expensive=True)
        made.dtype = self.context.code.dtypes[key[0]]
        return self.graph.add(made)

    def several(self, reads: Sequence[int], made: Sequence[Key], kind: str) -> int:
        """A node with several results."""
        main = self.graph.add(Node(kind, reads, None, (), self.step))
        for position, key in enumerate(made):
            self.env[key] = number = self.node("part", (main,), key)
            self.graph.nodes[number].place = position
        return main

    def reduced(self, read: int, key: Key, axes: Sequence[str], operation: str) -> int:
        """An all-reduce."""
        number = self.node("collective", (read,), key)
        node = self.graph.nodes[number]
        node.op = "all-reduce"
        collective = number if node.kind == "collective" else node.reads[0]
        kind = (tuple(sorted(axes)), operation, str(self.context.code.dtypes[key[0]]))
        self.reductions.append((kind, collective))
        return number

    def operand(self, step: Compute, position: int) -> Key:
        """The key of an operand of a step."""
        value, spec = step.operation.inputs[position], step.operands[position]
        assert isinstance(value, int)
        assert spec is not None
        return self.context.key(value, spec)

    def operands(self, step: Compute | Nested) -> list[int | None]:
        """The nodes of a step's inputs; None for literals."""
        return [
            None if spec is None or isinstance(value, Literal) else self.read(self.context.key(value, spec))
            for value, spec in zip(step.operation.inputs, step.operands, strict=True)
        ]

    def results(self, step: Compute | Nested) -> tuple[Key, ...]:
        """The keys of what a step makes."""
        return keys(step.operation.outputs, step.results, self.context.roots)
