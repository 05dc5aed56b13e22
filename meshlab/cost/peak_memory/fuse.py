"""Fuses nodes into clusters, as XLA does: a cluster is stored, and computes the nodes inside it where they are read.

    mul → add → matmul       mul is computed inside add, whose result is stored: the matmul reads it from memory
    mul → add, mul → matmul  mul is stored for the matmul; add computes it again, if that is cheap

XLA for TPUs fuses matmuls with their operands, and with the elementwise nodes that only read them.

This follows XLA's instruction fusion, as its compilers for CPUs and GPUs run it (openxla/xla, `InstructionFusion`,
`CpuInstructionFusion`): from the last node to the first, every stored node fuses its operands, and theirs, as long as

- both can be computed element by element (`graph.FUSED`);
- the operand is not expensive, or each of its elements is read once;
- it is read once, or reads no more memory than it saves, or all its readers can compute it, on every path.
"""

from __future__ import annotations

import collections
import heapq
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...engine.rules import names_where
from .graph import FUSED, FUSES, Graph, Node, ancestors, topological
from .translate import LEAST_ELEMENTS

# The most reductions of one kernel, and operands of a concatenation (`CpuInstructionFusion::ShouldFuse`); the most
# times that an element is computed for one of the result (`FusionNodeIndexingEvaluation::CodeDuplicationTooHigh`).
_MOST_REDUCTIONS, _MOST_CONCATENATED, _MOST_TIMES = 6, 8, 15
# Kinds that are computed by loops or branches of their own, which nothing else shares (`OpInvalidatesCache`).
_BRANCHING = frozenset(("concatenate", "reduce"))
# Primitives that a library for reductions fuses (`YnnMatcher`).
_LIBRARY = names_where(lambda traits: traits.library)


class Cluster(NamedTuple):
    """One stored node, with the nodes that are computed inside it.

    Attributes:
        reads: the nodes that it reads from memory, by number.
        inside: the nodes that are computed inside it, itself included.
        aligned: the reads whose elements it reads at the position where it writes.
        users: the stored nodes that read it, in the order in which XLA lists them.
    """

    reads: tuple[int, ...]
    inside: tuple[int, ...]
    aligned: frozenset[int] = frozenset()
    users: tuple[int, ...] = ()


def clustered(graph: Graph) -> dict[int, Cluster]:
    """Returns the clusters of a graph: the nodes that are stored, or do more than compute, by number."""
    return _Clustering(graph).run()


