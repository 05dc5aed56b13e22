"""What XLA fuses: which nodes are computed where they are read, and what is read from memory then.

    mul → add → product       mul is computed inside add, whose result is stored: the product reads it from memory
    mul → add, mul → product  mul is stored for the product; add computes it again, if that is cheap

XLA for TPUs computes whatever it can inside a product, and what is made of a product alone in it.

This follows XLA's instruction fusion, as its compilers for CPUs and GPUs run it (openxla/xla, `InstructionFusion`,
`CpuInstructionFusion`): from the last node to the first, every node that is stored takes in what it reads, again and
again, as long as

- it can be computed element by element (`nodes.FUSED`), and so can what reads it;
- it is not expensive, or each of its elements is read once;
- it is read once, or reads no more memory than it saves, or everything that reads it can compute it, on every way.
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

# So many sums in one kernel, and so many operands of a concatenation (`CpuInstructionFusion::ShouldFuse`); so often may
# an element be computed for one of the result (`FusionNodeIndexingEvaluation::CodeDuplicationTooHigh`).
_MOST_FOLDS, _MOST_JOINED, _MOST_TIMES = 6, 8, 15
# What is computed by loops or branches of its own, which nothing else shares (`OpInvalidatesCache`).
_BRANCHING = frozenset(("join", "fold"))
# What a library for sums takes in (`YnnMatcher`).
_LIBRARY = names_where(lambda traits: traits.library)


class Cluster(NamedTuple):
    """One node that is stored, with what is computed inside it.

    Attributes:
        reads: the nodes that it reads from memory, by number.
        inside: the nodes that are computed inside it, itself too.
        aligned: those of what it reads that it reads element by element, each where it writes.
        users: the stored nodes that read it, in the order in which XLA lists them.
    """

    reads: tuple[int, ...]
    inside: tuple[int, ...]
    aligned: frozenset[int] = frozenset()
    users: tuple[int, ...] = ()


def clustered(graph: Graph) -> dict[int, Cluster]:
    """Finds the nodes that are stored, or do something beside computing, and what each reads from memory."""
    return _Clustering(graph).run()


class _Clustering:
    def __init__(self, graph: Graph):
        self.graph, self.nodes = graph, graph.nodes
        self.order = topological(graph)
        self.place = [0] * len(self.nodes)
        for place, number in enumerate(self.order):
            self.place[number] = place
        self.users: list[list[int]] = [[] for _ in self.nodes]
        # XLA lists users in the order in which they were made, and what joins all-reduces was made last.
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
        """Large sums and maxima, with what is beside them: XLA for CPUs hands them to a library, before it fuses.

        (openxla/xla, `LibraryRewriter` with YNNPACK.) The library takes in what only it reads, and what alone reads it.
        """
        shared = collections.Counter(
            (value, node.shape) for node in self.nodes for value in set(node.literals) if node.shape
        )
        for number in reversed(self.order):
            node = self.nodes[number]
            if number in self.taken or node.kind != "fold" or str(node.dtype) != "float32" or not node.reads:
                continue
            if node.op not in _LIBRARY or math.prod(self.nodes[node.reads[0]].shape) < LEAST_ELEMENTS:
                continue
            self.library(number, shared)

    def library(self, fold: int, shared: Mapping[tuple, int]):
        inside, root = {fold}, fold
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
                if node.kind == "map" and shared[value, node.shape] > mine:
                    # The same number is repeated for others, too: then it is repeated in memory.
                    stored = self.repeated(value, node)
                    reads[stored] = None
                    self.stored.add(stored)
        self.taken |= inside
        self.library_of[root] = Cluster(tuple(reads), (root, *(inside - {root})))

    def in_library(self, number: int) -> bool:
        node = self.nodes[number]
        if number in self.taken:
            return False
        if node.kind in ("spread", "view"):
            return True
        if node.kind == "fill":
            return node.op != "iota"
        large = math.prod(node.shape) >= LEAST_ELEMENTS
        return node.kind == "map" and large and node.op in _LIBRARY and str(node.dtype) == "float32"

    def repeated(self, value: float, node: Node) -> int:
        """The node of a number repeated for all elements."""
        for number, other in enumerate(self.nodes):
            if other.kind == "fill" and other.literals == (value,) and other.shape == node.shape:
                return number
        made = Node("fill", (), node.buffer, node.shape, node.step)
        made.literals = (value,)
        number = self.graph.add(made)
        self.users.append([])
        self.place.append(-number)
        self.order.insert(0, number)
        return number

    def run(self) -> dict[int, Cluster]:
        if self.graph.backend.libraries:
            self.libraries()
        self.list_users()
        needed = [False] * len(self.nodes)
        for number in self.returned | self.stored:
            needed[number] = True
        found: dict[int, Cluster] = {}
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
            found[number] = cluster
            for read in cluster.reads:
                needed[read] = True
        return {n: found[n]._replace(users=tuple(self.now[n])) for n in self.order if n in found}

    def list_users(self):
        """Lists who reads each node by now, in XLA's order; an output is read by one more."""
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
        """Takes in what a node reads, and what that reads, the last first."""
        growing = _Growing(self.nodes, root, self.graph.backend.fuses)
        waiting = [(-self.place[read], read) for read in growing.enter(root, True)]
        heapq.heapify(waiting)
        while waiting:
            _, number = heapq.heappop(waiting)
            alone = number in self.taken or number in self.single
            if alone or not growing.takes(number, len(self.now[number])):
                growing.reads.append(number)
                continue
            self.move_in(number, root)
            for read in growing.enter(number, growing.aligned[number]):
                heapq.heappush(waiting, (-self.place[read], read))
        aligned = frozenset(r for r in growing.reads if growing.aligned[r])
        return Cluster(tuple(growing.reads), tuple(growing.inside), aligned)

    def move_in(self, number: int, root: int):
        """Notes who reads what, when a node is computed inside another."""
        now = self.now
        _remove(now[number], root)
        for read in self.nodes[number].reads:
            _add(now[read], root)
            if not now[number]:
                _remove(now[read], number)

    # What must not be computed twice

    def decide(self):
        """Finds what is computed once: it reads more than it makes, and not all that read it can compute it."""
        if self.graph.backend.fuses:
            self.follow()
        for number in reversed(self.order):
            node = self.nodes[number]
            users = self.users[number]
            if number in self.taken or node.kind not in FUSED or (len(users) + (number in self.returned)) < 2:
                continue
            if _reads_one(node, self.nodes) or self.reads_less(node):
                continue
            alone = number in self.returned or not all(self.fuses_on_all_ways(number, user) for user in users)
            if alone:
                self.single.add(number)

    def follow(self):
        """Finds what is computed where a product is made, rather than where another product reads it.

        That is all that only one reads, and is made of what only that reads.
        """
        following: set[int] = set()
        for number in self.order:
            node, users = self.nodes[number], self.users[number]
            if len(users) != 1 or number in self.returned:
                continue
            if node.kind == "product" or (node.kind == "map" and not following.isdisjoint(node.reads)):
                following.add(number)
                if node.kind == "map" and self.nodes[users[0]].kind == "product":
                    self.single.add(number)

    def reads_less(self, node: Node) -> bool:
        total = sum(math.prod(self.nodes[r].shape) for r in set(node.reads))
        return total <= math.prod(node.shape)

    def fusible(self, user: int, read: int) -> bool:
        reader, node = self.nodes[user], self.nodes[read]
        if user in self.taken or read in self.taken:
            return False
        costly = node.expensive and reader.reused and not self.graph.backend.fuses
        return reader.kind in FUSES and node.kind in FUSED and not costly

    def fuses_on_all_ways(self, producer: int, user: int) -> bool:
        if producer == user:
            return True
        key = (producer, user)
        if key in self.paths:
            return self.paths[key]
        if self._ancestors is None:
            self._ancestors = ancestors(self.graph)
        found = self.nodes[user].kind in FUSES and all(
            read not in self.single and self.fusible(user, read) and self.fuses_on_all_ways(producer, read)
            for read in self.nodes[user].reads
            if self._ancestors[read] >> producer & 1
        )
        self.paths[key] = found
        return found


