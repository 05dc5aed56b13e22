"""The order in which compilers run what is stored: what waits for nothing first, or what needs least memory.

breadth_first       XLA for CPUs: each as soon as all that it reads is there
least_memory        XLA for TPUs: of two orders the one in which less is alive at once
"""

from __future__ import annotations

import collections
import heapq
import math
from collections.abc import Callable, Mapping, Sequence

from ...engine.code.operations import item_bytes
from .fuse import Cluster
from .graph import Graph

Clusters = dict[int, Cluster]
# Nodes whose bytes are others'.
_SHOWS = frozenset(("view", "through", "store", "carry"))


def breadth_first(found: Clusters) -> list[int]:
    """The order in which XLA for CPUs runs nodes: each as soon as all that it reads is there (`BFScheduler`)."""
    missing = {number: len(cluster.reads) for number, cluster in found.items()}
    users: dict[int, list[int]] = {number: [] for number in found}
    for number, cluster in found.items():
        for read in cluster.reads:
            users[read].append(number)
    for number, cluster in found.items():
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


def least_memory(
    graph: Graph, found: Clusters, needed: Sequence[int], inside: Callable[[Graph], float]
) -> tuple[list[int], float]:
    """The order in which XLA for TPUs runs nodes: the better of two, by what is alive at once.

    (openxla/xla, `DefaultMemoryScheduler`, which tries `ListMemoryScheduler` and orders from the outputs down.)

    Args:
        graph: the nodes.
        found: those that are stored.
        needed: their order from the outputs, depth first.
        inside: returns the bytes that a turn of a loop, or a branch, needs beside what is alive around it.

    Returns:
        The order, and the bytes that are alive at once in it, without what comes in.
    """
    sizes = _Sizes(graph, found, inside)
    orders = (sizes.greedy(), list(needed))
    peaks = [sizes.most_alive(order) for order in orders]
    best = peaks.index(min(peaks))
    return orders[best], peaks[best]


class _Sizes:
    """How many bytes nodes take, and for how long.

    Attributes:
        owner: the node whose bytes each node's are.
        size: bytes of each owner; 0 for what comes in.
        within: bytes that a node needs while it runs.
        reads: the owners of what each reads.
    """

    def __init__(self, graph: Graph, found: Clusters, inside: Callable[[Graph], float]):
        self.found, nodes = found, graph.nodes
        self.owner: dict[int, int] = {}
        self.size: dict[int, float] = {}
        self.within: dict[int, float] = {}
        for number in found:
            node = nodes[number]
            source = node.reads[1 if node.kind == "through" else 0] if node.kind in _SHOWS and node.reads else number
            self.owner[number] = self.owner.get(source, source) if source in found else number
            stored = node.buffer is not None and node.kind not in _SHOWS and node.kind != "source"
            self.size[number] = math.prod(node.shape) * item_bytes(node.dtype) if stored else 0.0
            self.within[number] = max(map(inside, node.inner), default=0.0)
        self.reads = {n: {self.owner[r] for r in cluster.reads} for n, cluster in found.items()}
        self.returned = {self.owner[n] for n in graph.outputs if n is not None}

    def most_alive(self, order: Sequence[int]) -> float:
        """The most bytes that are alive at once, in an order."""
        last = {read: number for number in order for read in self.reads[number]}
        alive = most = 0.0
        for number in order:
            alive += self.size[number]
            most = max(most, alive + self.within[number])
            gone = (o for o in self.reads[number] if last[o] == number and o not in self.returned)
            alive -= sum(self.size[o] for o in gone)
        return most

    def greedy(self) -> list[int]:
        """Whatever frees most, or takes least, of what can run (`ListMemoryScheduler`)."""
        users: dict[int, list[int]] = {number: [] for number in self.found}
        readers: Mapping[int, set[int]] = collections.defaultdict(set)
        missing = {}
        for number, cluster in self.found.items():
            missing[number] = len(set(cluster.reads))
            for read in dict.fromkeys(cluster.reads):
                users[read].append(number)
            for owner in self.reads[number]:
                readers[owner].add(number)
        place = {number: position for position, number in enumerate(self.found)}
        order, waiting, valued = [], [], {}

        def push(number: int):
            freed = sum(self.size[o] for o in self.reads[number] if len(readers[o]) == 1 and o not in self.returned)
            valued[number] = (self.size[number] + self.within[number] - freed, -len(users[number]), place[number])
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
