"""Builds the graph that a compiler sees of a plan's steps, block by block.

    mul, all-reduce, add       elementwise → collective → elementwise
    all-gather of axis 1       move → collective → move: XLA gathers the first axis in memory
    reduce-scatter on v5e:4x4  collective → move: the TPU compiler makes it an all-reduce and a slice
                               (`machines/xla_substitutes`)
    scan                       loop: reads its initial carry, its stacks, and the arrays that its iterations slice
    scan of one iteration      the nodes of that iteration, inline
    loop over an axis in time    loop: it carries the sums, and its iterations write their blocks
    cond                       branch, with a graph for each
    rematerialised region      its nodes, behind a barrier

Nothing here computes: the graph says what reads what.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...engine.code.loops import carried
from ...engine.code.operations import Block, item_bytes
from ...engine.collectives.kinds import ALL_REDUCE, RING
from ...engine.collectives.reshard import ReshardStep
from ...engine.planning.staged import Staged
from ...engine.planning.step import Step
from ...engine.planning.step_keys import Key, keys
from ...engine.planning.steps import Compute, Inside, Iterated, Materialise, Move, Nested, Result
from ...engine.plans.plan_data import Plan
from ...engine.specs.in_time import accumulator_dtype
from ...engine.specs.spec import Spec
from ..machines.xla_substitutes import most_summed
from .assign_layouts import hoist_copies
from .backends import Backend
from .carried_order import is_reordered
from .combine_all_reduces import combine
from .graph import Buffer, Context, Graph, GraphBuilder, Node
from .pipelines import add_pipeline
from .round_to_bf16 import store_rounded
from .translate import literals_of, translate


def build_graph(plan: Plan, backend: Backend) -> Graph:
    """Builds the graph of a whole plan: its inputs are the arguments and constants, its outputs the plan's outputs."""
    program = plan.program
    block = program.code.block
    inputs = [(v, plan.argument_specs[v]) for v in block.inputs]
    on = plan.mesh.on
    placement = on if on is not None and on.hardware.platform == backend.platform else None
    context = Context(program, plan.grid, backend, placement)
    return build_block(context, plan.steps, inputs, context.returned(block.outputs, plan.output_specs))


def build_block(
    context: Context,
    steps: Sequence[Step],
    inputs: Sequence[Key],
    outputs: Sequence[Key | None],
    carries: int | None = None,
) -> Graph:
    """Builds the graph of a block of steps.

    Args:
        context: the plan's.
        steps: of the block.
        inputs: the keys of its inputs.
        outputs: the keys of its outputs; None for literals.
        carries: for an iteration of a loop, how many of its inputs and outputs it carries; others are slices of stacks.
    """
    builder = GraphBuilder(context)
    graph = builder.graph
    for position, key in enumerate(inputs):
        graph.inputs.append(builder.source(key))
        if carries is not None and position >= carries:
            builder.env[key] = builder.node("move", (builder.env[key],), key)
    _add_steps(builder, steps)
    graph.outputs = [None if key is None else builder.in_order(builder.read(key)) for key in outputs]
    graph.output_buffers = [None if key is None else Buffer(key) for key in outputs]
    for position, number in enumerate(graph.outputs):
        if carries is not None and position >= carries and number is not None:
            store = Node("store", (number,), None, graph.nodes[number].shape, builder.step)
            graph.outputs[position] = graph.add(store)
    hoist_copies(graph, builder.copies)
    combine(graph, builder.reductions, context.backend.combine_threshold)
    if context.backend.bfloat16_propagation:
        store_rounded(graph)
    return graph


def _add_steps(builder: GraphBuilder, steps: Sequence[Step]):
    for step in steps:
        builder.step = step
        _ADD[type(step)](builder, step)


def _add_operation(builder: GraphBuilder, step: Compute):
    translate(builder, step, builder.operands(step), builder.results(step))


def _add_constant(builder: GraphBuilder, step: Materialise):
    """Adds a constant, an iota, or a scalar repeated."""
    context, key = builder.context, (step.operation.outputs[0], step.spec)
    reads = [builder.read(context.key(v, Spec(()))) for v in step.operation.inputs if isinstance(v, int)]
    builder.env[key] = number = builder.node("broadcast" if reads else "constant", reads, key, reused=bool(reads))
    node = builder.graph.nodes[number]
    node.op = step.operation.name
    if not reads and step.operation.name != "iota":
        node.literals = literals_of(step.operation)
        context.constant.add(key)


