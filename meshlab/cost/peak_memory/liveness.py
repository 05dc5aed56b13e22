"""Which buffer is alive when, in the order in which a compiler runs a plan's steps.

    point   step                begins    last read
    3       dot_general         y
    4       max                 h         y             y may be written over by h: both are of one shape
    5       scan                carry
    6         dot_general       z                       inside the loop, while the carry is alive
    7       dot_general         logits    h

A loop's body lies between the points before it and that of the loop itself, so that what is alive inside adds to what
is alive around it. What a loop carries is alive from its start to the last use of its result, and a new value is
written over the old one, unless something may still read that.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from ...engine.planning.steps import Step
from .fuse import Cluster, clustered
from .graph import Buffer, Graph, Node, depth_first
from .order import breadth_first, least_memory

Clusters = dict[int, Cluster]
# What makes several arrays, and so a table of their addresses; a loop's is of all that goes into a turn, and a counter.
_TABLES = frozenset(("several", "opaque", "loop", "branch"))


@dataclasses.dataclass(eq=False, slots=True)
class Held:
    """One buffer.

    Attributes:
        buffer: how large it is.
        begin: the point at which it is made; 0 for arguments.
        end: the last point at which it is read; for outputs the end.
        output: the position of the output that it is; -1 for the others.
        argument: the position of the argument (or constant) that it is; -1 for the others.
        over: those that it may be written over, each where it is read for the last time.
        after: those of them that it is written over in the heap: XLA's heap does not look through other shapes, or
            through what makes several arrays, and lets alone what a loop carries (`HeapSimulator::RunComputation`).
        rank: tells buffers of one size apart: those inside loops first, then by what needs them first.
    """

    buffer: Buffer
    begin: int
    end: int
    output: int = -1
    argument: int = -1
    over: tuple[Held, ...] = ()
    after: tuple[Held, ...] = ()
    rank: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True, eq=False)
class Live:
    """When all buffers of a plan are alive.

    Attributes:
        arguments: the buffers of arguments and constants, in order.
        held: all other buffers, in the order in which they are made.
        points: for each point in time the step that runs; None for what comes in.
        tables: for each node with several results, or loop, of how many arrays it holds the addresses.
    """

    arguments: Sequence[Held]
    held: Sequence[Held]
    points: Sequence[Step | None]
    tables: Sequence[int]


def live(graph: Graph) -> Live:
    """Finds when each buffer of a plan is alive."""
    found = clustered(graph)
    _copy_outputs(graph, found)
    walk = _Walk()
    arguments: dict[int, Held | None] = {}
    for position, number in enumerate(graph.inputs):
        buffer = graph.nodes[number].buffer
        assert buffer is not None
        arguments[number] = Held(buffer, 0, 0, argument=position)
    within = walk.block(graph, found, arguments)
    for position, number in enumerate(graph.outputs):
        held = within.get(number) if number is not None else None
        if held is not None:
            held.output, held.end = position, len(walk.points)
    return Live([held for held in arguments.values() if held is not None], walk.held, walk.points, walk.tables)


class _Walk:
    """Lays blocks on points, one after the other."""

    def __init__(self):
        self.held: list[Held] = []
        self.points: list[Step | None] = []
        self.tables: list[int] = []
        self.depth = 0
        self.needed: dict[int, float] = {}

    def block(
        self,
        graph: Graph,
        found: Clusters,
        within: dict[int, Held | None],
        elsewhere: frozenset[int] = frozenset(),
        is_turn: bool = False,
    ) -> dict[int, Held | None]:
        """Lays a block on the points.

        Args:
            graph: its nodes.
            found: those that are stored.
            within: the buffers that its inputs are in; those of the others are added.
            elsewhere: nodes whose results are written to buffers of the block around.
            is_turn: whether it is a loop's turn, to which XLA hands what comes in the last first.

        Returns:
            The buffer that each node's bytes are in.
        """
        _carry(graph, found)
        needed = depth_first(graph, {number: cluster.reads for number, cluster in found.items()})
        place = {number: position for position, number in enumerate(needed)}
        sources = [number for number in needed if graph.nodes[number].kind == "source"]
        others = [number for number in needed if graph.nodes[number].kind != "source"]
        first = (*(reversed(sources) if is_turn else sources), *others)
        order = self.order(graph, {number: found[number] for number in first}, needed)
        same, last = _same_bytes(graph, found, order)
        kept = {same[n] for n in graph.outputs if n is not None}
        carried = {same[start] for number in order for start in graph.nodes[number].starts}
        at: dict[int, int] = {}
        parts = collections.Counter(node.reads[0] for node in graph.nodes if node.kind == "part")
        for index, number in enumerate(order):
            node, cluster = graph.nodes[number], found[number]
            for inner in node.inner:
                self.inside(node, inner)
            at[number] = point = len(self.points)
            self.points.append(node.step)
            if node.kind in _TABLES and node.buffer is None:
                self.tables.append(len(node.reads) + 1 if node.kind == "loop" else parts[number])
            for read in cluster.reads:
                held = within.get(read)
                if held is not None:
                    held.end = max(held.end, point)
            if same[number] != number:
                within[number] = within.get(same[number])
            elif node.buffer is not None and node.kind != "source" and number not in elsewhere:
                begin = at[node.reads[0]] if node.kind == "part" else point
                ending = (read for read in cluster.aligned if last[same[read]] == index and same[read] not in kept)
                over = {n: within.get(n) for n in ending if graph.nodes[n].shape == node.shape}
                rank = (-self.depth, place[number])
                held = Held(node.buffer, begin, point, rank=rank)
                held.over = tuple(h for h in over.values() if h is not None)
                if number not in carried:
                    held.after = tuple(h for n, h in over.items() if h in held.over and _is_own(graph, same, n))
                within[number] = held
                self.held.append(held)
        return within

    def order(self, graph: Graph, found: Clusters, needed: Sequence[int]) -> list[int]:
        """The order in which a block runs."""
        if not graph.backend.thrifty:
            return breadth_first(found)
        return least_memory(graph, found, needed, self.needs)[0]

    def needs(self, graph: Graph) -> float:
        """The bytes that a turn of a loop, or a branch, needs."""
        if id(graph) not in self.needed:
            found = clustered(graph)
            order = depth_first(graph, {number: cluster.reads for number, cluster in found.items()})
            self.needed[id(graph)] = least_memory(graph, {n: found[n] for n in order}, order, self.needs)[1]
        return self.needed[id(graph)]

    def inside(self, node: Node, inner: Graph):
        """A turn of a loop, or a branch: what it returns is written to buffers around it."""
        found = clustered(inner)
        if node.kind == "loop" and inner is node.inner[0]:  # the test of a loop writes over nothing
            _copy_old(inner, found, node.carries)
        self.depth += 1
        self.block(inner, found, {}, frozenset(n for n in inner.outputs if n is not None), node.kind == "loop")
        self.depth -= 1


def _same_bytes(graph: Graph, found: Clusters, order: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
    """For each node the one whose buffer its result is in, and for each of those where it is read last."""
    nodes = graph.nodes
    same: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, number in enumerate(order):
        for read in found[number].reads:
            last[read] = index
    for index, number in enumerate(order):
        node, original = nodes[number], number
        first = node.reads[0] if node.reads else -1
        if node.kind == "through":
            original = node.reads[1]
        elif node.kind == "view" and len(found[number].inside) == 1:
            original = first
        elif node.kind == "part" and nodes[first].kind == "loop":
            original = nodes[first].starts[node.place]
        elif graph.backend.thrifty and node.op == "all-reduce" and last[first] == index and _fresh(graph, same, first):
            original = first
        elif node.kind in ("carry", "update", "overwrite") and last[first] == index and _fresh(graph, same, first):
            original = first
        same[number] = same.get(original, original)
    for index, number in enumerate(order):
        for read in found[number].reads:
            last[same[read]] = index
    return same, last


def _fresh(graph: Graph, same: dict[int, int], number: int) -> bool:
    """Whether a node's bytes are a buffer of its own, which may be written over."""
    return _is_own(graph, same, number) and graph.nodes[number].kind != "source" and number not in graph.outputs


