"""What a compiler sees of one block of steps: nodes that read each other, before it fuses and orders them.

A plan's step is one node, or a few: a product of which an operand lies the wrong way reads a transposed copy of it, a
gather of an axis that is not the first is turned before and after. Each node makes one array, whose size is told by
the value and spec that it is as large as, so that the same nodes tell of any batch and any mesh.

Kinds whose elements can be computed where they are read (`FUSED`):

    fill        a number repeated, or the indices along an axis: reads no array
    map         element by element
    spread      one array repeated along new axes
    view        the same bytes under another shape
    permute     elements change places: transposes, slices, padding
    join        arrays joined along an axis
    lookup      elements found by index
    fold        sums and maxima along axes

    product     a product of matrices or a convolution, where compilers compute what is around it inside it

Kinds that can only compute what they read: `update` overwrites a part of its first operand in place, `store` puts what
it reads into the stack of a loop.

Kinds that read memory and write memory: `opaque` (products, convolutions, sorts), `overwrite` (which writes over its
first operand if nobody else reads that), `collective`, `copy`, `carry` (what a loop carries, before its first turn).

`source` is what comes in. `several`, `loop` and `branch` have `part`s for results. A `barrier` lets everything
`through` at once, so that nothing is fused across it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...engine.planning.steps import Step
from ..workload.dataflow import Key
from .backends import Backend

FUSED = frozenset(("fill", "map", "spread", "view", "permute", "join", "lookup", "fold", "product"))
LAST = frozenset(("update", "store"))
FUSES = FUSED | LAST


class Buffer(NamedTuple):
    """The bytes of one array on one device.

    Attributes:
        key: the value and spec that it is as large as.
        factor: how many times as large.
    """

    key: Key
    factor: float = 1.0


class Node:
    """One operation, as a compiler sees it.

    Attributes:
        kind: how it can be fused and what it leaves in memory.
        reads: the nodes that it reads, by number.
        buffer: what it makes; None where it makes nothing of its own.
        shape: of what it makes, on one device.
        step: the step that it is of; None for what comes in.
        expensive: whether each element takes many instructions.
        reused: whether it reads each element of what it reads many times.
        op: the primitive's name, where it is a step's own.
        dtype: of what it makes.
        literals: the numbers that it reads, each repeated for all elements.
        place: for a part, which result it is.
        inner: for a loop or branches, the graphs inside.
        carries: for a loop, how many of its first reads it carries from turn to turn.
        buffers: for a loop, how large what it carries and stacks is.
        starts: for a loop, the nodes whose buffers it carries; found with its copies.
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
        "place",
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
    ):
        self.kind, self.reads, self.buffer, self.shape, self.step = kind, tuple(reads), buffer, shape, step
        self.expensive, self.reused = expensive, reused
        self.op, self.place = "", 0
        self.dtype: Any = None
        self.inner: tuple[Graph, ...] = ()
        self.carries = 0
        self.buffers: tuple[Buffer, ...] = ()
        self.starts: tuple[int, ...] = ()
        self.literals: tuple[Any, ...] = ()


class Graph:
    """The nodes of one block.

    Attributes:
        nodes: by number.
        inputs: the nodes that stand for the block's inputs, in order.
        outside: the nodes that stand for what is read from around the block, by key.
        outputs: the nodes that the block returns; None for literals.
        kept: how large each output is.
        backend: whose compiler sees it.
        rounded: the nodes that are only read rounded to 16 bits.
        before: the nodes in order (`topological`) before any were made one; empty if none were.
    """

    def __init__(self, backend: Backend):
        self.backend = backend
        self.rounded: set[int] = set()
        self.nodes: list[Node] = []
        self.inputs: list[int] = []
        self.outside: dict[Key, int] = {}
        self.outputs: list[int | None] = []
        self.kept: list[Buffer | None] = []
        self.before: tuple[int, ...] = ()

    def add(self, node: Node) -> int:
        """Adds a node; returns its number."""
        self.nodes.append(node)
        return len(self.nodes) - 1


def topological(graph: Graph) -> list[int]:
    """The nodes in an order in which each comes after those that it reads: from the outputs, depth first."""
    return depth_first(graph, {number: node.reads for number, node in enumerate(graph.nodes)})


def depth_first(graph: Graph, reads: Mapping[int, Sequence[int]]) -> list[int]:
    """Some nodes, each after those that it reads: what comes in, then from the outputs, depth first.

    Args:
        graph: the nodes.
        reads: what each of them reads.
    """
    nodes, order, done = graph.nodes, [], set()
    sources = [number for number in reads if nodes[number].kind == "source"]
    for start in (*sources, *[n for n in graph.outputs if n is not None and n in reads], *reads):
        waiting = [start]
        while waiting:
            number = waiting[-1]
            missing = [r for r in reads[number] if r not in done] if number not in done else []
            if missing:
                waiting += reversed(missing)
                continue
            waiting.pop()
            if number not in done:
                done.add(number)
                order.append(number)
    return order


def ancestors(graph: Graph) -> list[int]:
    """For each node the set of those that it waits for, itself too, as bits."""
    found = [0] * len(graph.nodes)
    for number in topological(graph):
        bits = 1 << number
        for read in graph.nodes[number].reads:
            bits |= found[read]
        found[number] = bits
    return found
