"""Orders clusters as compilers run them: breadth first, or with the least peak.

breadth_first       XLA for CPUs: each as soon as all its operands are ready
behind_collectives  XLA for GPUs: the same, and updates of weights behind the last all-reduce
behind_loops        XLA for GPUs: and matmuls that nothing needs before beside what is sent behind a loop
least_memory        XLA for TPUs: of two orders the one with the smaller peak
"""

from __future__ import annotations

import collections
import heapq
import math
from collections.abc import Callable, Mapping, Sequence

from ...engine.code.operations import item_bytes
from .fuse import Cluster
from .graph import FUSES, Graph

Clusters = dict[int, Cluster]
# Kinds of nodes whose bytes are another's.
_SHARING = frozenset(("bitcast", "through", "store", "carry"))
# Kinds that hand on what their first operand holds.
_PASSING = frozenset(("bitcast", "store", "part", "move"))


def breadth_first(clusters: Clusters) -> list[int]:
    """Returns the order in which XLA for CPUs runs nodes: each as soon as its operands are ready (`BFScheduler`)."""
    missing = {number: len(cluster.reads) for number, cluster in clusters.items()}
    users: dict[int, list[int]] = {number: [] for number in clusters}
    for number, cluster in clusters.items():
        for read in cluster.reads:
            users[read].append(number)
    for number, cluster in clusters.items():
        listed = [user for user in cluster.users if user in users[number]]
        users[number] = [*listed, *(user for user in users[number] if user not in listed)]
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


def behind_collectives(graph: Graph, clusters: Clusters, order: Sequence[int]) -> list[int]:
    """Returns an order in which what is computed of collectives, element by element, for outputs alone comes last.

    Those are the updates of weights: they run behind the last all-reduce of a gradient, and all gradients are in memory
    at once, for XLA for GPUs ends each asynchronous collective as late as it can (openxla/xla,
    `LatencyHidingScheduler`).
    """
    received: set[int] = set()
    for number in order:
        node = graph.nodes[number]
        if node.is_collective or (node.kind in FUSES | {"part"} and not received.isdisjoint(clusters[number].reads)):
            received.add(number)
    needed = {number for number in order if number not in received or graph.nodes[number].is_collective}
    for number in reversed(order):
        if number in needed:
            needed.update(clusters[number].reads)
    return sorted(order, key=lambda number: number not in needed)


def behind_loops(graph: Graph, clusters: Clusters, order: Sequence[int]) -> list[int]:
    """Returns an order in which matmuls that a loop does not wait for run behind it, beside a collective.

    XLA for GPUs runs beside a collective what does not depend on it (`LatencyHidingScheduler`): beside one that sends
    what the loop has computed, or beside the last iteration's, which is sent behind the loop (`CollectivePipeliner`).
    """
    order = list(order)
    for loop in [number for number in order if graph.nodes[number].kind == "loop"]:
        at = order.index(loop)
        late = _unneeded_matmuls(graph, clusters, order[:at], loop)
        if late and (sent_by_iterations(graph.nodes[loop].inner[0]) or _sends(graph, clusters, order[at:], late)):
            before = order[:at]
            order = [*(n for n in before if n not in late), loop, *(n for n in before if n in late), *order[at + 1 :]]
    return order


def _unneeded_matmuls(graph: Graph, clusters: Clusters, before: Sequence[int], loop: int) -> set[int]:
    """The matmuls before a loop that it does not wait for, and what is computed of them."""
    needed, found = set(clusters[loop].reads), set[int]()
    for number in reversed(before):
        if number in needed:
            needed.update(clusters[number].reads)
    for number in before:
        follows = graph.nodes[number].kind == "opaque" or not found.isdisjoint(clusters[number].reads)
        if follows and number not in needed:
            found.add(number)
    return found


def _sends(graph: Graph, clusters: Clusters, behind: Sequence[int], late: set[int]) -> bool:
    """Whether a collective sends what a loop, the first of some nodes, has computed, without what is computed late."""
    loop, *others = behind
    received, dependent = {loop}, set(late)
    for number in others:
        node, reads = graph.nodes[number], clusters[number].reads
        if not dependent.isdisjoint(reads):
            dependent.add(number)
        elif not received.isdisjoint(reads):
            if node.is_collective:
                return True
            if node.kind in FUSES | {"part"}:
                received.add(number)
    return False


