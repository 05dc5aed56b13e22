"""From the steps of a block to the nodes that a compiler sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..engine.code import Literal, item_bytes
from ..engine.loops import carried
from ..engine.rules.elementwise import ELEMENTWISE
from ..engine.spec import Spec, local_shape
from ..engine.steps import Compute, Fill, Move, Nested, Step
from .dataflow import Key, keys
from .fusion import BITCASTS, EXPENSIVE, REDUCING
from .nodes import Buffer, Graph, Node

if TYPE_CHECKING:
    from ..engine.plan import Plan
    from ..engine.program import Program

Shape = tuple[int, ...]
# XLA for CPUs sums along axes that are longer in two stages (`TreeReductionRewriter`); arrays of so many elements are
# handed to a library (`YnnMatcher`).
_WINDOW, LEAST_ELEMENTS = 32, 4096
_PERMUTING = frozenset("transpose slice pad rev dynamic_slice".split())
_COLLECTIVE = frozenset("all-reduce all-gather reduce-scatter all-to-all collective-permute".split())


class Builder:
    """Builds the graphs of one plan."""

    def __init__(self, program: Program, grid: Mapping[str, int]):
        self.program, self.grid = program, grid
        self.roots, self.code = program.roots, program.code
        self.shapes: dict[Key, Shape] = {}
        # What holds one number everywhere, known when the program is compiled.
        self.constant: set[Key] = set()

    def shape(self, key: Key) -> Shape:
        found = self.shapes.get(key)
        if found is None:
            found = self.shapes[key] = local_shape(self.code.shapes[key[0]], key[1], self.grid)
        return found

    def block(
        self, steps: Sequence[Step], inputs: Sequence[Key], outputs: Sequence[Key | None], carries: int = -1
    ) -> Graph:
        """The graph of a block of steps; of a turn of a loop, whose inputs beyond its carries are slices of stacks."""
        scope = _Scope(self, Graph())
        for position, key in enumerate(inputs):
            scope.graph.inputs.append(scope.source(key))
            if 0 <= carries <= position:
                scope.env[key] = scope.node("permute", (scope.env[key],), key)
        scope.steps(steps)
        scope.step = len(steps)
        scope.graph.outputs = [None if key is None else scope.read(key) for key in outputs]
        scope.graph.kept = [None if key is None else Buffer(key) for key in outputs]
        if carries >= 0:
            for position, number in enumerate(scope.graph.outputs[carries:], carries):
                if number is not None:
                    node = Node("store", (number,), None, scope.graph.nodes[number].shape, len(steps))
                    scope.graph.outputs[position] = scope.graph.add(node)
        combine(scope.graph, scope.collectives)
        return scope.graph


class _Scope:
    """A block that is being built."""

    def __init__(self, builder: Builder, graph: Graph):
        self.builder, self.graph = builder, graph
        self.env: dict[Key, int] = {}
        self.step = -1
        self.turns: dict[tuple, int] = {}
        # The all-reduces that can be combined: (mesh axes, what they compute, dtype) and node.
        self.collectives: list[tuple[tuple, int]] = []

    # Values

    def source(self, key: Key) -> int:
        number = self.graph.add(Node("source", (), Buffer(key), self.builder.shape(key), -1))
        self.env[key] = number
        return number

    def read(self, key: Key) -> int:
        number = self.env.get(key)
        if number is None and key in self.builder.constant:
            # What is one number everywhere is made anew inside a loop.
            number = self.env[key] = self.node("fill", (), key)
        elif number is None:
            number = self.graph.outside[key] = self.source(key)
        return number

    def node(self, kind: str, reads: Sequence[int], key: Key, shape: Shape | None = None, **told) -> int:
        made = Node(kind, reads, Buffer(key), self.builder.shape(key) if shape is None else shape, self.step, **told)
        made.dtype = self.builder.code.dtypes[key[0]]
        return self.graph.add(made)

    def turned(self, read: int, order: Sequence[int], step: Compute, side: int) -> int:
        """An operand of a step with its axes in another order; made once."""
        axes = tuple(a for a in order if self.graph.nodes[read].shape[a] != 1)
        found = self.turns.get((read, axes))
        if found is None:
            value = step.operation.inputs[side]
            key = (self.builder.roots.get(value, value), step.operands[side])
            found = self.turns[read, axes] = self.node("permute", (read,), key)
        return found

    # Steps

    def steps(self, steps: Sequence[Step]):
        for position, step in enumerate(steps):
            if self is not None and not isinstance(step, Nested):
                self.step = position
            if isinstance(step, Compute):
                self.compute(step)
            elif isinstance(step, Move):
                self.move(step)
            elif isinstance(step, Fill):
                self.fill(step)
            elif isinstance(step, Nested):
                self.step = position
                self.nested(step)

    def operands(self, step: Compute | Nested) -> list[int | None]:
        """The nodes of a step's inputs; None for literals."""
        roots = self.builder.roots
        return [
            None if spec is None or isinstance(value, Literal) else self.read((roots.get(value, value), spec))
            for value, spec in zip(step.operation.inputs, step.operands, strict=True)
        ]

    def results(self, step: Compute | Nested) -> tuple[Key, ...]:
        return keys(step.operation.outputs, step.results, self.builder.roots)

    def fill(self, step: Fill):
        key = (step.operation.outputs[0], step.spec)
        reads = [self.read((self.builder.roots.get(v, v), Spec(()))) for v in step.operation.inputs if isinstance(v, int)]
        number = self.env[key] = self.node("spread" if reads else "fill", reads, key, reused=bool(reads))
        self.graph.nodes[number].op = step.operation.name
        if not reads and step.operation.name != "iota":
            (value,) = step.operation.inputs
            self.graph.nodes[number].literals = (float(value.value),)
        if not reads and step.operation.name != "iota":
            self.builder.constant.add(key)

    def compute(self, step: Compute):
        name = step.operation.name
        made, operands = self.results(step), self.operands(step)
        reads = [r for r in operands if r is not None]
        if step.exchanged:
            self.exchanged(step, reads, made)
            return
        rule = _RULES.get(name)
        if rule is not None:
            rule(self, step, operands, made)
            return
        kind = _KINDS.get(name, "opaque")
        if kind == "opaque" and len(made) > 1:
            self.several(reads, made, "opaque")
            return
        shape = self.builder.shape(made[0])
        if kind == "map" and not reads:
            kind = "fill"
        expensive = name in EXPENSIVE and _is_costly(step)
        if kind == "map" and self.before_spread(step, reads, made[0], expensive):
            return
        # A scalar among arrays is repeated for each element.
        scalars = [r for r in reads if not self.graph.nodes[r].shape] if kind == "map" and shape else []
        for scalar in dict.fromkeys(scalars):
            spread = self.node("spread", (scalar,), made[0], reused=True)
            reads = [spread if r == scalar else r for r in reads]
        if kind == "spread" and reads and math.prod(shape) == math.prod(self.graph.nodes[reads[0]].shape):
            kind = "view"
        number = self.env[made[0]] = self.node(kind, reads, made[0], expensive=expensive, reused=kind == "spread")
        node = self.graph.nodes[number]
        node.op = name
        if kind in ("map", "fill"):
            node.literals = tuple(float(v.value) for v in step.operation.inputs if isinstance(v, Literal))

    def fold(self, read: int, step: Compute, key: Key) -> int:
        """A sum or maximum; of small arrays along long axes in two stages, of which the first is no fused one."""
        node, axes = self.graph.nodes[read], step.operation.params["axes"]
        wide = any(node.shape[a] > _WINDOW for a in axes)
        if wide and math.prod(node.shape) < LEAST_ELEMENTS:
            shape = tuple(math.ceil(n / _WINDOW) if a in axes else n for a, n in enumerate(node.shape))
            value = step.operation.inputs[0]
            source = (self.builder.roots.get(value, value), step.operands[0])
            made = Node("opaque", (read,), Buffer(source, math.prod(shape) / math.prod(node.shape)), shape, self.step)
            made.dtype = node.dtype
            read = self.graph.add(made)
        number = self.node("fold", (read,), key, expensive=True)
        self.graph.nodes[number].op = step.operation.name
        return number

    def before_spread(self, step: Compute, reads: Sequence[int], key: Key, expensive: bool) -> bool:
        """What is computed of a repeated array alone is computed before it is repeated."""
        nodes = self.graph.nodes
        arrays = {r for r in reads if nodes[r].shape}
        spread = next(iter(arrays)) if len(arrays) == 1 else -1
        if spread < 0 or nodes[spread].kind != "spread" or not nodes[nodes[spread].reads[0]].shape:
            return False
        (inner,) = nodes[spread].reads
        source, dtype = nodes[inner], self.builder.code.dtypes[key[0]]
        factor = item_bytes(dtype) / item_bytes(self.builder.code.dtypes[source.buffer.key[0]])
        scalars = [r for r in reads if r != spread]
        small = Node("map", (inner, *scalars), Buffer(source.buffer.key, factor), source.shape, self.step, expensive)
        small.op, small.dtype = step.operation.name, dtype
        small.literals = tuple(float(v.value) for v in step.operation.inputs if isinstance(v, Literal))
        self.env[key] = self.node("spread", (self.graph.add(small),), key, reused=True)
        return True

    def several(self, reads: Sequence[int], made: Sequence[Key], kind: str, **told) -> int:
        """A node with several results."""
        main = self.graph.add(Node(kind, reads, None, (), self.step, **told))
        for key in made:
            self.env[key] = self.node("part", (main,), key)
        return main

    def exchanged(self, step: Compute, reads: Sequence[int], made: Sequence[Key]):
        """An operation in its local form."""
        name = step.operation.name
        if name in REDUCING and len(made) == 1:
            local = self.node("fold", reads, made[0], expensive=True)
            self.env[made[0]] = self.node("collective", (local,), made[0])
            axes = tuple(sorted(a for a in step.operands[0].axes if a not in step.results[0].axes))
            dtype = str(self.builder.code.dtypes[made[0][0]])
            self.collectives.append(((axes, name, dtype), self.env[made[0]]))
        elif name in ("gather", "dynamic_slice") and len(made) == 1:
            self.env[made[0]] = self.node("lookup", reads, made[0], expensive=True)
        elif len(made) == 1:
            self.env[made[0]] = self.node("opaque", reads, made[0])
        else:
            self.several(reads, made, "opaque")

    def move(self, step: Move):
        hop, roots = step.hop, self.builder.roots
        value = roots.get(step.value, step.value)
        read, key = self.read((value, step.start)), (value, hop.result)
        if hop.kind == "slice":
            self.env[key] = self.node("permute", (read,), key)
            return
        if hop.kind in ("all-gather", "reduce-scatter") and not _leads(self.builder.shape((value, step.start)), hop.axis):
            read = self.node("permute", (read,), (value, step.start))
            turned = self.node("collective", (read,), key)
            self.env[key] = self.node("permute", (turned,), key)
            return
        self.env[key] = self.node("collective", (read,), key)
        if hop.kind == "all-reduce":
            self.collectives.append(
                ((tuple(sorted(hop.axes)), "reduce_sum", str(self.builder.code.dtypes[value])), self.env[key])
            )

    # Blocks inside

    def nested(self, step: Nested):
        name = step.operation.name
        if name == "cond":
            self.branches(step)
        elif name == "scan" and step.times == 1:
            self.inlined(step, self.sliced(step), barrier=False)
        elif name in ("scan", "while"):
            self.loop(step)
        else:
            self.inlined(step, self.operands(step), barrier=True)

    def sliced(self, step: Nested) -> list[int | None]:
        """What goes into the single turn of a loop."""
        count, operands = carried(step.operation), self.operands(step)
        roots = self.builder.roots
        inner = zip(step.operation.body.inputs, step.blocks[0].inputs, strict=True)
        found: list[int | None] = []
        for position, ((value, spec), read) in enumerate(zip(inner, operands, strict=True)):
            viewed = read is not None and position >= count
            found.append(self.node("view", (read,), (roots.get(value, value), spec)) if viewed else read)
        return found

    def inlined(self, step: Nested, operands: Sequence[int | None], barrier: bool):
        """A block whose steps run once, here; behind a barrier where they recompute something."""
        (block, *_), (inside, *_) = step.operation.blocks, step.blocks
        roots = self.builder.roots
        entering = [(roots.get(v, v), s) for v, s in zip(block.inputs, inside.inputs, strict=True)]
        reads = [r for r in operands if r is not None]
        main = self.graph.add(Node("barrier", reads, None, (), self.step)) if barrier and reads else -1
        for key, read in zip(entering, operands, strict=True):
            if read is None:
                self.env[key] = self.node("fill", (), key)
            elif barrier:
                part = Node("through", (main, read), None, self.builder.shape(key), self.step)
                self.env[key] = self.graph.add(part)
            else:
                self.env[key] = read
        at = self.step
        for within in inside.steps:
            self.step = at
            self.inner_step(within)
        self.step = at
        made = [roots.get(v, v) if isinstance(v, int) else None for v in block.outputs]
        for key, value, spec in zip(self.results(step), made, inside.outputs, strict=True):
            if value is None or spec is None:
                self.env[key] = self.node("fill", (), key)
                continue
            read = self.read((value, spec))
            if self.builder.shape(key) != self.graph.nodes[read].shape:
                read = self.node("view", (read,), key)
            self.env[key] = read

    def inner_step(self, step: Step):
        if isinstance(step, Compute):
            self.compute(step)
        elif isinstance(step, Move):
            self.move(step)
        elif isinstance(step, Fill):
            self.fill(step)
        elif isinstance(step, Nested):
            self.nested(step)

    def inside(self, step: Nested, position: int) -> Graph:
        """The graph of a block inside."""
        block, inside = step.operation.blocks[position], step.blocks[position]
        roots = self.builder.roots
        entering = keys(block.inputs, inside.inputs, roots)
        leaving = [
            (roots.get(v, v), s) if isinstance(v, int) and s is not None else None
            for v, s in zip(block.outputs, inside.outputs, strict=True)
        ]
        return self.builder.block(inside.steps, entering, leaving, _stacked(step, position))

    def loop(self, step: Nested):
        count, made = carried(step.operation), self.results(step)
        operands = self.operands(step)
        starts = [
            self.node("fill", (), key) if read is None else read
            for key, read in zip(made, operands[:count], strict=False)
        ]
        stacks = [self.node("fill", (), key) for key in made[count:]]
        inner = tuple(self.inside(step, i) for i in range(len(step.blocks)))
        rest = [r for r in operands[count:] if r is not None]
        outside = [self.read(key) for graph in inner for key in graph.outside]
        main = Node("loop", (*starts, *stacks, *rest, *outside), None, (), self.step)
        main.inner, main.carries = inner, count
        number = self.graph.add(main)
        for position, key in enumerate(made):
            self.env[key] = self.node("part", (number,), key)
            self.graph.nodes[self.env[key]].carries = position
        main.parts = tuple(self.env[key] for key in made)

    def branches(self, step: Nested):
        made = self.results(step)
        inner = tuple(self.inside(step, i) for i in range(len(step.blocks)))
        outside = [self.read(key) for graph in inner for key in graph.outside]
        reads = [r for r in self.operands(step) if r is not None]
        number = self.several((*reads, *outside), made, "branch")
        self.graph.nodes[number].inner = inner


