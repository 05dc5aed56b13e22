"""From the steps of a plan to the nodes that a compiler sees, block by block.

    mul, all-reduce, add       map → collective → map
    all-gather of axis 1       permute → collective → permute: XLA gathers the first axis in memory
    reduce-scatter on v5e:4x4  collective → permute: the TPU compiler makes it an all-reduce and a slice (`substitutes`)
    scan                       loop, with the graph of a turn inside (`nesting`)

Nothing here computes: a graph tells what reads what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from ...engine.code.operations import Literal
from ...engine.planning.steps import Compute, Fill, Move, Nested, Step
from ...engine.specs.reshard import Hop
from ...engine.specs.spec import Grid, Spec, local_shape
from ..machines.xla_substitutes import most_summed
from ..workload.dataflow import Key, keys
from .assign_layouts import relay
from .backends import Backend
from .combine_all_reduces import combine
from .graph import Buffer, Graph, Node
from .nesting import nest
from .round_to_bf16 import store_rounded
from .translate import numbers, translate

if TYPE_CHECKING:
    from ...engine.plans.data import Plan
    from ...engine.programs.data import Program
    from ..machines.placement import Placement

Shape = tuple[int, ...]
# Kinds that read and write whole arrays.
_WHOLE = frozenset(("opaque", "collective", "overwrite"))
# Collectives that XLA runs along the axis that is first in memory.
_FIRST_AXIS = ("all-gather", "reduce-scatter")


def built(plan: Plan, backend: Backend) -> Graph:
    """The graph of a whole plan: its inputs are the arguments and constants, its outputs the outputs."""
    program = plan.program
    block = program.code.block
    inputs = [(v, plan.argument_specs[v]) for v in block.inputs]
    on = plan.mesh.on
    placement = on if on is not None and on.hardware.platform == backend.platform else None
    builder = Builder(program, plan.grid, backend, placement)
    return builder.block(plan.steps, inputs, builder.returned(block.outputs, plan.output_specs))


class Builder:
    """Builds the graphs of one plan.

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

    def block(
        self, steps: Sequence[Step], inputs: Sequence[Key], outputs: Sequence[Key | None], carries: int | None = None
    ) -> Graph:
        """The graph of a block of steps.

        Args:
            steps: what runs.
            inputs: the keys of what comes in.
            outputs: the keys of what it returns; None for literals.
            carries: for a turn of a loop, how many of its inputs and outputs it carries; others are slices of stacks.
        """
        scope = Scope(self)
        graph = scope.graph
        for position, key in enumerate(inputs):
            graph.inputs.append(scope.source(key))
            if carries is not None and position >= carries:
                scope.env[key] = scope.node("permute", (scope.env[key],), key)
        scope.steps(steps)
        graph.outputs = [None if key is None else scope.straight(scope.read(key)) for key in outputs]
        graph.kept = [None if key is None else Buffer(key) for key in outputs]
        for position, number in enumerate(graph.outputs):
            if carries is not None and position >= carries and number is not None:
                store = Node("store", (number,), None, graph.nodes[number].shape, scope.step)
                graph.outputs[position] = graph.add(store)
        relay(graph, scope.copies)
        combine(graph, scope.reductions, self.backend.combines)
        if self.backend.rounds:
            store_rounded(graph)
        return graph


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

    def __init__(self, builder: Builder):
        self.builder, self.graph = builder, Graph(builder.backend)
        self.env: dict[Key, int] = {}
        self.step: Step | None = None
        self.turns: dict[tuple, int] = {}
        self.reductions: list[tuple[tuple, int]] = []
        self.relaid: set[int] = set()
        self.copies: list[int] = []

    # Values

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
        number = self.env[key] = self.graph.add(Node("source", (), Buffer(key), self.builder.shape(key), None))
        self.graph.nodes[number].dtype = self.builder.code.dtypes[key[0]]
        return number

    def read(self, key: Key) -> int:
        """The node of a key; if it is made around the block, one that stands for it."""
        number = self.env.get(key)
        if number is None and key in self.builder.constant:
            # What is one number everywhere is made anew inside a loop (`WhileLoopConstantSinking`).
            number = self.env[key] = self.node("fill", (), key)
        elif number is None:
            number = self.graph.outside[key] = self.source(key)
        return number

    def node(self, kind: str, reads: Sequence[int], key: Key, expensive: bool = False, reused: bool = False) -> int:
        """A node that makes a key."""
        dtype = self.builder.code.dtypes[key[0]]
        widens = dtype in self.builder.widened
        if kind in _WHOLE and self.relaid:
            reads = [self.straight(r) for r in reads]
        if widens and kind in _WHOLE:
            shape = self.builder.shape(key)
            wide = self.graph.add(Node(kind, [self.wide(r) for r in reads], Buffer(key, 2), shape, self.step))
            return self.narrow(wide, key)
        costly = expensive or (widens and kind in ("map", "fold"))
        made = Node(kind, reads, Buffer(key), self.builder.shape(key), self.step, expensive=costly, reused=reused)
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
        if node.buffer is None or node.dtype not in self.builder.widened:
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
        made = Node("map", (read,), Buffer(key), self.builder.shape(key), self.step, expensive=True)
        made.dtype = self.builder.code.dtypes[key[0]]
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
        kind = (tuple(sorted(axes)), operation, str(self.builder.code.dtypes[key[0]]))
        self.reductions.append((kind, collective))
        return number

    def operand(self, step: Compute, position: int) -> Key:
        """The key of an operand of a step."""
        value, spec = step.operation.inputs[position], step.operands[position]
        assert isinstance(value, int)
        assert spec is not None
        return self.builder.key(value, spec)

    def operands(self, step: Compute | Nested) -> list[int | None]:
        """The nodes of a step's inputs; None for literals."""
        return [
            None if spec is None or isinstance(value, Literal) else self.read(self.builder.key(value, spec))
            for value, spec in zip(step.operation.inputs, step.operands, strict=True)
        ]

    def results(self, step: Compute | Nested) -> tuple[Key, ...]:
        """The keys of what a step makes."""
        return keys(step.operation.outputs, step.results, self.builder.roots)

    # Steps

    def steps(self, steps: Sequence[Step]):
        """Adds the nodes of steps."""
        for step in steps:
            self.step = step
            if isinstance(step, Compute):
                translate(self, step, self.operands(step), self.results(step))
            elif isinstance(step, Move):
                self.move(step)
            elif isinstance(step, Fill):
                self.fill(step)
            elif isinstance(step, Nested):
                nest(self, step)

    def fill(self, step: Fill):
        """What is made on the spot."""
        key = (step.operation.outputs[0], step.spec)
        reads = [self.read(self.builder.key(v, Spec(()))) for v in step.operation.inputs if isinstance(v, int)]
        self.env[key] = number = self.node("spread" if reads else "fill", reads, key, reused=bool(reads))
        node = self.graph.nodes[number]
        node.op = step.operation.name
        if not reads and step.operation.name != "iota":
            node.literals = numbers(step.operation)
            self.builder.constant.add(key)

    def move(self, step: Move):
        """A slice or a collective."""
        hop, start = step.hop, self.builder.key(step.value, step.start)
        read, key = self.read(start), self.builder.key(step.value, hop.result)
        if hop.kind == "slice":
            self.env[key] = self.node("permute", (read,), key)
        elif hop.kind == "all-reduce":
            self.env[key] = self.reduced(read, key, hop.axes, "reduce_sum")
        elif hop.kind == "reduce-scatter" and most_summed(hop.kind, self.builder.placement, hop.axes):
            whole = self.reduced(read, start, hop.axes, "reduce_sum")
            self.env[key] = self.node("permute", (whole,), key)
        elif self.reorders(hop, start):
            self.copies.append(self.node("permute", (read,), start))
            gathered = self.node("collective", (self.copies[-1],), key)
            # What computes element by element reads it as it lies; all else reads a copy.
            self.env[key] = self.node("view", (gathered,), key)
            self.relaid.add(self.env[key])
        else:
            self.env[key] = self.node("collective", (read,), key)

    def reorders(self, hop: Hop, start: Key) -> bool:
        """Whether a hop moves along an axis that is not the first in memory, and has to."""
        leads = all(n == 1 for n in self.builder.shape(start)[: hop.axis])
        return self.builder.backend.reorders and hop.kind in _FIRST_AXIS and not leads
