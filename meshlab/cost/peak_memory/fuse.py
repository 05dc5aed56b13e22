"""Fuses nodes into clusters, as XLA does: a cluster is stored, and computes the nodes inside it where they are read.

    mul → add → matmul       mul is computed inside add, whose result is stored: the matmul reads it from memory
    mul → add, mul → matmul  mul is stored for the matmul; add computes it again, if that is cheap

XLA for TPUs fuses matmuls with their operands, and with the elementwise nodes that only read them.

This follows XLA's instruction fusion, as its compilers for CPUs and GPUs run it (openxla/xla, `InstructionFusion`,
`CpuInstructionFusion`): from the last node to the first, every stored node fuses its operands, and theirs, as long as

- both can be computed element by element (`graph.FUSED`);
- the operand is not expensive, or each of its elements is read once (on GPUs: once in each reader);
- it is read once, or reads no more memory than it saves, or all its readers can compute it, on every path.

    InstructionFusion::Run                         cluster
    InstructionFusion::ComputeGloballyUnfusible    mark_computed_once
    InstructionFusion::CanFuseOnAllPaths           fuses_on_all_paths
    InstructionFusion::EffectivelyAtMostUnary      _reads_one
    CpuInstructionFusion::ShouldFuse               takes
    FusionNodeIndexingEvaluation                   _GrowingCluster.evaluations, indexers
    LibraryRewriter::FuseNeighbors                 fuse_libraries
"""

from __future__ import annotations

import collections
import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

from .backends import Backend
from .fuse_libraries import LibraryCall, library_calls
from .graph import FUSED, FUSES, Graph, Node, ancestors, topological

