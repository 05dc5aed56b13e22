"""Adds a pipeline to a graph: the loop over its ticks, with what all stages hold, and the branches of a tick.

    loop      carries slots for what is sent, returned and held, and what is added up
      branch  a forward cell, in it a branch for the first stage
      branch  a backward cell, in it a branch for the last stage, and one for the first
      permutes, and what writes what arrived and what is held into its slots

Of two stacks each has branches of its own, which return zeros for what only the other one sends and holds.

All stages run one program, so their buffers are the same, whoever needs them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...engine.code.loops import carried
from ...engine.code.operations import item_bytes
from ...engine.planning.staged import (
    BACK,
    BACKWARD,
    BACKWARDS,
    FORWARD,
    FORWARDS,
    MID,
    PHASES,
    POST,
    PRE,
    TURN,
    Stack,
    Staged,
    carries,
)
from ...engine.planning.step import Step, only
from ...engine.planning.step_keys import Key, Originals
from ...engine.planning.steps import Result
from ...engine.plans.plan_data import Plan
from ...engine.schedules.table import table
from ...engine.specs.in_time import accumulator_dtype
from .graph import Buffer, Context, Graph, GraphBuilder, Node

# The position of what is held in `Slots`.
HELD = 2
AddSteps = Callable[[GraphBuilder, Sequence[Step]], None]


@dataclasses.dataclass(frozen=True)
class Carried:
    """What the loop carries: as large as a value, or a number of slots of it.

    Attributes:
        key: the value and its spec.
        buffer: what it takes.
        slots: how many, with the one for ticks without such a thing; 0 of what is added up.
        kind: of slots, the position in `Slots`: what is sent, what comes back, or what is held; -1 of what is added up.
    """

    key: Key
    buffer: Buffer
    slots: int = 0
    kind: int = -1


def held(plan: Plan) -> frozenset[int]:
    """Returns the values that the stages of a plan hold of a forward cell for the backward cell."""
    return frozenset(value for step in only(Staged, plan.steps) for value, _ in step.held)


def stacks_of(step: Staged, original_of: Originals) -> list[Carried]:
    """Returns the slots that all stages have: for what is sent, for what comes back, and for what is held."""
    chunks, slots = step.chunks, table(step.schedule).slots
    own = frozenset(key for key in step.stacks[0].forward.makes(original_of) if step.axis in key[1].axes)
    groups = zip((*step.messages(original_of), step.held), slots, strict=True)
    each = [(key, n + 1, kind) for kind, (keys, n) in enumerate(groups) for key in keys]
    return [Carried(key, Buffer(key, n / (chunks if key in own else 1)), n, kind) for key, n, kind in each]


def totals_of(step: Staged, dtypes: Sequence[Any]) -> dict[str, list[Carried]]:
    """Returns by piece what it adds up."""

    def total(result: Result) -> Carried:
        key, dtype = (result.value, result.outside), dtypes[result.value]
        wider = item_bytes(accumulator_dtype(dtype)) / item_bytes(dtype) if result.is_sum else 1.0
        return Carried(key, Buffer(key, wider))

    return {name: [total(result) for result in piece.results] for name, piece in step.pieces.items()}


def add_pipeline(builder: GraphBuilder, step: Staged, add_steps: AddSteps):
    """Adds the loop over the ticks of a pipeline."""
    tick = _Tick(builder.context, step, add_steps)
    inner, carried = tick.graph(), tick.carried
    starts = [_node(builder, "constant", (), each) for each in carried]
    stored, results, _ = step.dealt
    dealt = {key: builder.node("copy", (builder.read(key),), key) for key in stored}
    around = [dealt[key] if key in dealt else builder.read(key) for key in inner.outside]
    main = builder.graph.add(Node("loop", (*starts, *around), None, (), step))
    node = builder.graph.nodes[main]
    node.inner, node.carries, node.buffers = (inner,), len(carried), tuple(each.buffer for each in carried)
    for position, each in enumerate(carried):
        number = _node(builder, "part", (main,), each)
        builder.graph.nodes[number].position = position
        if not each.slots:
            builder.env[each.key] = builder.node("copy", (number,), each.key) if each.key in results else number


def _node(builder: GraphBuilder, kind: str, reads: Sequence[int], each: Carried) -> int:
    context = builder.context
    shape = (each.slots, *context.shape(each.key)) if each.slots else context.shape(each.key)
    dtype = context.code.dtypes[each.key[0]]
    return builder.graph.add(Node(kind, reads, each.buffer, shape, builder.step, dtype=dtype))


class _Tick:
    """The graph of one tick."""

    def __init__(self, context: Context, step: Staged, add_steps: AddSteps):
        self.context, self.step, self.add_steps = context, step, add_steps
        self.sent, self.returned = step.messages(context.original_of)
        stacks = stacks_of(step, context.original_of)
        self.totals = totals_of(step, context.code.dtypes)
        self.carried = [*stacks, *(each for those in self.totals.values() for each in those)]

    def graph(self) -> Graph:
        builder = GraphBuilder(self.context)
        builder.step, graph = self.step, builder.graph
        sources = [_node(builder, "source", (), each) for each in self.carried]
        graph.inputs = list(sources)
        count = len(self.sent), len(self.returned), len(self.step.held)
        sent, returned = sources[: count[0]], sources[count[0] : count[0] + count[1]]
        held, totals = sources[sum(count[:2]) : sum(count)], sources[sum(count) :]
        at = dict(zip((each.key for each in self.carried[sum(count) :]), totals, strict=True))
        self.slices(builder, self.sent, sent)
        stacks = range(len(self.step.stacks))
        self.branch(builder, [*map(self.forward, stacks)], FORWARD, (*self.sent, *self.step.held), at)
        held = [self.update(builder, stack, builder.env[key]) for key, stack in zip(self.step.held, held, strict=True)]
        arriving = [builder.node("collective", (builder.env[key],), key) for key in self.sent]
        sent = [self.update(builder, stack, made) for stack, made in zip(sent, arriving, strict=True)]
        self.slices(builder, self.step.held, held)
        self.slices(builder, self.returned, returned)
        self.branch(builder, [*map(self.backward, stacks)], BACKWARD, self.returned, at)
        back = [builder.node("collective", (builder.env[key],), key) for key in self.returned]
        returned = [self.update(builder, stack, made) for stack, made in zip(returned, back, strict=True)]
        graph.outputs = [*sent, *returned, *held, *at.values()]
        graph.output_buffers = [each.buffer for each in self.carried]
        return graph

    def slices(self, builder: GraphBuilder, keys: Iterable[Key], stacks: Iterable[int]):
        """Takes a value of each key out of its slots."""
        for key, stack in zip(keys, stacks, strict=True):
            builder.env[key] = builder.node("move", (stack,), key)

    def update(self, builder: GraphBuilder, stack: int, made: int) -> int:
        """Writes a value into its slot, in place."""
        node = builder.graph.nodes[stack]
        return builder.graph.add(Node("update", (stack, made), node.buffer, node.shape, self.step, dtype=node.dtype))

    def branch(
        self, builder: GraphBuilder, cells: Sequence[Graph], phase: str, keys: Sequence[Key], at: dict[Key, int]
    ):
        """Adds the branches of the cells of a phase: each makes some keys, and adds to some totals."""
        totals = [each for name in self.names(phase) for each in self.totals[name]]
        around = [at[key] if key in at else builder.read(key) for cell in cells for key in cell.outside]
        main = builder.graph.add(Node("branch", around, None, (), self.step))
        builder.graph.nodes[main].inner = tuple(cells)
        for position, each in enumerate((*(Carried(key, Buffer(key)) for key in keys), *totals)):
            if position < len(keys):
                builder.env[each.key] = number = _node(builder, "part", (main,), each)
                builder.graph.nodes[number].position = position
            else:
                at[each.key] = _node(builder, "update", (at[each.key], main), each)

    def names(self, phase: str) -> list[str]:
        """The pieces that are run in the cells of a phase."""
        return [name for name in self.step.pieces if PHASES[name] == phase]

    def forward(self, number: int) -> Graph:
        """The graph of a forward cell: what the first stage computes in front of its layers is a branch in it."""
        builder, step, stack, name = self.beginning(), self.step, self.step.stacks[number], FORWARDS[number]
        self.add_steps(builder, step.pieces[name].again)
        if number == 0:
            incoming = [builder.read(key) for key in self.messages(stack)[0]]
            self.inline(builder, PRE, (*self.starts(stack, 0), *stack.passed, *self.held_of(PRE)), incoming)
        else:
            self.begun(builder, stack)
        self.add_steps(builder, step.pieces[name].steps)
        if number + 1 < len(step.stacks):
            behind = step.stacks[number + 1]
            self.inline(builder, TURN, (*self.starts(behind, 0), *behind.passed, *self.held_of(TURN)), ())
            builder.env |= {end: builder.read(start) for start, end in self.carried_by(behind) if start and end}
        return self.ended(builder, (*self.sent, *step.held), name)

    def backward(self, number: int) -> Graph:
        """The graph of a backward cell, with a branch for the last stage, and one for the first."""
        builder, step, stack, name = self.beginning(), self.step, self.step.stacks[number], BACKWARDS[number]
        self.add_steps(builder, step.pieces[name].again)
        incoming = [builder.read(key) for key in self.messages(stack)[1]]
        lead = MID if number + 1 == len(step.stacks) else BACK
        self.inline(builder, lead, (*self.starts(stack, 1), *stack.returned), incoming)
        self.add_steps(builder, step.pieces[name].steps)
        if number == 0:
            self.inline(builder, POST, (), ())
        return self.ended(builder, self.returned, name)

    def starts(self, stack: Stack, way: int) -> tuple[Key, ...]:
        """What the scans of a stack carry first, forward or backward."""
        return carries((stack.forward, stack.backward)[way], self.context.original_of, out=False)

    def messages(self, stack: Stack) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        return stack.messages(self.context.original_of)

    def held_of(self, name: str) -> list[Key]:
        """What a piece of one stage makes that is held."""
        made = {key for each in self.step.pieces[name].steps for key in each.makes(self.context.original_of)}
        return [key for key in self.step.stacks[0].held if key in made]

    def carried_by(self, stack: Stack) -> list[tuple[Key | None, Key | None]]:
        """What the forward scan of a stack carries first, and what it sends of that; None of literals, or not sent."""
        count, scan = carried(stack.forward.operation), stack.forward
        starts = zip(scan.operation.inputs[:count], scan.operands[:count], strict=True)
        ends = zip(scan.operation.outputs[:count], scan.results[:count], strict=True)
        key = self.context.key
        return [
            (
                key(value, spec) if isinstance(value, int) and spec is not None else None,
                key(*end) if position in stack.carried[0] else None,
            )
            for position, ((value, spec), end) in enumerate(zip(starts, ends, strict=True))
        ]

    def begun(self, builder: GraphBuilder, stack: Stack):
        """Begins a second stack with what arrived."""
        for start, end in self.carried_by(stack):
            if start:
                builder.env[start] = builder.read(end) if end else builder.node("constant", (), start)

    def ended(self, builder: GraphBuilder, keys: Sequence[Key], own: str) -> Graph:
        """Ends a cell: of keys that it does not make it returns zeros."""
        way, number = PHASES[own] == BACKWARD, self.number(own)
        those = self.step.stacks[number : number + 2 - way]
        made = {key for stack in those for key in self.messages(stack)[way]} | {*self.step.stacks[number].held}
        for key in keys:
            if key not in made:
                builder.env[key] = builder.node("constant", (), key)
        return self.ending(builder, keys, self.names(PHASES[own]), own)

    @staticmethod
    def number(name: str) -> int:
        """The stack of a piece that has a scan."""
        return (FORWARDS if name in FORWARDS else BACKWARDS).index(name)

    def beginning(self) -> GraphBuilder:
        builder = GraphBuilder(self.context)
        builder.step = self.step
        return builder

    def inline(self, builder: GraphBuilder, name: str, keys: Sequence[Key], incoming: Sequence[int]):
        """Adds the branch of a piece that one stage alone runs; the others return what was sent to them."""
        inner = self.beginning()
        self.add_steps(inner, self.step.pieces[name].every)
        graph = self.ending(inner, keys, (name,), name)
        around = [builder.read(key) for key in graph.outside]
        totals = tuple(each.key for each in self.totals[name])
        main = builder.several((*incoming, *around), (*keys, *totals), "branch")
        builder.graph.nodes[main].inner = (graph,)

    def ending(self, builder: GraphBuilder, keys: Sequence[Key], names: Sequence[str], own: str) -> Graph:
        """Ends a cell, or a branch of it: it returns keys, and totals, to some of which one piece adds."""
        graph, pieces = builder.graph, self.step.pieces
        graph.outputs = [builder.in_order(builder.read(key)) for key in keys]
        buffers: list[Any] = [Buffer(key) for key in keys]
        for name in names:
            for each, result in zip(self.totals[name], pieces[name].results, strict=True):
                # The others are added in the branches of their pieces, or by cells of another stack.
                number = self.added(builder, each, result) if name == own else builder.read(each.key)
                graph.outputs.append(number)
                buffers.append(each.buffer)
        graph.output_buffers = buffers
        return graph

    def added(self, builder: GraphBuilder, each: Carried, result: Result) -> int:
        before, made = builder.read(each.key), builder.in_order(builder.read((result.value, result.inside)))
        number = _node(builder, "elementwise" if result.axis is None else "update", (before, made), each)
        builder.env[each.key] = number
        return number
