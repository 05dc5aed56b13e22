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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...engine.planning.step import Step
from ...engine.planning.step_keys import Key
from .backends import Backend

FUSED = frozenset(
    ("constant", "elementwise", "broadcast", "bitcast", "move", "concatenate", "gather", "reduce", "matmul")
)
LAST = frozenset(("update", "store"))
FUSES = FUSED | LAST


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
    ):
        self.kind, self.reads, self.buffer, self.shape, self.step = kind, tuple(reads), buffer, shape, step
        self.expensive, self.reused = expensive, reused
        self.op, self.position = "", 0
        self.dtype: Any = None
        self.inner: tuple[Graph, ...] = ()
        self.carries = 0
        self.buffers: tuple[Buffer, ...] = ()
        self.starts: tuple[int, ...] = ()
        self.literals: tuple[Any, ...] = ()

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