# The most reductions of one kernel, and operands of a concatenation (`CpuInstructionFusion::ShouldFuse`); the most
# times that an element is computed for one of the result (`FusionNodeIndexingEvaluation::CodeDuplicationTooHigh`).
_MOST_REDUCTIONS, _MOST_CONCATENATED, _MOST_EVALUATIONS = 6, 8, 15
# Kinds that are computed by loops or branches of their own, which nothing else shares (`OpInvalidatesCache`).
_BRANCHING = frozenset(("concatenate", "reduce"))


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
    """Clusters the nodes of one graph.

    Attributes:
        order: the nodes, each after its operands; `rank` is the place of each in it.
        users: the nodes that read each node, before anything is fused.
        readers_now: the clusters that read each node by now; -1 is the caller, who reads the outputs.
        returned: the outputs.
        computed_once: the nodes that are stored, since computing them in each reader would read more memory.
        calls: what a library computes, by the node that each call stores; `in_libraries` are the nodes inside.
        paths: what `fuses_on_all_paths` found.
    """

    def __init__(self, graph: Graph):
        self.graph, self.nodes = graph, graph.nodes
        self.order = topological(graph)
        self.users: list[list[int]] = [[] for _ in self.nodes]
        # XLA lists users in the order of their creation, and creates combined all-reduces last.
        for number in dict.fromkeys((*graph.before, *self.order)):
            for read in dict.fromkeys(self.nodes[number].reads):
                self.users[read].append(number)
        self.returned = frozenset(n for n in graph.outputs if n is not None)
        self.calls: dict[int, LibraryCall] = {}
        if graph.backend.library_rewriter:
            self.calls = library_calls(graph, self.order, self.users, self.returned)
        self.in_libraries = {number for call in self.calls.values() for number in call.inside}
        self.rank = [0] * len(self.nodes)
        for rank, number in enumerate(self.order):
            self.rank[number] = rank
        self._ancestors: list[int] | None = None
        self.paths: dict[tuple[int, int], bool] = {}
        self.computed_once: set[int] = set()

    def run(self) -> dict[int, Cluster]:
        """Decides from the last node to the first: only then are all readers of a node known to read it from memory."""
        self.list_readers()
        self.mark_computed_once()
        needed = [False] * len(self.nodes)
        for number in self.returned.union(*(call.broadcast for call in self.calls.values())):
            needed[number] = True
        clusters: dict[int, Cluster] = {}
        for number in reversed(self.order):
            node = self.nodes[number]
            if not needed[number] and node.kind not in ("loop", "source"):
                continue
            if number in self.calls:
                cluster = Cluster(self.calls[number].reads, self.calls[number].inside)
            elif node.kind in FUSES and not (node.kind == "bitcast" and self.graph.backend.recomputation):
                cluster = self.cluster(number)
            else:
                cluster = Cluster(tuple(dict.fromkeys(node.reads)), (number,))
            clusters[number] = cluster
            for read in cluster.reads:
                needed[read] = True
        return {n: clusters[n]._replace(users=tuple(self.readers_now[n])) for n in self.order if n in clusters}

    def list_readers(self):
        """Lists the readers of each node before anything is fused, in XLA's order; an output has one more."""
        self.readers_now = [list(users) for users in self.users]
        for number in self.returned:
            self.readers_now[number].append(-1)
        for root, call in self.calls.items():
            for number in call.inside:
                for read in self.nodes[number].reads:
                    _add(self.readers_now[read], root)
                    if number != root:
                        _remove(self.readers_now[read], number)

    def cluster(self, root: int) -> Cluster:
        """Returns the cluster of a node: fuses its operands, and theirs.

        The last in order goes first, so that all that reads a node is inside or out before it is asked about.
        """
        growing = _GrowingCluster(self.nodes, root, self.graph.backend)
        waiting = [(-self.rank[read], read) for read in growing.enter(root, True)]
        heapq.heapify(waiting)
        while waiting:
            _, number = heapq.heappop(waiting)
            is_stored = number in self.in_libraries or number in self.computed_once
            if is_stored or not growing.takes(number, len(self.readers_now[number])):
                growing.reads.append(number)
                continue
            self.move_in(number, root)
            for read in growing.enter(number, growing.aligned[number]):
                heapq.heappush(waiting, (-self.rank[read], read))
        aligned = frozenset(r for r in growing.reads if growing.aligned[r])
        return Cluster(tuple(growing.reads), tuple(growing.inside), aligned)

    def move_in(self, number: int, root: int):
        """Updates the readers, when a node is computed inside another; one without readers left reads nothing."""
        readers_now = self.readers_now
        _remove(readers_now[number], root)
        for read in self.nodes[number].reads:
            _add(readers_now[read], root)
            if not readers_now[number]:
                _remove(readers_now[read], number)

    # Nodes that are computed once

    def mark_computed_once(self):
        """Marks the nodes that are computed once: they read more than they write, and some user cannot compute them.

        From the last to the first: whether a node fuses into all its readers depends on whether those are stored.
        """
        if self.graph.backend.matmul_fusion:
            self.keep_behind_matmuls()
        for number in reversed(self.order):
            node = self.nodes[number]
            users = self.users[number]
            if number in self.in_libraries or node.kind not in FUSED or (len(users) + (number in self.returned)) < 2:
                continue
            if _reads_one(node, self.nodes) or self.reads_less(node):
                continue
            if number in self.returned or not all(self.fuses_on_all_paths(number, user) for user in users):
                self.computed_once.add(number)

    def keep_behind_matmuls(self):
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
                    self.computed_once.add(number)

    def reads_less(self, node: Node) -> bool:
        """Whether computing a node again reads no more elements than its result has, which would be read instead."""
        total = sum(math.prod(self.nodes[r].shape) for r in set(node.reads))
        return total <= math.prod(node.shape)

    def fusible(self, user: int, read: int) -> bool:
        """Whether two kinds of nodes fuse; what is expensive does not fuse into what reads it many times."""
        reader, node = self.nodes[user], self.nodes[read]
        if user in self.in_libraries or read in self.in_libraries:
            return False
        costly = node.expensive and reader.reused and not self.graph.backend.matmul_fusion
        return reader.kind in FUSES and node.kind in FUSED and not costly

    def fuses_on_all_paths(self, producer: int, user: int) -> bool:
        """Whether all nodes between a node and one that depends on it fuse.

        If one on some path is stored, the node has to be computed for that as well, and again in the user.
        """
        if producer == user:
            return True
        key = (producer, user)
        if key in self.paths:
            return self.paths[key]
        if self._ancestors is None:
            self._ancestors = ancestors(self.graph, self.order)
        fuses = self.nodes[user].kind in FUSES and all(
            read not in self.computed_once and self.fusible(user, read) and self.fuses_on_all_paths(producer, read)
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
        backend: whether it fuses all that it can, with one matmul among it, and computes again what is expensive.
        reused: the nodes whose elements are read many times by one element of a reader.
        readers: the number of nodes inside that read each node.
        indexers: for each node, those that index its elements in their own way. Two readers that index alike share
            what they compute: it is computed once for both.
        evaluations: how often each node is computed for one element of the root: once for each way to index it.
    """

    def __init__(self, nodes: Sequence[Node], root: int, backend: Backend):
        self.nodes, self.root, self.backend = nodes, nodes[root], backend
        self.inside: list[int] = []
        self.reads: list[int] = []
        self.aligned: dict[int, bool] = {}
        self.reused: set[int] = set()
        self.in_place = ("elementwise", "bitcast") if backend.recomputation else ("elementwise",)
        self.reductions = self.matmuls = 0
        self.readers: collections.Counter[int] = collections.Counter()
        self.indexers: dict[int, set[int]] = {root: {-1}}
        self.evaluations: dict[int, int] = {-1: 1}

    def enter(self, number: int, straight: bool) -> list[int]:
        """Adds a node; returns its operands that were not read before."""
        node, new = self.nodes[number], []
        self.inside.append(number)
        self.reductions += node.kind == "reduce"
        self.matmuls += node.kind == "matmul"
        indexers = self.indexers[number]
        self.evaluations[number] = sum(self.evaluations[indexer] for indexer in indexers)
        reuses, straight = node.reused or number in self.reused, straight and node.kind in self.in_place
        for read in node.reads:
            if reuses:
                self.reused.add(read)
            self.readers[read] += 1
            if read not in self.aligned:
                new.append(read)
            self.aligned[read] = self.aligned.get(read, True) and straight
            if self.nodes[read].kind in FUSED:
                # A reader of the same position passes its own indices on.
                self.indexers.setdefault(read, set()).update(
                    indexers if self.nodes[read].shape == node.shape else (number,)
                )
        return new

    def takes(self, number: int, readers: int) -> bool:
        """Whether a node with a number of readers may be computed inside."""
        node, root = self.nodes[number], self.root
        if node.kind not in FUSED or (root.kind == "update" and number == root.reads[0]):
            return False
        if self.backend.matmul_fusion:
            if node.kind == "reduce":
                return False
            if node.kind == "matmul":
                return readers == 1 and self.matmuls == 0 and number not in self.reused
        elif node.expensive and (number in self.reused or (readers > 1 and not self.backend.recomputation)):
            return False
        if node.kind == "reduce" and self.reductions >= _MOST_REDUCTIONS:
            return False
        if any(one.kind == "concatenate" and len(one.reads) > _MOST_CONCATENATED for one in (node, root)):
            return False
        if len(self.inside) == 1 or node.kind == "broadcast":
            return True
        evaluations = sum(self.evaluations[indexer] for indexer in self.indexers[number])
        if node.kind in _BRANCHING or (node.op == "pad" and not self.backend.recomputation):
            return evaluations == 1 and readers == 1 and self.readers[number] == 1
        return evaluations <= _MOST_EVALUATIONS


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
