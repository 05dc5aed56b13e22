"""Live bytes: the most that one device holds at once by Mesh TensorFlow's liveness convention.

A **ledger** lists operations and the tensors that they make, with dims and bytes, and nothing else. The convention, as
auto_mtf has it, says in which order they run and what is in memory then:

    order      greedy: of the operations that could run, the one that frees most bytes (what it makes counts against
               it), ties by name; sizes are those of the whole tensors, so the order is the same under every layout
    contents   what an operation makes is added before its operands are freed; a tensor is freed after its last use, at
               once if it has none; final tensors are never freed; operations need no memory of their own
    bytes      of one device: each dim divided by the mesh axis that it is on

It counts tensors, not what a compiler makes of them, which is `plan.memory`: it is good for comparing layouts. One
oddity stays, since published numbers depend on it: whether a tensor with one reader left counts as freed by that reader
is asked of the last *output* seen so far, not of the tensor.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from .choices import Dims, Space


@dataclasses.dataclass(frozen=True)
class Entry:
    """A tensor: its name, the name and size of each dim, and the bytes of one element."""

    name: str
    dims: tuple[tuple[str, int], ...]
    item_bytes: float

    @property
    def nbytes(self) -> int:
        """Bytes of the unsharded tensor."""
        return math.ceil(self.item_bytes * math.prod(size for _, size in self.dims))

    def on_device(self, axes_of: Mapping[str, str], sizes: Mapping[str, int]) -> int:
        """Bytes on one device when dims are on mesh axes; a dim that does not divide is rounded up."""
        elements = math.prod(size for _, size in self.dims)
        for dim, _ in self.dims:
            if dim in axes_of:
                elements = -(-elements // sizes[axes_of[dim]])
        return math.ceil(self.item_bytes * elements)


@dataclasses.dataclass(frozen=True)
class Line:
    """An operation.

    Attributes:
        name: unique.
        inputs: names of the tensors that it reads.
        outputs: the tensors that it makes.
        whole: dims that it cannot split.
        inside: what runs inside it (a loop's body), while what surrounds it stays in memory.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[Entry, ...]
    whole: frozenset[str] = frozenset()
    inside: Ledger | None = None


@dataclasses.dataclass(frozen=True)
class Lives:
    """From when to when tensors are in memory.

    Attributes:
        moments: how many there are: one while each operation runs; of one with something inside, one for each operation
            inside.
        first: for each tensor, by name, the first moment at which it is in memory.
        gone: the first moment after that at which it is not; in the same order.
    """

    moments: int
    first: Mapping[str, int]
    gone: Mapping[str, int]

    def most(self, nbytes: Mapping[str, int]) -> int:
        """The most bytes that are in memory at once."""
        change = np.zeros(self.moments + 1, np.int64)
        sizes = np.fromiter((nbytes[name] for name in self.first), np.int64, len(self.first))
        np.add.at(change, np.fromiter(self.first.values(), np.int64), sizes)
        np.subtract.at(change, np.fromiter(self.gone.values(), np.int64), sizes)
        return int(change.cumsum().max())


@dataclasses.dataclass(frozen=True)
class Ledger:
    """Operations in graph order, and the tensors that are never freed."""

    lines: tuple[Line, ...]
    final: frozenset[str] = frozenset()

    @functools.cached_property
    def entries(self) -> dict[str, Entry]:
        """Every tensor by name, those inside operations too."""
        entries = {}
        for line in self.lines:
            entries.update((entry.name, entry) for entry in line.outputs)
            if line.inside is not None:
                entries.update(line.inside.entries)
        return entries

    @functools.cached_property
    def splittable(self) -> dict[str, int]:
        """The dims that may be sharded, with the greatest number that divides all their sizes, sorted by name."""
        sizes: dict[str, int] = {}
        for entry in self.entries.values():
            for dim, size in entry.dims:
                sizes[dim] = math.gcd(sizes.get(dim, 0), size)
        never = {d for line in self.lines for d in line.whole}
        return {d: n for d, n in sorted(sizes.items()) if d not in never and not re.match(r"_anonymous_\d*", d)}

    @functools.cached_property
    def lives(self) -> Lives:
        """From when to when each tensor is in memory, in the convention's order."""
        return lives_of(self, order_of(self))

    def space(self, axes: Mapping[str, int]) -> Space:
        """The layouts of Mesh TensorFlow's rules: no two dims that an operation touches share an axis."""
        choices = {
            dim: (*(a for a, n in axes.items() if n > 1 and size % n == 0), None)
            for dim, size in self.splittable.items()
        }
        return Space({a: n for a, n in axes.items() if n > 1}, choices, frozenset(self._axis_conflicts()))

    def _axis_conflicts(self) -> Iterator[Dims]:
        for line in self.lines:
            touched = {d for n in line.inputs for d, _ in self.entries[n].dims}
            touched |= {d for entry in line.outputs for d, _ in entry.dims}
            yield from (frozenset((a, b)) for a in touched for b in touched if a < b)


def order_of(ledger: Ledger) -> tuple[int, ...]:
    """The order in which a ledger's operations run, as indices of its lines."""
    return _Scheduler(ledger).run()


class _Scheduler:
    """A greedy list scheduler; used once."""

    def __init__(self, ledger: Ledger):
        self.lines = {line.name: line for line in ledger.lines}
        self.index = {name: i for i, name in enumerate(self.lines)}
        self.final = ledger.final
        self.nbytes = {entry.name: entry.nbytes for line in ledger.lines for entry in line.outputs}
        self.readers: dict[str, set[str]] = defaultdict(set)
        self.waits: Counter[str] = Counter()
        for line in ledger.lines:
            for name in set(line.inputs):
                self.readers[name].add(line.name)
                self.waits[line.name] += 1
        self.last_output = ""
        self.freed = {name: self._frees(line) for name, line in self.lines.items()}
        self.queue: list[tuple[int, str]] = []

    def run(self) -> tuple[int, ...]:
        order = []
        for name in self.lines:
            if not self.waits[name]:
                self._push(name)
        done = set()
        while self.queue:
            freed, name = heapq.heappop(self.queue)
            # What was pushed before its worth has changed is out of date.
            if name in done or self.freed[name] != -freed:
                continue
            order.append(self.index[name])
            done.add(name)
            self._made(self.lines[name])
            self._read(self.lines[name])
        return tuple(order)

    def _push(self, name: str):
        heapq.heappush(self.queue, (-self.freed[name], name))

    def _frees(self, line: Line) -> int:
        freed = sum(self.nbytes[n] for n in line.inputs if len(self.readers[n]) == 1 and n not in self.final)
        for entry in line.outputs:
            self.last_output = entry.name
            if self.readers[entry.name] or entry.name in self.final:
                freed -= entry.nbytes
        return freed

    def _made(self, line: Line):
        for entry in line.outputs:
            self.last_output = entry.name
            for reader in self.readers[entry.name]:
                self.waits[reader] -= 1
                if not self.waits[reader]:
                    self._push(reader)

    def _read(self, line: Line):
        for name in line.inputs:
            if line.name not in self.readers[name]:
                continue
            self.readers[name].remove(line.name)
            if len(self.readers[name]) != 1 or self.last_output in self.final:
                continue
            (reader,) = self.readers[name]
            self.freed[reader] += self.nbytes[name]
            if not self.waits[reader]:
                self._push(reader)


def lives_of(ledger: Ledger, order: tuple[int, ...]) -> Lives:
    """From when to when each tensor is in memory.

    Args:
        ledger: the operations.
        order: indices of its lines, as they run.
    """
    first: dict[str, int] = {}
    gone: dict[str, int] = {}
    moments = _live(ledger, order, 0, first, gone)
    return Lives(moments, first, {name: gone[name] for name in first})


def _live(ledger: Ledger, order: tuple[int, ...], moment: int, first: dict[str, int], gone: dict[str, int]) -> int:
    """Notes the lives of a ledger's tensors from a moment on, and returns the moment at which it has run."""
    uses = Counter(name for line in ledger.lines for name in line.inputs)
    uses.update(ledger.final)
    live: set[str] = set()
    for index in order:
        line = ledger.lines[index]
        outputs = [entry.name for entry in line.outputs]
        first.update(dict.fromkeys(outputs, moment))
        live.update(outputs)
        inside = line.inside
        moment = moment + 1 if inside is None else _live(inside, order_of(inside), moment, first, gone)
        uses.subtract(line.inputs)
        done = live.intersection(name for name in (*outputs, *line.inputs) if not uses[name])
        gone.update(dict.fromkeys(done, moment))
        live -= done
    gone.update(dict.fromkeys(live, moment))
    return moment


def most_live_bytes(ledger: Ledger, axes_of: Mapping[str, str], sizes: Mapping[str, int]) -> int:
    """The most bytes that are live on one device at once under a layout, legal or not.

    Args:
        ledger: the operations.
        axes_of: mesh axis by dim.
        sizes: the mesh axes' sizes.
    """
    return ledger.lives.most({name: entry.on_device(axes_of, sizes) for name, entry in ledger.entries.items()})
