"""Liveness: the points at which each buffer is alive, in the order in which a compiler runs a plan's steps.

    point   step                start     last read
    3       dot_general         y
    4       max                 h         y             h may alias y: both have one shape
    5       scan                carry
    6         dot_general       z                       inside the loop, while the carry is alive
    7       dot_general         logits    h

The points of a loop's body come right before that of the loop itself, so that its buffers add to those that are alive
around it. The buffer of a carry is alive from the loop's start to the last use of its result; its next value is written
in place, unless the old one may still be read.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence

from ...engine.collectives.kinds import ALL_REDUCE
from ...engine.planning.step import Step
from .fuse import Cluster, clustered
from .graph import Buffer, Graph, Node, depth_first
from .run_order import behind_collectives, behind_loops, breadth_first, least_memory, sent_by_iterations

Clusters = dict[int, Cluster]
# Kinds with several results, and so a table of their addresses; a loop's has all inputs of an iteration, and a counter.
_TABLES = frozenset(("several", "opaque", "loop", "branch"))
# Kinds that write over their first operand.
_IN_PLACE = frozenset(("carry", "update", "scatter"))


@dataclasses.dataclass(eq=False, slots=True)
class LiveBuffer:
    """One buffer with its lifetime.

    Attributes:
        size: its bytes.
        start: the point at which it is written; 0 for arguments.
        end: the last point at which it is read; for outputs the end.
        output: the position of the output that it is; -1 for the others.
        argument: the position of the argument (or constant) that it is; -1 for the others.
        may_alias: operands whose memory it may reuse, because it reads them last.
        heap_aliases: those of them whose memory it may reuse in the heap: XLA's heap does not see through bitcasts or
            several results, and skips the carries of loops (`HeapSimulator::RunComputation`).
        copied: the buffer whose bytes it repeats; None for most.
        rank: breaks ties of buffers of one size: those inside loops first, then by the order of their first need.
    """

    size: Buffer
    start: int
    end: int
    output: int = -1
    argument: int = -1
    may_alias: tuple[LiveBuffer, ...] = ()
    heap_aliases: tuple[LiveBuffer, ...] = ()
    copied: LiveBuffer | None = None
    rank: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True, eq=False)
class Liveness:
    """The lifetimes of all buffers of a plan.

    Attributes:
        arguments: the buffers of arguments and constants, in order.
        buffers: all other buffers, in the order in which they are written.
        points: for each point in time the step that runs; None for inputs.
        tables: for each node with several results, or loop, the number of addresses in its table.
    """

    arguments: Sequence[LiveBuffer]
    buffers: Sequence[LiveBuffer]
    points: Sequence[Step | None]
    tables: Sequence[int]


def liveness_of(graph: Graph) -> Liveness:
    """Returns the lifetime of each buffer of a plan."""
    clusters = clustered(graph)
    _copy_outputs(graph, clusters)
    walk = _Walk()
    arguments: dict[int, LiveBuffer | None] = {}
    for position, number in enumerate(graph.inputs):
        size = graph.nodes[number].buffer
        assert size is not None
        arguments[number] = LiveBuffer(size, 0, 0, argument=position)
    within = walk.block(graph, clusters, arguments)
    for position, number in enumerate(graph.outputs):
        buffer = within.get(number) if number is not None else None
        if buffer is not None:
            buffer.output, buffer.end = position, len(walk.points)
    return Liveness(
        [buffer for buffer in arguments.values() if buffer is not None], walk.buffers, walk.points, walk.tables
    )


class _Walk:
    """Assigns points to the steps of blocks, one after the other."""

    def __init__(self):
        self.buffers: list[LiveBuffer] = []
        self.points: list[Step | None] = []
        self.tables: list[int] = []
        self.depth = 0
        self.needed: dict[int, float] = {}
        self.clustered: dict[int, Clusters] = {}

    def block(
        self,
        graph: Graph,
        clusters: Clusters,
        within: dict[int, LiveBuffer | None],
        elsewhere: frozenset[int] = frozenset(),
        carries: int | None = None,
    ) -> dict[int, LiveBuffer | None]:
        """Assigns points to the steps of a block.

        Args:
            graph: its nodes.
            clusters: of its nodes.
            within: the buffers of its inputs; those of the other nodes are added.
            elsewhere: nodes whose results are written to buffers of the block around.
            carries: for a loop's body, whose inputs XLA takes in reverse, how many of them are carried.

        Returns:
            The buffer of each node's bytes.
        """
        _carry(graph, clusters)
        needed = depth_first(graph, {number: cluster.reads for number, cluster in clusters.items()})
        position_of = {number: position for position, number in enumerate(needed)}
        first = _inputs_first(graph, needed, is_body=carries is not None)
        order = self.order(graph, {number: clusters[number] for number in first}, needed)
        same, last = _same_bytes(graph, clusters, order, frozenset(graph.inputs[: carries or 0]))
        returned = {same[n] for n in graph.outputs if n is not None}
        carried = {same[start] for number in order for start in graph.nodes[number].starts}
        at: dict[int, int] = {}
        parts = collections.Counter(node.reads[0] for node in graph.nodes if node.kind == "part")
        for index, number in enumerate(order):
            node, cluster = graph.nodes[number], clusters[number]
            for inner in node.inner:
                self.inside(node, inner)
            at[number] = point = len(self.points)
            self.points.append(node.step)
            if node.kind in _TABLES and node.buffer is None:
                self.tables.append(len(node.reads) + 1 if node.kind == "loop" else parts[number])
            for read in cluster.reads:
                buffer = within.get(read)
                if buffer is not None:
                    buffer.end = max(buffer.end, point)
            if same[number] != number:
                within[number] = within.get(same[number])
            elif node.buffer is not None and node.kind != "source" and number not in elsewhere:
                start = at[node.reads[0]] if node.kind == "part" else point
                over = _overwritten(node, cluster)
                ending = (read for read in over if last[same[read]] == index and same[read] not in returned)
                operands = {n: within.get(n) for n in ending if _fits(graph, n, node)}
                rank = (-self.depth, position_of[number])
                buffer = LiveBuffer(node.buffer, start, point, rank=rank)
                buffer.may_alias = tuple(h for h in operands.values() if h is not None)
                buffer.copied = within.get(node.reads[0]) if node.kind == "copy" else None
                if number not in carried:
                    buffer.heap_aliases = tuple(
                        h for n, h in operands.items() if h in buffer.may_alias and _is_own(graph, same, n)
                    )
                within[number] = buffer
                self.buffers.append(buffer)
        return within

    def order(self, graph: Graph, clusters: Clusters, needed: Sequence[int]) -> list[int]:
        """Returns the order in which a block runs."""
        if graph.backend.memory_scheduler:
            return least_memory(graph, clusters, needed, self.needs)[0]
        order = breadth_first(clusters)
        if not graph.backend.asynchronous:
            return order
        return behind_loops(graph, clusters, behind_collectives(graph, clusters, order))

    def needs(self, graph: Graph) -> float:
        """Returns the peak bytes of a loop's body, or of a branch."""
        if id(graph) not in self.needed:
            clusters = self.clustered[id(graph)] = clustered(graph)
            order = depth_first(graph, {number: cluster.reads for number, cluster in clusters.items()})
            self.needed[id(graph)] = least_memory(graph, {n: clusters[n] for n in order}, order, self.needs)[1]
        return self.needed[id(graph)]

    def inside(self, node: Node, inner: Graph):
        """Assigns points to a loop's body, or a branch, whose outputs are written to buffers around it."""
        clusters = self.clustered.pop(id(inner), None) or clustered(inner)
        carries = None
        if node.kind == "loop":
            carries = node.carries if inner is node.inner[0] else 0  # the condition of a loop carries nothing
        if carries:
            self.copy_old(inner, clusters, carries)
        self.depth += 1
        begun = len(self.points)
        self.block(inner, clusters, {}, frozenset(n for n in inner.outputs if n is not None), carries)
        self.depth -= 1
        if carries is not None and inner.backend.asynchronous:
            # What the iteration before has computed is sent meanwhile.
            sent = (inner.nodes[read].buffer for read in sent_by_iterations(inner))
            self.buffers += [LiveBuffer(size, begun, len(self.points)) for size in sent if size is not None]

    def copy_old(self, body: Graph, clusters: Clusters, carries: int):
        """Copies the carries of a loop that may be read after their next value is written in their place.

        XLA's `CopyInsertion` does so before it orders the steps, when independent ones may run in any order; its
        compilers for GPUs and TPUs then take out the copies that their order does not need.
        """
        pairs = _read_later(body, clusters, carries)
        if pairs and body.backend.copies_after_order:
            needed = depth_first(body, {number: cluster.reads for number, cluster in clusters.items()})
            order = self.order(body, {number: clusters[number] for number in needed}, needed)
            same, last = _same_bytes(body, clusters, order)
            at = {number: index for index, number in enumerate(order)}
            pairs = [(old, new) for old, new in pairs if not at[new] >= last[same[old]]]
        for old, _ in pairs:
            _copy(body, clusters, old)