def _is_own(graph: Graph, same: dict[int, int], number: int) -> bool:
    """Whether a node is the one that makes the bytes that it stands for, and makes nothing else."""
    return same[number] == number and graph.nodes[number].kind != "part"


def _carry(graph: Graph, found: Clusters):
    """Gives each loop the buffers that it carries: copies of what it starts from, if others read that as well."""
    for number in [n for n in found if graph.nodes[n].kind == "loop"]:
        node = graph.nodes[number]
        body, count = node.inner[0], len(node.buffers)
        starts = list(node.reads[:count])
        for position, (start, buffer) in enumerate(zip(starts, node.buffers, strict=True)):
            if position < node.carries and body.outputs[position] == body.inputs[position]:
                continue
            carry = graph.add(Node("carry", (start,), buffer, graph.nodes[start].shape, node.step))
            starts[position] = carry
            found[carry] = Cluster((start,), (carry,))
        node.starts = tuple(starts)
        found[number] = found[number]._replace(reads=tuple(dict.fromkeys((*starts, *node.reads[count:]))))


def _copy_outputs(graph: Graph, found: Clusters):
    """An output that is an argument, or another output, is a copy."""
    taken: set[int] = set()
    for position, number in enumerate(graph.outputs):
        if number is not None and (number in taken or graph.nodes[number].kind == "source"):
            node = graph.nodes[number]
            copy = graph.add(Node("copy", (number,), graph.kept[position], node.shape, node.step))
            found[copy] = Cluster((number,), (copy,))
            graph.outputs[position] = copy
        if number is not None:
            taken.add(number)


def _copy_old(body: Graph, found: Clusters, carries: int):
    """Copies what a loop carries, where something may read it after its next value is written over it.

    XLA's `CopyInsertion` does so before it orders the steps: what does not wait for one another may run in any order.
    """
    before: dict[int, int] = {}
    users: dict[int, list[int]] = {}
    for number, cluster in found.items():
        bits = 1 << number
        for read in cluster.reads:
            bits |= before.get(read, 1 << read)
            users.setdefault(read, []).append(number)
        before[number] = bits
    for old, made in zip(body.inputs[:carries], body.outputs[:carries], strict=True):
        if made is None or made == old:
            continue
        waits = before.get(made, 0)
        if all(waits >> n & 1 and (n != made or old in found[n].aligned) for n in users.get(old, ())):
            continue
        node = body.nodes[old]
        copy = body.add(Node("copy", (old,), node.buffer, node.shape, None))
        for n in users.get(old, ()):
            reads, aligned = ([copy if r == old else r for r in of] for of in (found[n].reads, found[n].aligned))
            found[n] = found[n]._replace(reads=tuple(reads), aligned=frozenset(aligned))
        found[copy] = Cluster((old,), (copy,), users=found[old].users)