class _Growing:
    """A node that takes in what it reads.

    Attributes:
        inside: what is computed inside it, itself too.
        reads: what it reads from memory.
        aligned: for what it reads or has taken in, whether that is read element by element, where it is written.
        fuses: whether it computes whatever it can, with one product among it.
    """

    def __init__(self, nodes: Sequence[Node], root: int, fuses: bool):
        self.nodes, self.root, self.fuses = nodes, nodes[root], fuses
        self.inside: list[int] = []
        self.reads: list[int] = []
        self.aligned: dict[int, bool] = {}
        self.reused: set[int] = set()
        self.folds = self.products = 0
        # How many of those inside read each node.
        self.readers: collections.Counter[int] = collections.Counter()
        # By what each node's elements are asked for, and how often each node is computed for one of the root's.
        self.askers: dict[int, set[int]] = {root: {-1}}
        self.times: dict[int, int] = {-1: 1}

    def enter(self, number: int, straight: bool) -> list[int]:
        """Takes a node in; returns what it reads that was not read before."""
        node, found = self.nodes[number], []
        self.inside.append(number)
        self.folds += node.kind == "fold"
        self.products += node.kind == "product"
        askers = self.askers[number]
        self.times[number] = sum(self.times[asker] for asker in askers)
        reuses, straight = node.reused or number in self.reused, straight and node.kind == "map"
        for read in node.reads:
            if reuses:
                self.reused.add(read)
            self.readers[read] += 1
            if read not in self.aligned:
                found.append(read)
            self.aligned[read] = self.aligned.get(read, True) and straight
            asking = self.askers.setdefault(read, set())
            # Whoever reads elements of the same place asks for them as it is asked itself.
            asking.update(askers if self.nodes[read].shape == node.shape else (number,))
        return found

    def takes(self, number: int, readers: int) -> bool:
        """Whether a node that so many read may be computed inside."""
        node, root = self.nodes[number], self.root
        if node.kind not in FUSED or (root.kind == "update" and number == root.reads[0]):
            return False
        if self.fuses:
            if node.kind == "fold":
                return False
            if node.kind == "product":
                return readers == 1 and self.products == 0 and number not in self.reused
        elif node.expensive and (number in self.reused or readers > 1):
            return False
        if node.kind == "fold" and self.folds >= _MOST_FOLDS:
            return False
        if any(joined.kind == "join" and len(joined.reads) > _MOST_JOINED for joined in (node, root)):
            return False
        if len(self.inside) == 1 or node.kind == "spread":
            return True
        times = sum(self.times[asker] for asker in self.askers[number])
        if node.kind in _BRANCHING or node.op == "pad":
            return times == 1 and readers == 1 and self.readers[number] == 1
        return times <= _MOST_TIMES


def _add(users: list[int], user: int):
    """Lists a user, if it is not listed."""
    if user not in users:
        users.append(user)


def _remove(users: list[int], user: int):
    """Takes a user off a list, and puts the last into its place, as XLA does (`HloInstruction::Users`)."""
    if user in users:
        users[users.index(user)] = users[-1]
        users.pop()


def _reads_one(node: Node, nodes: Sequence[Node]) -> bool:
    """Whether at most one of the arrays that a node reads is as large as what it makes."""
    rank = _rank(node.shape)
    large = [r for r in node.reads if nodes[r].kind not in ("spread", "fill") and _rank(nodes[r].shape) >= rank]
    return len(large) <= 1


def _rank(shape: tuple[int, ...]) -> int:
    return sum(size != 1 for size in shape)