def _fits(graph: Graph, read: int, node: Node) -> bool:
    """Whether a node may be written over an operand: XLA for GPUs compares the sizes, the others the shapes."""
    shape = graph.nodes[read].shape
    return shape == node.shape or (graph.backend.recomputation and math.prod(shape) == math.prod(node.shape))


def _inputs_first(graph: Graph, needed: Sequence[int], *, is_body: bool) -> list[int]:
    """Returns the nodes of a block with its inputs first, which XLA takes in reverse in a loop's body."""
    inputs = [number for number in needed if graph.nodes[number].kind == "source"]
    others = [number for number in needed if graph.nodes[number].kind != "source"]
    return [*(reversed(inputs) if is_body else inputs), *others]


def _same_bytes(
    graph: Graph, clusters: Clusters, order: Sequence[int], carried: frozenset[int] = frozenset()
) -> tuple[dict[int, int], dict[int, int]]:
    """For each node the node whose buffer its result is in, and for each of those the position of its last reader.

    Args:
        graph: the nodes.
        clusters: of the nodes.
        order: in which they run.
        carried: the inputs that the block may write over.
    """
    nodes = graph.nodes
    same: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, number in enumerate(order):
        for read in clusters[number].reads:
            last[read] = index
    for index, number in enumerate(order):
        node, original = nodes[number], number
        first = node.reads[0] if node.reads else -1
        if node.kind == "through":
            original = node.reads[1]
        elif node.kind == "bitcast" and len(clusters[number].inside) == 1:
            original = first
        elif node.kind == "part" and nodes[first].starts:  # of a loop whose carries have buffers (`_carry`)
            original = nodes[first].starts[node.position]
        elif (
            graph.backend.memory_scheduler
            and node.op == ALL_REDUCE.name
            and last[first] == index
            and _fresh(graph, same, first)
        ):
            original = first
        elif node.kind in _IN_PLACE and last[first] == index and (first in carried or _fresh(graph, same, first)):
            original = first
        same[number] = same.get(original, original)
    for index, number in enumerate(order):
        for read in clusters[number].reads:
            last[same[read]] = index
    return same, last