def _stacked(step: Nested, position: int) -> int:
    """From which on the inputs of a block are slices, and its outputs are stacked; -1 where there are none."""
    return carried(step.operation) if step.operation.name == "scan" and position == 0 else -1


def _leads(shape: Shape, axis: int) -> bool:
    """Whether an axis is the first one of more than one element, before which there are none."""
    return all(size == 1 for size in shape[:axis])


def _is_costly(step: Compute) -> bool:
    """Divisions of whole numbers by a constant are cheap."""
    if step.operation.name not in ("div", "rem"):
        return True
    dtype = step.operation.equation.outvars[0].aval.dtype
    return bool(np.issubdtype(dtype, np.inexact)) or not isinstance(step.operation.inputs[1], Literal)


# Rules

Rule = Callable[[_Scope, Compute, Sequence[int | None], Sequence[Key]], None]
_RULES: dict[str, Rule] = {}
_KINDS: dict[str, str] = (
    dict.fromkeys(ELEMENTWISE, "map")
    | dict.fromkeys(_PERMUTING, "permute")
    | dict.fromkeys(BITCASTS, "view")
    | dict.fromkeys(REDUCING, "fold")
    | {"broadcast_in_dim": "spread", "iota": "fill", "concatenate": "join", "gather": "lookup"}
    | {"dynamic_update_slice": "update"}
    | dict.fromkeys("scatter scatter-add scatter_add scatter_mul scatter_min scatter_max".split(), "overwrite")
)


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