def _add_move(builder: GraphBuilder, step: Move):
    """Adds a slice or a collective."""
    context, via = builder.context, step.via
    start, key = context.key(step.value, step.start), context.key(step.value, via.result)
    read = builder.read(start)
    if not via.kind.sends:
        builder.env[key] = builder.node("move", (read,), key)
    elif via.kind is ALL_REDUCE:
        builder.env[key] = builder.all_reduce(read, key, via.axes, "reduce_sum")
    elif via.kind.sums and most_summed(via.kind, context.placement, via.axes):
        whole = builder.all_reduce(read, start, via.axes, "reduce_sum")
        builder.env[key] = builder.node("move", (whole,), key)
    elif _reorders(context, via, start):
        builder.copies.append(builder.node("move", (read,), start))
        gathered = builder.node("collective", (builder.copies[-1],), key)
        # Elementwise readers read it in that order; all others read a copy.
        builder.env[key] = builder.node("bitcast", (gathered,), key)
        builder.transposed.add(builder.env[key])
    else:
        builder.env[key] = builder.node("collective", (read,), key)


def _reorders(context: Context, via: ReshardStep, start: Key) -> bool:
    """Whether a collective runs along an axis that is not the first in memory, and the backend needs it first."""
    leads = all(n == 1 for n in context.shape(start)[: via.axis])
    return context.backend.layout_assignment and via.kind.way == RING and not leads


# Loops, branches and regions that run once


def _add_nested(builder: GraphBuilder, step: Nested):
    name = step.operation.name
    if name == "cond":
        _add_branches(builder, step)
    elif name == "scan" and step.times == 1:
        _add_inline(builder, step, _sliced_operands(builder, step), barrier=False)
    elif name in ("scan", "while"):
        _add_loop(builder, step)
    else:
        _add_inline(builder, step, builder.operands(step), barrier=True)


def _sliced_operands(builder: GraphBuilder, step: Nested) -> list[int | None]:
    """The inputs of a loop's single iteration: its slices of a stack are the whole stack under another shape."""
    count, context = carried(step.operation), builder.context
    given = keys(*step.parts[0].given, context.original_of)
    return [
        read if read is None or position < count else builder.node("bitcast", (read,), key)
        for position, (key, read) in enumerate(zip(given, builder.operands(step), strict=True))
    ]


def _add_inline(builder: GraphBuilder, step: Nested, operands: Sequence[int | None], barrier: bool):
    """Adds the steps of a block that runs once; behind a barrier, if they are rematerialised."""
    context, graph = builder.context, builder.graph
    block, inside = step.operation.blocks[0], step.blocks[0]
    operands = [r if r is None else builder.in_order(r) for r in operands]
    reads = [r for r in operands if r is not None]
    main = graph.add(Node("barrier", reads, None, (), step)) if barrier and reads else -1
    for key, read in zip(keys(block.inputs, inside.inputs, context.original_of), operands, strict=True):
        if read is None:
            builder.env[key] = builder.node("constant", (), key)
        elif barrier:
            dtype = context.code.dtypes[key[0]]
            through = Node("through", (main, read), Buffer(key), context.shape(key), step, dtype=dtype)
            builder.env[key] = graph.add(through)
        else:
            builder.env[key] = read
    _add_steps(builder, inside.steps)
    builder.step = step
    for key, result in zip(builder.results(step), context.returned(block.outputs, inside.outputs), strict=True):
        read = builder.node("constant", (), key) if result is None else builder.read(result)
        same = context.shape(key) == graph.nodes[read].shape
        builder.env[key] = read if same else builder.node("bitcast", (read,), key)


def _build_inside(context: Context, block: Block, inside: Inside, carries: int | None = None) -> Graph:
    """Builds the graph of a block inside a step."""
    outputs = context.returned(block.outputs, inside.outputs)
    return build_block(context, inside.steps, keys(block.inputs, inside.inputs, context.original_of), outputs, carries)


def _add_loop(builder: GraphBuilder, step: Nested):
    """Adds a loop: it reads its initial carry, its stacks, the arrays that it slices, and what its iterations read."""
    count, results, operands = carried(step.operation), builder.results(step), builder.operands(step)
    starts = [
        builder.node("constant", (), key) if read is None else builder.in_order(read)
        for key, read in zip(results, operands[:count], strict=False)
    ]
    stacks = [builder.node("constant", (), key) for key in results[count:]]
    inner = tuple(
        _build_inside(builder.context, block, inside, count if step.operation.name == "scan" and not position else None)
        for position, (block, inside) in enumerate(zip(step.operation.blocks, step.blocks, strict=True))
    )
    handed_on = _handed_on(builder, step, count)
    for position, operand in handed_on.items():
        builder.env[results[position]] = operand
    made = [position for position in range(len(results)) if position not in handed_on]
    inner[0].outputs = [inner[0].outputs[position] for position in made]
    inner[0].output_buffers = [inner[0].output_buffers[position] for position in made]
    stacks = [stacks[position - count] for position in made if position >= count]
    results = tuple(results[position] for position in made)
    rest = [r for r in operands[count:] if r is not None]
    around = [builder.read(key) for graph in inner for key in graph.outside]
    if builder.context.backend.bfloat16_propagation and step.operation.name == "scan":
        narrow, sources = inner[0].rounded, inner[0].inputs[count:]
        rest = [
            builder.rounded(r) if source in narrow else r
            for source, r in zip(sources, operands[count:], strict=True)
            if r is not None
        ]
    if builder.context.backend.carried_order:
        moved = [position for position in range(count) if is_reordered(builder.context, inner[0], position)]
        for position in moved:
            starts[position] = builder.node("copy", (starts[position],), results[position])
    else:
        moved = []
    main = builder.several((*starts, *stacks, *rest, *around), results, "loop")
    node = builder.graph.nodes[main]
    node.inner, node.carries = inner, count
    node.buffers = tuple(map(Buffer, results))
    for position in moved:
        key = results[position]
        builder.env[key] = builder.node("copy", (builder.env[key],), key)