def sent_by_iterations(body: Graph) -> list[int]:
    """Returns the operands of the collectives whose results an iteration of a loop returns."""
    found: list[int] = []
    for number in body.outputs:
        while number is not None and body.nodes[number].kind in _PASSING:
            number = body.nodes[number].reads[0]  # noqa: PLW2901
        if number is not None and body.nodes[number].is_collective:
            found += body.nodes[number].reads
    return list(dict.fromkeys(found))


def least_memory(
    graph: Graph, clusters: Clusters, needed: Sequence[int], inside: Callable[[Graph], float]
) -> tuple[list[int], float]:
    """Returns the order in which XLA for TPUs runs nodes: of two orders the one with the smaller peak.

    (openxla/xla, `DefaultMemoryScheduler`, which tries `ListMemoryScheduler` and orders from the outputs down.)

    Args:
        graph: the nodes.
        clusters: of the nodes.
        needed: their order from the outputs, depth first.
        inside: returns the peak bytes of a loop's body, or of a branch.

    Returns:
        The order, and its peak bytes, without inputs.
    """
    sizes = _Sizes(graph, clusters, inside)
    orders = (sizes.greedy(), list(needed))
    peaks = [sizes.most_alive(order) for order in orders]
    best = peaks.index(min(peaks))
    return orders[best], peaks[best]


class _Sizes:
    """The bytes of nodes, and their owners.

    Attributes:
        owner: for each node the one whose bytes it shares.
        size: bytes of each owner; 0 for inputs.
        within: bytes that a node needs while it runs.
        reads: the owners of the operands of each.
    """

    def __init__(self, graph: Graph, clusters: Clusters, inside: Callable[[Graph], float]):
        self.clusters, nodes = clusters, graph.nodes
        self.owner: dict[int, int] = {}
        self.size: dict[int, float] = {}
        self.within: dict[int, float] = {}
        for number in clusters:
            node = nodes[number]
            source = node.reads[1 if node.kind == "through" else 0] if node.kind in _SHARING and node.reads else number
            self.owner[number] = self.owner.get(source, source) if source in clusters else number
            stored = node.buffer is not None and node.kind not in _SHARING and node.kind != "source"
            self.size[number] = math.prod(node.shape) * item_bytes(node.dtype) if stored else 0.0
            self.within[number] = max(map(inside, node.inner), default=0.0)
        self.reads = {n: {self.owner[r] for r in cluster.reads} for n, cluster in clusters.items()}
        self.returned = {self.owner[n] for n in graph.outputs if n is not None}

    def most_alive(self, order: Sequence[int]) -> float:
        """Returns the peak bytes of an order."""
        last = {read: number for number in order for read in self.reads[number]}
        alive = most = 0.0
        for number in order:
            alive += self.size[number]
            most = max(most, alive + self.within[number])
            gone = (o for o in self.reads[number] if last[o] == number and o not in self.returned)
            alive -= sum(self.size[o] for o in gone)
        return most

    def greedy(self) -> list[int]:
        """Returns a greedy order: the ready node that frees most, or allocates least, first (`ListMemoryScheduler`)."""
        users: dict[int, list[int]] = {number: [] for number in self.clusters}
        readers: Mapping[int, set[int]] = collections.defaultdict(set)
        missing = {}
        for number, cluster in self.clusters.items():
            missing[number] = len(set(cluster.reads))
            for read in dict.fromkeys(cluster.reads):
                users[read].append(number)
            for owner in self.reads[number]:
                readers[owner].add(number)
        position_of = {number: position for position, number in enumerate(self.clusters)}
        order, waiting, valued = [], [], {}

        def push(number: int):
            freed = sum(self.size[o] for o in self.reads[number] if len(readers[o]) == 1 and o not in self.returned)
            valued[number] = (self.size[number] + self.within[number] - freed, -len(users[number]), position_of[number])
            heapq.heappush(waiting, (*valued[number], number))

        for number, count in missing.items():
            if not count:
                push(number)
        while waiting:
            *value, number = heapq.heappop(waiting)
            if valued.get(number) != tuple(value):
                continue
            del valued[number]
            order.append(number)
            for owner in self.reads[number]:
                readers[owner].discard(number)
                if len(readers[owner]) == 1:
                    (only,) = readers[owner]
                    if only in valued:
                        push(only)
            for user in users[number]:
                missing[user] -= 1
                if not missing[user]:
                    push(user)
        return order
