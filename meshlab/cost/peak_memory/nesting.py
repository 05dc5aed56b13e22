"""From loops, branches and pieces that run once to nodes that have graphs inside.

scan                 loop: reads what it starts from, where it stacks, and what its turns take slices of
scan of one turn     its turn's nodes, here
cond                 branch, with a graph for each
recomputed piece     its nodes, behind a barrier
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engine.code.loops import carried
from ...engine.planning.steps import Inside, Nested
from ..workload.dataflow import entering
from .graph import Buffer, Graph, Node

if TYPE_CHECKING:
    from ...engine.code.operations import Block
    from .build import Scope


def nest(scope: Scope, step: Nested):
    """Adds a loop, branches, or a piece that runs once, to a block that is being built."""
    name = step.operation.name
    if name == "cond":
        _branches(scope, step)
    elif name == "scan" and step.times == 1:
        _inline(scope, step, _only_slices(scope, step), barrier=False)
    elif name in ("scan", "while"):
        _loop(scope, step)
    else:
        _inline(scope, step, scope.operands(step), barrier=True)


def _only_slices(scope: Scope, step: Nested) -> list[int | None]:
    """What goes into the single turn of a loop."""
    count = carried(step.operation)
    found: list[int | None] = []
    inner = entering(step.operation.blocks[0], step.blocks[0], scope.builder.roots)
    for position, (key, read) in enumerate(zip(inner, scope.operands(step), strict=True)):
        found.append(read if read is None or position < count else scope.node("view", (read,), key))
    return found


def _inline(scope: Scope, step: Nested, operands: Sequence[int | None], barrier: bool):
    """A block whose steps run once, here; behind a barrier where they recompute something."""
    builder, graph = scope.builder, scope.graph
    block, inside = step.operation.blocks[0], step.blocks[0]
    operands = [r if r is None else scope.straight(r) for r in operands]
    reads = [r for r in operands if r is not None]
    main = graph.add(Node("barrier", reads, None, (), step)) if barrier and reads else -1
    for key, read in zip(entering(block, inside, builder.roots), operands, strict=True):
        if read is None:
            scope.env[key] = scope.node("fill", (), key)
        elif barrier:
            through = Node("through", (main, read), Buffer(key), builder.shape(key), step)
            through.dtype = builder.code.dtypes[key[0]]
            scope.env[key] = graph.add(through)
        else:
            scope.env[key] = read
    scope.steps(inside.steps)
    scope.step = step
    for key, made in zip(scope.results(step), builder.returned(block.outputs, inside.outputs), strict=True):
        read = scope.node("fill", (), key) if made is None else scope.read(made)
        same = builder.shape(key) == graph.nodes[read].shape
        scope.env[key] = read if same else scope.node("view", (read,), key)


def _inside(scope: Scope, block: Block, inside: Inside, carries: int | None = None) -> Graph:
    """The graph of a block inside."""
    builder = scope.builder
    outputs = builder.returned(block.outputs, inside.outputs)
    return builder.block(inside.steps, entering(block, inside, builder.roots), outputs, carries)


def _loop(scope: Scope, step: Nested):
    """A loop: it reads what it starts from, where it stacks, what it takes slices of, and what its turns read."""
    count, made, operands = carried(step.operation), scope.results(step), scope.operands(step)
    starts = [
        scope.node("fill", (), key) if read is None else scope.straight(read)
        for key, read in zip(made, operands[:count], strict=False)
    ]
    stacks = [scope.node("fill", (), key) for key in made[count:]]
    blocks = zip(step.operation.blocks, step.blocks, strict=True)
    inner = tuple(
        _inside(scope, block, inside, count if step.operation.name == "scan" and not position else None)
        for position, (block, inside) in enumerate(blocks)
    )
    rest = [r for r in operands[count:] if r is not None]
    around = [scope.read(key) for graph in inner for key in graph.outside]
    if scope.builder.backend.rounds and step.operation.name == "scan":
        narrow, sources = inner[0].rounded, inner[0].inputs[count:]
        rest = [
            scope.rounded(r) if source in narrow else r
            for source, r in zip(sources, operands[count:], strict=True)
            if r is not None
        ]
    main = scope.several((*starts, *stacks, *rest, *around), made, "loop")
    node = scope.graph.nodes[main]
    node.inner, node.carries = inner, count
    node.buffers = tuple(map(Buffer, made))


def _branches(scope: Scope, step: Nested):
    """Branches, of which one runs."""
    blocks = zip(step.operation.blocks, step.blocks, strict=True)
    inner = tuple(_inside(scope, block, inside) for block, inside in blocks)
    around = [scope.read(key) for graph in inner for key in graph.outside]
    reads = [r for r in scope.operands(step) if r is not None]
    scope.graph.nodes[scope.several((*reads, *around), scope.results(step), "branch")].inner = inner