class _Clustering:
    def __init__(self, graph: Graph):
        self.graph, self.nodes = graph, graph.nodes
        self.order = topological(graph)
        self.rank = [0] * len(self.nodes)
        for rank, number in enumerate(self.order):
            self.rank[number] = rank
        self.users: list[list[int]] = [[] for _ in self.nodes]
        # XLA lists users in the order of their creation, and creates combined all-reduces last.
        for number in dict.fromkeys((*graph.before, *self.order)):
            for read in dict.fromkeys(self.nodes[number].reads):
                self.users[read].append(number)
        self.returned = {n for n in graph.outputs if n is not None}
        self._ancestors: list[int] | None = None
        self.paths: dict[tuple[int, int], bool] = {}
        self.single: set[int] = set()
        self.taken: set[int] = set()
        self.stored: set[int] = set()
        self.library_of: dict[int, Cluster] = {}

    # Libraries

    def libraries(self):
        """Clusters large reductions with their neighbours: XLA for CPUs gives them to a library, before it fuses.

        (openxla/xla, `LibraryRewriter` with YNNPACK.) The library fuses nodes that only it reads, and its only reader.
        """
        shared = collections.Counter(
            (value, node.shape) for node in self.nodes for value in set(node.literals) if node.shape
        )
        for number in reversed(self.order):
            node = self.nodes[number]
            if number in self.taken or node.kind != "reduce" or str(node.dtype) != "float32" or not node.reads:
                continue
            if node.op not in _LIBRARY or math.prod(self.nodes[node.reads[0]].shape) < LEAST_ELEMENTS:
                continue
            self.add_library(number, shared)

    def add_library(self, reduction: int, shared: Mapping[tuple, int]):
        inside, root = {reduction}, reduction
        while True:
            grown = len(inside)
            waiting = [r for n in inside for r in self.nodes[n].reads]
            while waiting:
                read = waiting.pop()
                if read in inside or read in self.returned or not self.in_library(read):
                    continue
                if all(user in inside for user in self.users[read]):
                    inside.add(read)
                    waiting += self.nodes[read].reads
            users = self.users[root]
            while root not in self.returned and len(users) == 1 and self.in_library(users[0]):
                root = users[0]
                inside.add(root)
                users = self.users[root]
            if len(inside) == grown:
                break
        reads = dict.fromkeys(r for n in sorted(inside) for r in self.nodes[n].reads if r not in inside)
        for number in sorted(inside):
            node = self.nodes[number]
            for value in set(node.literals):
                mine = sum(value in self.nodes[n].literals and self.nodes[n].shape == node.shape for n in inside)
                if node.kind == "elementwise" and shared[value, node.shape] > mine:
                    # A scalar that is broadcast for other nodes, too, is broadcast in memory.
                    stored = self.broadcast(value, node)
                    reads[stored] = None
                    self.stored.add(stored)
        self.taken |= inside
        self.library_of[root] = Cluster(tuple(reads), (root, *(inside - {root})))

    def in_library(self, number: int) -> bool:
        node = self.nodes[number]
        if number in self.taken:
            return False
        if node.kind in ("broadcast", "bitcast"):
            return True
        if node.kind == "constant":
            return node.op != "iota"
        large = math.prod(node.shape) >= LEAST_ELEMENTS
        return node.kind == "elementwise" and large and node.op in _LIBRARY and str(node.dtype) == "float32"

    def broadcast(self, value: float, node: Node) -> int:
        """Returns the node of a scalar that is broadcast to all elements."""
        for number, other in enumerate(self.nodes):
            if other.kind == "constant" and other.literals == (value,) and other.shape == node.shape:
                return number
        constant = Node("constant", (), node.buffer, node.shape, node.step)
        constant.literals = (value,)
        number = self.graph.add(constant)
        self.users.append([])
        self.rank.append(-number)
        self.order.insert(0, number)
        return number

    def run(self) -> dict[int, Cluster]:
        if self.graph.backend.library_rewriter:
            self.libraries()
        self.list_users()
        needed = [False] * len(self.nodes)
        for number in self.returned | self.stored:
            needed[number] = True
        clusters: dict[int, Cluster] = {}
        self.decide()
        for number in reversed(self.order):
            node = self.nodes[number]
            if not needed[number] and node.kind not in ("loop", "source"):
                continue
            if number in self.library_of:
                cluster = self.library_of[number]
            elif node.kind in FUSES:
                cluster = self.cluster(number)
            else:
                cluster = Cluster(tuple(dict.fromkeys(node.reads)), (number,))
            clusters[number] = cluster
            for read in cluster.reads:
                needed[read] = True
        return {n: clusters[n]._replace(users=tuple(self.now[n])) for n in self.order if n in clusters}

    def list_users(self):
        """Lists the current users of each node, in XLA's order; an output has one more."""
        self.now = [list(users) for users in self.users]
        for number in self.returned:
            self.now[number].append(-1)
        for root, cluster in self.library_of.items():
            for number in cluster.inside:
                for read in self.nodes[number].reads:
                    _add(self.now[read], root)
                    if number != root:
                        _remove(self.now[read], number)

    def cluster(self, root: int) -> Cluster:
        """Returns the cluster of a node: fuses its operands, and theirs, the last first."""
        growing = _GrowingCluster(self.nodes, root, self.graph.backend.matmul_fusion)
        waiting = [(-self.rank[read], read) for read in growing.enter(root, True)]
        heapq.heapify(waiting)
        while waiting:
            _, number = heapq.heappop(waiting)
            is_stored = number in self.taken or number in self.single
            if is_stored or not growing.takes(number, len(self.now[number])):
                growing.reads.append(number)
                continue
            self.move_in(number, root)
            for read in growing.enter(number, growing.aligned[number]):
                heapq.heappush(waiting, (-self.rank[read], read))
        aligned = frozenset(r for r in growing.reads if growing.aligned[r])
        return Cluster(tuple(growing.reads), tuple(growing.inside), aligned)

    def move_in(self, number: int, root: int):
        """Updates the users, when a node is computed inside another."""
        now = self.now
        _remove(now[number], root)
        for read in self.nodes[number].reads:
            _add(now[read], root)
            if not now[number]:
                _remove(now[read], number)

    # Nodes that are computed once

    def decide(self):
        """Marks the nodes that are computed once: they read more than they write, and some user cannot compute them."""
        if self.graph.backend.matmul_fusion:
            self.follow()
        for number in reversed(self.order):
            node = self.nodes[number]
            users = self.users[number]
            if number in self.taken or node.kind not in FUSED or (len(users) + (number in self.returned)) < 2:
                continue
            if _reads_one(node, self.nodes) or self.reads_less(node):
                continue
            if number in self.returned or not all(self.fuses_on_all_paths(number, user) for user in users):
                self.single.add(number)

    def follow(self):
        """Marks the elementwise nodes that are computed behind one matmul, rather than in front of another.

        Those are the nodes with one user each, from a matmul to the operand of another.
        """
        following: set[int] = set()
        for number in self.order:
            node, users = self.nodes[number], self.users[number]
            if len(users) != 1 or number in self.returned:
                continue
            if node.kind == "matmul" or (node.kind == "elementwise" and not following.isdisjoint(node.reads)):
                following.add(number)
                if node.kind == "elementwise" and self.nodes[users[0]].kind == "matmul":
                    self.single.add(number)

    def reads_less(self, node: Node) -> bool:
        total = sum(math.prod(self.nodes[r].shape) for r in set(node.reads))
        return total <= math.prod(node.shape)

    def fusible(self, user: int, read: int) -> bool:
        reader, node = self.nodes[user], self.nodes[read]
        if user in self.taken or read in self.taken:
            return False
        costly = node.expensive and reader.reused and not self.graph.backend.matmul_fusion
        return reader.kind in FUSES and node.kind in FUSED and not costly

    def fuses_on_all_paths(self, producer: int, user: int) -> bool:
        if producer == user:
            return True
        key = (producer, user)
        if key in self.paths:
            return self.paths[key]
        if self._ancestors is None:
            self._ancestors = ancestors(self.graph, self.order)
        fuses = self.nodes[user].kind in FUSES and all(
            read not in self.single and self.fusible(user, read) and self.fuses_on_all_paths(producer, read)
            for read in self.nodes[user].reads
            if self._ancestors[read] >> producer & 1
        )
        self.paths[key] = fuses
        return fuses


