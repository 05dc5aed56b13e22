"""Which buffer is alive when, in the order in which a compiler runs a plan's steps; sizes play no part in it.

    point   step                begins    last read
    3       dot_general         y
    4       max                 h         y             y is overwritten by h: both are of one shape
    5       while               carry
    6         dot_general       z                       inside the loop, while the carry is alive
    7       dot_general         logits    h

A loop's body lies between the points before it and that of the loop itself, so that what is alive inside adds to what
is alive around it. What a loop carries is alive from the start to the last use of its result.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from .clusters import Cluster, clustered
from .nodes import Buffer, Graph, Node

Clusters = dict[int, Cluster]
Place = tuple[int, ...]


@dataclasses.dataclass(eq=False, slots=True)
class Held:
    """One buffer beside the arguments.

    Attributes:
        buffer: how large it is.
        begin: the point at which it is made.
        end: the last point at which it is read; that of what writes over it does not count.
        place: the positions of the step that makes it, from the outermost block in.
        output: the position of the output that it is; -1 for the others.
        over: those that it may be written over, each where it is read for the last time.
    """

    buffer: Buffer
    begin: int
    end: int
    place: Place
    output: int = -1
    over: tuple[Held, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Live:
    """When all buffers of a plan beside its arguments are alive.

    Attributes:
        held: the buffers.
        points: for each point in time the positions of its step, from the outermost block in.
    """

    held: Sequence[Held]
    points: Sequence[Place]


def live(graph: Graph) -> Live:
    """Finds when each buffer of a plan is alive."""
    found = clustered(graph)
    _copy_outputs(graph, found)
    walk = _Walk()
    within = walk.block(graph, found, ())
    for position, number in enumerate(graph.outputs):
        held = within.get(number) if number is not None else None
        if held is not None:
            held.output, held.end = position, len(walk.points)
    return Live(walk.held, walk.points)


def breadth_first(found: Clusters) -> list[int]:
    """The order in which XLA for CPUs runs nodes: each as soon as all that it reads is there (`BFScheduler`)."""
    missing = {number: len(cluster.reads) for number, cluster in found.items()}
    users: dict[int, list[int]] = {number: [] for number in found}
    for number, cluster in found.items():
        for read in cluster.reads:
            users[read].append(number)
    queue = collections.deque(number for number, count in missing.items() if not count)
    order = []
    while queue:
        number = queue.popleft()
        order.append(number)
        for user in users[number]:
            missing[user] -= 1
            if not missing[user]:
                queue.append(user)
    return order


class _Walk:
    """Lays blocks on points, one after the other."""

    def __init__(self):
        self.held: list[Held] = []
        self.points: list[Place] = []

    def block(self, graph: Graph, found: Clusters, around: Place, elsewhere: frozenset[int] = frozenset()):
        """Lays a block on the points.

        Args:
            graph: its nodes.
            found: those that are stored.
            around: the positions of the steps around it.
            elsewhere: nodes whose results are written to buffers of the block around.

        Returns:
            The buffer that each node's bytes are in.
        """
        _carry(graph, found)
        order = breadth_first(found)
        same = _same_bytes(graph, found, order)
        last: dict[int, int] = {}
        for index, number in enumerate(order):
            for read in found[number].reads:
                last[same[read]] = index
        kept = {same[n] for n in graph.outputs if n is not None}
        within: dict[int, Held | None] = {}
        at: dict[int, int] = {}
        for index, number in enumerate(order):
            node, cluster = graph.nodes[number], found[number]
            place = (*around, node.step)
            for inner in node.inner:
                self.inside(node, inner, place)
            at[number] = point = len(self.points)
            self.points.append(place)
            for read in cluster.reads:
                held = within.get(read)
                if held is not None:
                    held.end = max(held.end, point)
            if same[number] != number:
                within[number] = within.get(same[number])
            elif node.buffer is not None and node.kind != "source" and number not in elsewhere:
                begin = at[node.reads[0]] if node.kind == "part" else point
                within[number] = held = Held(node.buffer, begin, point, place)
                self.held.append(held)
                self.write_over(graph, cluster, held, same, within, last, index, kept)
        return within

    def write_over(self, graph, cluster, held, same, within, last, index, kept):
        """What is read element by element, for the last time, may be written over by a result of its shape."""
        shape = graph.nodes[cluster.inside[0]].shape
        held.over = tuple(
            over
            for read in cluster.aligned
            if (over := within.get(read)) is not None
            and last[same[read]] == index
            and same[read] not in kept
            and graph.nodes[read].shape == shape
        )

    def inside(self, node: Node, inner: Graph, place: Place):
        """A turn of a loop, or a branch: what it returns is written to buffers around it."""
        found = clustered(inner)
        if node.kind == "loop":
            _copy_old(inner, found, node.carries)
        returned = frozenset(n for n in inner.outputs if n is not None)
        self.block(inner, found, place, returned)


def _same_bytes(graph: Graph, found: Clusters, order: Sequence[int]) -> dict[int, int]:
    """For each node the one whose buffer its result is in."""
    nodes = graph.nodes
    same: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, number in enumerate(order):
        for read in found[number].reads:
            last[read] = index
    for index, number in enumerate(order):
        node, original = nodes[number], number
        if node.kind == "through":
            original = node.reads[1]
        elif node.kind == "view" and len(found[number].inside) == 1:
            original = node.reads[0]
        elif node.kind == "part" and nodes[node.reads[0]].kind == "loop":
            original = graph.nodes[node.reads[0]].starts[node.carries]
        elif node.kind == "carry" and last[node.reads[0]] == index and _fresh(graph, same, node.reads[0]):
            original = node.reads[0]
        elif node.kind in ("update", "overwrite") and last[node.reads[0]] == index:
            original = node.reads[0] if _fresh(graph, same, node.reads[0]) else number
        same[number] = same.get(original, original)
    return same


def _fresh(graph: Graph, same: dict[int, int], number: int) -> bool:
    """Whether a node's bytes are a buffer of its own, which may be written over."""
    return same[number] == number and graph.nodes[number].kind not in ("source", "part") and number not in graph.outputs