def _handed_on(builder: GraphBuilder, step: Nested, count: int) -> dict[int, int]:
    """The stacks that a scan returns as it takes them, by position, each with its node: JAX runs no loop for these."""
    if step.operation.name != "scan":
        return {}
    block, inside, operands = step.operation.blocks[0], step.blocks[0], builder.operands(step)
    taken = keys(block.inputs, inside.inputs, builder.context.original_of)
    returned = builder.context.returned(block.outputs, inside.outputs)
    found = {}
    for position, key in enumerate(returned[count:], count):
        at = taken.index(key, count) if key in taken[count:] else -1
        operand = operands[at] if at >= 0 else None
        if operand is not None:
            found[position] = builder.in_order(operand)
    return found


def _add_iterations(builder: GraphBuilder, step: Iterated):
    """Adds the loop over an axis in time: it carries the sums, and writes each block to its place in the whole."""
    if step.times == 1:
        _add_steps(builder, step.steps)
        return
    context = builder.context
    carried = [result for result in step.results if result.axis is None]
    joined = [result for result in step.results if result.axis is not None]
    results = tuple((result.value, result.outside) for result in (*carried, *joined))
    starts = [builder.node("constant", (), key) for key in results]
    inner = _build_iteration(context, step, carried, joined)
    around = [builder.read(key) for key in inner.outside]
    main = builder.several((*starts, *around), results, "loop")
    node = builder.graph.nodes[main]
    node.inner, node.carries = (inner,), len(carried)
    node.buffers = tuple(_accumulator(context, key) for key in results)


def _build_iteration(context: Context, step: Iterated, carried: Sequence[Result], joined: Sequence[Result]) -> Graph:
    """Builds the graph of one iteration in time: what it adds to each sum, and each block that it writes."""
    builder = GraphBuilder(context)
    graph = builder.graph
    sums = [builder.source((result.value, result.outside)) for result in carried]
    graph.inputs = list(sums)
    for result in carried:  # an iteration that reads a value of the same key reads it from around the loop
        builder.env.pop((result.value, result.outside))
    _add_steps(builder, step.steps)
    builder.step = step
    for result, before in zip(carried, sums, strict=True):
        made = builder.in_order(builder.read((result.value, result.inside)))
        if result.is_sum:
            made = builder.node("elementwise", (before, made), (result.value, result.outside))
        graph.outputs.append(made)
    for result in joined:
        made = builder.in_order(builder.read((result.value, result.inside)))
        graph.outputs.append(graph.add(Node("store", (made,), None, graph.nodes[made].shape, step)))
    keys = [*((r.value, r.outside) for r in carried), *((r.value, r.inside) for r in joined)]
    graph.output_buffers = [_accumulator(context, key) for key in keys]
    hoist_copies(graph, builder.copies)
    combine(graph, builder.reductions, context.backend.combine_threshold)
    if context.backend.bfloat16_propagation:
        store_rounded(graph)
    return graph


def _accumulator(context: Context, key: Key) -> Buffer:
    """Returns the bytes of a sum over iterations, which has 32 bits at least."""
    dtype = context.code.dtypes[key[0]]
    return Buffer(key, item_bytes(accumulator_dtype(dtype)) / item_bytes(dtype))


def _add_branches(builder: GraphBuilder, step: Nested):
    """Adds the branches of a cond, of which one runs."""
    blocks = zip(step.operation.blocks, step.blocks, strict=True)
    inner = tuple(_build_inside(builder.context, block, inside) for block, inside in blocks)
    around = [builder.read(key) for graph in inner for key in graph.outside]
    reads = [r for r in builder.operands(step) if r is not None]
    builder.graph.nodes[builder.several((*reads, *around), builder.results(step), "branch")].inner = inner


# By the kind of step, what adds its nodes.
_ADD: dict[type[Step], Callable[[GraphBuilder, Any], None]] = {
    Compute: _add_operation,
    Materialise: _add_constant,
    Move: _add_move,
    Nested: _add_nested,
    Iterated: _add_iterations,
    Staged: functools.partial(add_pipeline, add_steps=_add_steps),
}