class _GrowingCluster:
    """A cluster that grows by the operands of its nodes.

    Attributes:
        inside: the nodes that are computed inside it, its root included.
        reads: the nodes that it reads from memory.
        aligned: for its reads and the nodes inside, whether their elements are read at the position where it writes.
        matmul_fusion: whether it fuses all that it can, with one matmul among it.
    """

    def __init__(self, nodes: Sequence[Node], root: int, matmul_fusion: bool):
        self.nodes, self.root, self.matmul_fusion = nodes, nodes[root], matmul_fusion
        self.inside: list[int] = []
        self.reads: list[int] = []
        self.aligned: dict[int, bool] = {}
        self.reused: set[int] = set()
        self.reductions = self.matmuls = 0
        # The number of nodes inside that read each node.
        self.readers: collections.Counter[int] = collections.Counter()
        # For each node those that index its elements in their own way, and how often it is computed for one element of
        # the root.
        self.askers: dict[int, set[int]] = {root: {-1}}
        self.times: dict[int, int] = {-1: 1}

    def enter(self, number: int, straight: bool) -> list[int]:
        """Adds a node; returns its operands that were not read before."""
        node, new = self.nodes[number], []
        self.inside.append(number)
        self.reductions += node.kind == "reduce"
        self.matmuls += node.kind == "matmul"
        askers = self.askers[number]
        self.times[number] = sum(self.times[asker] for asker in askers)
        reuses, straight = node.reused or number in self.reused, straight and node.kind == "elementwise"
        for read in node.reads:
            if reuses:
                self.reused.add(read)
            self.readers[read] += 1
            if read not in self.aligned:
                new.append(read)
            self.aligned[read] = self.aligned.get(read, True) and straight
            if self.nodes[read].kind in FUSED:
                indexers = self.askers.setdefault(read, set())
                # A reader of the same position passes its own indices on.
                indexers.update(askers if self.nodes[read].shape == node.shape else (number,))
        return new

    def takes(self, number: int, readers: int) -> bool:
        """Whether a node with a number of readers may be computed inside."""
        node, root = self.nodes[number], self.root
        if node.kind not in FUSED or (root.kind == "update" and number == root.reads[0]):
            return False
        if self.matmul_fusion:
            if node.kind == "reduce":
                return False
            if node.kind == "matmul":
                return readers == 1 and self.matmuls == 0 and number not in self.reused
        elif node.expensive and (number in self.reused or readers > 1):
            return False
        if node.kind == "reduce" and self.reductions >= _MOST_REDUCTIONS:
            return False
        if any(one.kind == "concatenate" and len(one.reads) > _MOST_CONCATENATED for one in (node, root)):
            return False
        if len(self.inside) == 1 or node.kind == "broadcast":
            return True
        times = sum(self.times[asker] for asker in self.askers[number])
        if node.kind in _BRANCHING or node.op == "pad":
            return times == 1 and readers == 1 and self.readers[number] == 1
        return times <= _MOST_TIMES


def _add(users: list[int], user: int):
    """Appends a user, if it is not listed."""
    if user not in users:
        users.append(user)


def _remove(users: list[int], user: int):
    """Removes a user, and puts the last into its place, as XLA does (`HloInstruction::Users`)."""
    if user in users:
        users[users.index(user)] = users[-1]
        users.pop()


def _reads_one(node: Node, nodes: Sequence[Node]) -> bool:
    """Whether at most one operand of a node has the rank of its result."""
    rank = _rank(node.shape)
    large = [r for r in node.reads if nodes[r].kind not in ("broadcast", "constant") and _rank(nodes[r].shape) >= rank]
    return len(large) <= 1


def _rank(shape: tuple[int, ...]) -> int:
    return sum(size != 1 for size in shape)
