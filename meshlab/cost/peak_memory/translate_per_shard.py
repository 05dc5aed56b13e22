"""Translates operations with a per-shard implementation: each equation of it becomes nodes.

    reduce_max, sharded            reduce → collective
    convolution, rows sharded      slices of the edges → collectives → concatenate → opaque

The implementation is traced on shards, so its arrays are no values of the program: the size of each is a multiple of
that of the operation's first result, or of the array of places where rows of experts are sent, if it has as many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.extend.core import Literal

from ...engine.code.operations import item_bytes
from ...engine.collectives.kinds import ALL_REDUCE
from ...engine.jax_compat import call, carries, nested, opened
from ...engine.planning.step_keys import Key
from ...engine.planning.steps import Compute
from ...engine.plans.per_shard_collectives import traced
from ...engine.rules import names_where
from ..workload.expert_places import array_of_places
from ..workload.primitives import EXPENSIVE
from .graph import Buffer, Graph, GraphBuilder, Node
from .primitive_kinds import KINDS, ascends, orders

# Primitives that take a part of an array, or concatenate some: XLA removes those of one whole array
# (`AlgebraicSimplifier`).
_PARTS = names_where(lambda traits: traits.kind == "concatenate" or (traits.kind == "move" and traits.reads_part))


def translate_per_shard(builder: GraphBuilder, step: Compute, operands: Sequence[int | None], results: Sequence[Key]):
    """Adds the nodes of a step with a per-shard implementation to a block."""
    program, grid = builder.context.program, builder.context.grid
    walk = _Walk(builder, results[0], _places(step, builder))
    outputs = walk.run(traced(step, program, grid), [r for r in operands if r is not None])
    # Nothing is computed that nobody reads.
    used = [key for key, value in zip(results, step.operation.outputs, strict=True) if program.uses[value] > 0]
    for target, number in zip(used, outputs, strict=True):
        node = builder.graph.nodes[number]
        if node.kind == "source" or node.buffer is None or node.shape != builder.context.shape(target):
            number = builder.node("bitcast", (number,), target)  # noqa: PLW2901
        elif node.buffer.key[0] == results[0][0]:
            node.buffer = Buffer(target)
        builder.env[target] = number


def _places(step: Compute, builder: GraphBuilder) -> tuple[Key, int] | None:
    """The array of places that a step sends rows to or from, and how many there are on one device.

    None where as many items are sent as there are places: no array then says which of them it has.
    """
    context, operation = builder.context, step.operation
    key, routed = array_of_places(step, context.program), context.program.factors[operation].routed
    if key is None or routed is None:
        return None
    at = routed.followed[0] if routed.followed else 0
    choice, spec = operation.inputs[at], step.operands[at]
    assert isinstance(choice, int)
    assert spec is not None
    first = operation.params["how"].stacked
    count = math.prod(context.shape(key)[first : first + 2])
    return (key, count) if count != math.prod(context.shape((choice, spec))[first:]) else None


class _Walk:
    """Translates the equations of one per-shard implementation.

    Args:
        builder: of the block.
        base: the array that those of the implementation are multiples of.
        rows: the array of places for rows of experts, and how many there are, where any are sent: arrays with as many
            are multiples of that.
    """

    def __init__(self, builder: GraphBuilder, base: Key, rows: tuple[Key, int] | None = None):
        self.builder, self.base, self.rows = builder, base, rows

    def run(self, closed: Any, reads: Sequence[int]) -> list[int]:
        """Adds the equations of a jaxpr; returns the nodes of its results."""
        jaxpr = opened(closed)
        known: dict[Any, int] = dict(zip(jaxpr.invars, reads, strict=True))
        for variable, _ in jaxpr.constants:
            known[variable] = self.add("source", (), variable.aval)
        for equation in jaxpr.equations:
            self.equation(equation, known)
        return [self.read(atom, known) for atom in jaxpr.outvars]

    def read(self, atom: Any, known: Mapping[Any, int]) -> int:
        """Returns the node of an operand; a literal gets one of its own."""
        return self.add("constant", (), atom.aval) if isinstance(atom, Literal) else known[atom]

    def add(self, kind: str, reads: Sequence[int], aval: Any, expensive: bool = False, reused: bool = False) -> int:
        """Adds a node for an array of the implementation."""
        shape, buffer = tuple(aval.shape), self.buffer(aval)
        node = Node(kind, reads, buffer, shape, self.builder.step, expensive=expensive, reused=reused, dtype=aval.dtype)
        return self.builder.graph.add(node)

    def equation(self, equation: Any, known: dict[Any, int]):
        """Adds one equation."""
        name, params = equation.primitive.name, equation.params
        inner = call(equation)
        if inner is not None:
            reads = [self.read(atom, known) for atom in equation.invars]
            known.update(zip(equation.outvars, self.run(inner, reads), strict=True))
            return
        if name in ("scan", "cond"):
            self.nested(equation, known)
            return
        reads = [known[atom] for atom in equation.invars if not isinstance(atom, Literal)]
        if name == "threefry2x32" and not self.builder.context.backend.rolled_hash:
            known.update((variable, self.add("elementwise", reads, variable.aval)) for variable in equation.outvars)
            return
        if len(equation.outvars) > 1:
            main = self.builder.graph.add(Node("opaque", reads, None, (), self.builder.step))
            for position, variable in enumerate(equation.outvars):
                known[variable] = self.add("part", (main,), variable.aval)
                self.builder.graph.nodes[known[variable]].position = position
            return
        (variable,) = equation.outvars
        if name == "asked":
            known[variable] = self.asked(params, reads, variable.aval)
        elif name == "conv_general_dilated":
            known[variable] = self.convolution(params["dimension_numbers"], reads, variable.aval)
        else:
            known[variable] = self.plain(equation, reads, variable.aval)

    def nested(self, equation: Any, known: dict[Any, int]):
        """Adds a loop or branches, as the step's own (`build.py`), whose blocks are graphs inside the node."""
        inside, graph = nested(equation), self.builder.graph
        assert inside is not None
        is_loop = equation.primitive.name == "scan"
        reads = [self.read(atom, known) for atom in equation.invars]
        constants = reads[inside.bodies[0].constants] if is_loop else []
        given = reads[inside.inputs] if not is_loop else reads[len(constants) :]
        inner = tuple(self.block(body.jaxpr, len(constants)) for body in inside.bodies)
        main = graph.add(Node("loop" if is_loop else "branch", (*given, *constants), None, (), self.builder.step))
        node = graph.nodes[main]
        node.inner = inner
        if is_loop:
            node.carries = carries(equation)
            node.buffers = tuple(self.buffer(variable.aval) for variable in equation.outvars)
        for position, variable in enumerate(equation.outvars):
            known[variable] = self.add("part", (main,), variable.aval)
            graph.nodes[known[variable]].position = position

    def block(self, jaxpr: Any, constants: int) -> Graph:
        """Returns the graph of one iteration, or of a branch; its constants are values from around it."""
        builder = GraphBuilder(self.builder.context)
        builder.step, graph = self.builder.step, builder.graph
        walk = _Walk(builder, self.base, self.rows)
        sources = [walk.add("source", (), variable.aval) for variable in opened(jaxpr).invars]
        graph.inputs = sources[constants:]
        graph.outputs = list(walk.run(jaxpr, sources))
        graph.output_buffers = [walk.buffer(atom.aval) for atom in opened(jaxpr).outvars]
        return graph

    def buffer(self, aval: Any) -> Buffer:
        """The bytes of an array of the implementation."""
        has_places = self.rows is not None and self.rows[1] in aval.shape[:2]
        key, context = self.rows[0] if self.rows is not None and has_places else self.base, self.builder.context
        base = math.prod(context.shape(key)) * item_bytes(context.code.dtypes[key[0]])
        return Buffer(key, math.prod(aval.shape) * item_bytes(aval.dtype) / max(1, base))

    def plain(self, equation: Any, reads: Sequence[int], aval: Any) -> int:
        """Adds an equation as one node."""
        name, nodes = equation.primitive.name, self.builder.graph.nodes
        whole = name in _PARTS and bool(reads) and nodes[reads[0]].shape == aval.shape
        if whole or name == "optimization_barrier":
            return reads[0]
        kind = self.builder.context.backend.matmul if name == "dot_general" else KINDS.get(name, "opaque")
        if kind == "elementwise" and not reads:
            kind = "constant"
        if kind == "broadcast" and not reads:
            kind = "constant"
        if kind == "broadcast" and math.prod(nodes[reads[0]].shape) == math.prod(aval.shape):
            kind = "bitcast"
        if kind == "elementwise" and aval.shape:
            reads = [r if nodes[r].shape else self.add("broadcast", (r,), aval, reused=True) for r in reads]
        costly = name in EXPENSIVE or kind == "reduce"
        number = self.add(kind, reads, aval, expensive=costly, reused=kind == "broadcast")
        node = nodes[number]
        node.op = name
        if kind in ("elementwise", "constant"):
            literals = (atom for atom in equation.invars if isinstance(atom, Literal))
            node.literals = tuple(np.asarray(atom.val).item() for atom in literals)
        return number

    def asked(self, params: Mapping[str, Any], reads: Sequence[int], aval: Any) -> int:
        """Adds a collective, or the index of a device."""
        kind, asked = params["kind"], params["asked"]
        if kind is None:
            return self.add("constant", (), aval)
        number = self.add("collective", reads, aval)
        self.builder.graph.nodes[number].op = kind.name
        if kind is ALL_REDUCE:
            kind = (tuple(sorted(asked.axes)), f"reduce_{asked.operation}", str(aval.dtype))
            self.builder.reductions.append((kind, number))
        return number

    def convolution(self, numbers: Any, reads: Sequence[int], aval: Any) -> int:
        """Adds a convolution, with operands in its order."""
        inputs = []
        for read, order in zip(reads, orders(numbers), strict=False):
            node = self.builder.graph.nodes[read]
            if ascends(order, node.shape) or node.buffer is None or not self.builder.context.backend.layout_assignment:
                inputs.append(read)
            else:
                copy = Node("move", (read,), node.buffer, node.shape, self.builder.step, dtype=node.dtype)
                inputs.append(self.builder.graph.add(copy))
        result = self.add(self.builder.context.backend.matmul, inputs, aval)
        in_order = ascends(orders(numbers)[2], aval.shape) or not self.builder.context.backend.layout_assignment
        return result if in_order else self.add("move", (result,), aval)