@_rule("dot_general")
def _product(scope: _Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    (contracted, batched) = step.operation.params["dimension_numbers"]
    reads = []
    for side, read in enumerate(operands):
        if read is None:
            continue
        shape = scope.graph.nodes[read].shape
        batch, contract = batched[side], contracted[side]
        free = [a for a in range(len(shape)) if a not in batch and a not in contract]
        wanted = [*batch, *free, *contract] if side == 0 else [*batch, *contract, *free]
        other = [*batch, *contract, *free] if side == 0 else [*batch, *free, *contract]
        # A matrix may be read by rows or by columns.
        swapped = len(free) <= 1 and len(contract) <= 1 and other == sorted(other)
        if not swapped and not _ascends(wanted, shape):
            read = scope.turned(read, wanted, step, side)
        reads.append(read)
    scope.env[made[0]] = scope.node("opaque", reads, made[0])
    scope.graph.nodes[scope.env[made[0]]].op = "dot_general"


def _ascends(order: Sequence[int], shape: Shape) -> bool:
    axes = [a for a in order if shape[a] != 1]
    return all(a < b for a, b in zip(axes, axes[1:], strict=False))


@_rule("reduce_sum")
def _sum(scope: _Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    """The sum of what is negated is the sum, negated."""
    (read,) = operands
    nodes = scope.graph.nodes
    negated = nodes[read].op == "neg"
    if negated:
        (read,) = nodes[read].reads
    same = math.prod(nodes[read].shape) == math.prod(scope.builder.shape(made[0]))
    number = scope.node("view", (read,), made[0]) if same else scope.fold(read, step, made[0])
    nodes[number].op = step.operation.name
    if negated:
        number = scope.node("map", (number,), made[0])
        nodes[number].op = "neg"
    scope.env[made[0]] = number


@_rule("reduce_max", "reduce_min")
def _extreme(scope: _Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    (read,) = operands
    scope.env[made[0]] = scope.fold(read, step, made[0])


@_rule("transpose")
def _transpose(scope: _Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    """A product of two matrices that is turned is that of the turned ones, in the other order."""
    (read,) = operands
    node = scope.graph.nodes[read]
    (value,) = step.operation.inputs
    order = step.operation.params["permutation"]
    if node.op == "dot_general" and len(node.shape) == 2 and scope.builder.program.uses[value] == 1:
        node.shape, scope.env[made[0]] = scope.builder.shape(made[0]), read
        return
    scope.env[made[0]] = scope.node("view" if _ascends(order, node.shape) else "permute", (read,), made[0])


@_rule("conv_general_dilated")
def _convolution(scope: _Scope, step: Compute, operands: Sequence[int | None], made: Sequence[Key]):
    numbers = step.operation.params["dimension_numbers"]
    reads = []
    for side, read in enumerate(operands):
        shape = scope.graph.nodes[read].shape
        spec = (numbers.lhs_spec, numbers.rhs_spec)[side]
        wanted = [spec[0], *spec[2:], spec[1]] if side == 0 else [*spec[2:], spec[1], spec[0]]
        if not _ascends(wanted, shape):
            read = scope.turned(read, wanted, step, side)
        reads.append(read)
    result = scope.node("opaque", reads, made[0])
    spec = numbers.out_spec
    if not _ascends([spec[0], *spec[2:], spec[1]], scope.builder.shape(made[0])):
        result = scope.node("permute", (result,), made[0])
    scope.env[made[0]] = result


# All-reduces

def combine(graph: Graph, found: Sequence[tuple[tuple, int]]):
    """Makes one of all-reduces that are alike and do not wait for each other.

    XLA's `AllReduceCombiner` does so: their operands are all in memory at once, and so are their results.
    """
    groups: dict[tuple, list[int]] = {}
    for kind, number in found:
        groups.setdefault(kind, []).append(number)
    if all(len(group) == 1 for group in groups.values()):
        return
    after = ancestors(graph)
    for group in groups.values():
        waiting = group
        while waiting:
            taken, left = [], []
            for number in waiting:
                (left if any(after[number] >> t & 1 for t in taken) else taken).append(number)
            if len(taken) > 1:
                _combined(graph, taken)
                after = ancestors(graph) if left else after
            waiting = left


def _combined(graph: Graph, taken: Sequence[int]):
    """All-reduces as one node: the last of them; the others are results of it."""
    nodes = graph.nodes
    main = len(nodes)
    nodes.append(Node("several", [nodes[n].reads[0] for n in taken], None, (), nodes[taken[-1]].step))
    for number in taken:
        nodes[number].kind, nodes[number].reads = "part", (main,)


def ancestors(graph: Graph) -> list[int]:
    """For each node the set of those that it waits for, itself too, as bits."""
    found = [0] * len(graph.nodes)
    for number in topological(graph):
        bits = 1 << number
        for read in graph.nodes[number].reads:
            bits |= found[read]
        found[number] = bits
    return found


def topological(graph: Graph) -> list[int]:
    """The nodes in an order in which each comes after those that it reads: from the outputs, depth first."""
    nodes = graph.nodes
    order, done = [], [False] * len(nodes)
    starts = [n for n, node in enumerate(nodes) if node.kind == "source"]
    for start in (*starts, *[n for n in graph.outputs if n is not None], *range(len(nodes))):
        waiting = [start]
        while waiting:
            number = waiting[-1]
            if done[number]:
                waiting.pop()
                continue
            missing = [r for r in nodes[number].reads if not done[r]]
            if missing:
                waiting += reversed(missing)
                continue
            waiting.pop()
            done[number] = True
            order.append(number)
    return order


def built(plan: Plan) -> Graph:
    """The graph of a whole plan: its inputs are the arguments and constants, its outputs the outputs."""
    program = plan.program
    builder = Builder(program, plan.grid)
    roots = program.roots
    inputs = [(v, plan.argument_specs[v]) for v in program.code.block.inputs]
    outputs = [
        (roots.get(v, v), s) if isinstance(v, int) else None
        for v, s in zip(program.code.block.outputs, plan.output_specs, strict=True)
    ]
    return builder.block(plan.steps, inputs, outputs)
