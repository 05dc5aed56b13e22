"""What a compiler sees of one block of steps: nodes that read each other, before it fuses and orders them.

A plan's step is one node, or a few: a product of which an operand lies the wrong way reads a transposed copy of it, a
gather of an axis that is not the first is turned before and after. Each node makes one array, whose size is told by
the value and spec that it is as large as, so that the same nodes tell of any batch and any mesh.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .dataflow import Key


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
        kind: how it can be fused and what it leaves in memory; see `FUSIBLE` and the kinds beside it.
        reads: the nodes that it reads, by number.
        buffer: what it makes; None where it makes nothing of its own.
        shape: of what it makes, on one device.
        step: the position in the block of the step that it is of; -1 for what comes in.
        expensive: whether each element takes many instructions.
        reused: whether it reads each element of what it reads many times.
        inner: for a loop or branches, the graphs inside.
        carries: for a loop, how many of its reads it carries from turn to turn; for a result of one, which it is.
        parts: for a loop, its results.
        starts: for a loop, the buffers that it carries.
        op: the primitive's name, for what a plan's step says itself.
        literals: the numbers that it reads, each repeated for all elements.
        dtype: of what it makes.
    """

    __slots__ = (
        "buffer", "carries", "dtype", "expensive", "inner", "kind", "literals", "op", "parts", "reads", "reused", "shape", "starts",
        "step",
    )

    def __init__(
        self,
        kind: str,
        reads: Sequence[int],
        buffer: Buffer | None,
        shape: tuple[int, ...],
        step: int,
        expensive: bool = False,
        reused: bool = False,
    ):
        self.kind, self.reads, self.buffer, self.shape, self.step = kind, tuple(reads), buffer, shape, step
        self.expensive, self.reused = expensive, reused
        self.inner: tuple[Graph, ...] = ()
        self.carries = 0
        self.op, self.literals, self.dtype = "", (), None
        self.parts: tuple[int, ...] = ()


class Graph:
    """The nodes of one block.

    Attributes:
        nodes: in an order in which each comes after those that it reads.
        inputs: the nodes that stand for the block's inputs, in order.
        outside: the nodes that stand for what is read from around the block, by key.
        outputs: the nodes that the block returns; None for literals.
        kept: how large each output is.
    """

    def __init__(self):
        self.nodes: list[Node] = []
        self.inputs: list[int] = []
        self.outside: dict[Key, int] = {}
        self.outputs: list[int | None] = []
        self.kept: list[Buffer | None] = []

    def add(self, node: Node) -> int:
        """Adds a node; returns its number."""
        self.nodes.append(node)
        return len(self.nodes) - 1


# Kinds whose elements can be computed where they are read:
#   fill     a scalar repeated, or an index along an axis: reads no array
#   map      element by element
#   spread   one array repeated along new axes
#   view     the same bytes under another shape
#   permute  elements change places: transposes, slices, padding
#   join     arrays joined along an axis
#   lookup   elements found by index
#   fold     sums and maxima along axes
FUSIBLE = frozenset(("fill", "map", "spread", "view", "permute", "join", "lookup", "fold", "update"))
# Other kinds:
#   source      what comes into the block
#   update      overwrites a part of its first operand, in place
#   opaque      products, convolutions, sorts: reads memory and writes memory
#   collective  the same, over the mesh
#   overwrite   opaque, and writes over its first operand if nobody else reads that
#   barrier     lets everything through at once, so that nothing is fused across it
#   part        one of the results of the node that it reads
#   loop, branch