def _carry(graph: Graph, found: Clusters):
    """Gives each loop the buffers that it carries: copies of what it starts from, if others read that as well."""
    for number in [n for n in found if graph.nodes[n].kind == "loop"]:
        node, body = graph.nodes[number], graph.nodes[number].inner[0]
        reads = node.reads[len(body.outputs) :]
        starts = list(node.reads[: len(body.outputs)])
        for position, (start, made) in enumerate(zip(starts, body.outputs, strict=True)):
            if position < node.carries and made == body.inputs[position]:
                continue
            carry = Node("carry", (start,), _buffer_of(graph, number, position), graph.nodes[start].shape, node.step)
            starts[position] = graph.add(carry)
            found[starts[position]] = Cluster((start,), (starts[position],))
        node.starts = tuple(starts)
        found[number] = Cluster(tuple(dict.fromkeys((*starts, *reads))), (number,))


def _buffer_of(graph: Graph, loop: int, position: int) -> Buffer | None:
    parts = graph.nodes[loop].parts
    return graph.nodes[parts[position]].buffer


def _copy_outputs(graph: Graph, found: Clusters):
    """An output that is an argument, or another output, is a copy."""
    taken: set[int] = set()
    for position, number in enumerate(graph.outputs):
        if number is None:
            continue
        if number in taken or graph.nodes[number].kind == "source":
            node = graph.nodes[number]
            copy = graph.add(Node("copy", (number,), graph.kept[position], node.shape, node.step))
            found[copy] = Cluster((number,), (copy,))
            graph.outputs[position] = copy
        taken.add(number)


def _copy_old(body: Graph, found: Clusters, carries: int):
    """Copies what a loop carries, where something may read it after its next value is written over it.

    XLA's `CopyInsertion` does so before it orders the steps: what does not wait for one another may run in any order.
    """
    before: dict[int, int] = {}
    for number in found:
        bits = 1 << number
        for read in found[number].reads:
            bits |= before.get(read, 1 << read)
        before[number] = bits
    for position in range(carries):
        old, made = body.inputs[position], body.outputs[position]
        if made is None or made == old:
            continue
        users = [n for n in found if old in found[n].reads]
        safe = all(before.get(made, 0) >> n & 1 and (n != made or old in found[n].aligned) for n in users)
        if safe:
            continue
        node = body.nodes[old]
        copy = body.add(Node("copy", (old,), node.buffer, node.shape, -1))
        for n in users:
            cluster = found[n]
            reads = tuple(copy if r == old else r for r in cluster.reads)
            aligned = frozenset(copy if r == old else r for r in cluster.aligned)
            found[n] = Cluster(reads, cluster.inside, aligned)
        found[copy] = Cluster((old,), (copy,))