def _fresh(graph: Graph, same: dict[int, int], number: int) -> bool:
    """Whether a node's bytes are a buffer of its own, which others may overwrite."""
    return _is_own(graph, same, number) and graph.nodes[number].kind != "source" and number not in graph.outputs


def _is_own(graph: Graph, same: dict[int, int], number: int) -> bool:
    """Whether a node writes its bytes itself, and nothing else."""
    return same[number] == number and graph.nodes[number].kind != "part"


def _carry(graph: Graph, clusters: Clusters):
    """Gives each loop the buffers that it carries: copies of its initial values, if they have other readers."""
    for number in [n for n in clusters if graph.nodes[n].kind == "loop"]:
        node = graph.nodes[number]
        body, count = node.inner[0], len(node.buffers)
        starts = list(node.reads[:count])
        for position, (start, buffer) in enumerate(zip(starts, node.buffers, strict=True)):
            if position < node.carries and body.outputs[position] == body.inputs[position]:
                continue
            carry = graph.add(Node("carry", (start,), buffer, graph.nodes[start].shape, node.step))
            starts[position] = carry
            clusters[carry] = Cluster((start,), (carry,))
        node.starts = tuple(starts)
        clusters[number] = clusters[number]._replace(reads=tuple(dict.fromkeys((*starts, *node.reads[count:]))))


def _copy_outputs(graph: Graph, clusters: Clusters):
    """Copies each output that is an argument, or another output."""
    returned: set[int] = set()
    for position, number in enumerate(graph.outputs):
        if number is not None and (number in returned or graph.nodes[number].kind == "source"):
            node = graph.nodes[number]
            copy = graph.add(Node("copy", (number,), graph.output_buffers[position], node.shape, node.step))
            clusters[copy] = Cluster((number,), (copy,))
            graph.outputs[position] = copy
        if number is not None:
            returned.add(number)


def _read_later(body: Graph, clusters: Clusters, carries: int) -> list[tuple[int, int]]:
    """The carries of a loop, each with its next value, of which a reader may run after that value is written."""
    dependencies: dict[int, int] = {}
    users: dict[int, list[int]] = {}
    for number, cluster in clusters.items():
        bits = 1 << number
        for read in cluster.reads:
            bits |= dependencies.get(read, 1 << read)
            users.setdefault(read, []).append(number)
        dependencies[number] = bits
    pairs = []
    for old, new in zip(body.inputs[:carries], body.outputs[:carries], strict=True):
        if new is None or new == old:
            continue
        over = _overwritten(body.nodes[new], clusters[new])
        if not all(dependencies[new] >> n & 1 and (n != new or old in over) for n in users.get(old, ())):
            pairs.append((old, new))
    return pairs


def _copy(body: Graph, clusters: Clusters, old: int):
    """Copies a carry, for all its readers."""
    node = body.nodes[old]
    copy = body.add(Node("copy", (old,), node.buffer, node.shape, None))
    for n, cluster in list(clusters.items()):
        if old in cluster.reads:
            reads, aligned = ([copy if r == old else r for r in of] for of in (cluster.reads, cluster.aligned))
            clusters[n] = cluster._replace(reads=tuple(reads), aligned=frozenset(aligned))
    clusters[copy] = Cluster((old,), (copy,), users=clusters[old].users)


def _overwritten(node: Node, cluster: Cluster) -> frozenset[int]:
    """The operands in whose place a node can write its result, if they have no later reader."""
    return frozenset(node.reads[:1]) if node.kind in _IN_PLACE else cluster.aligned
