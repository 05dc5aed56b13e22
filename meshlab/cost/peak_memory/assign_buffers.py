"""Where buffers lie: what is written into the space of an output before that is made, and what needs space of its own.

    w'  [begins 30, an output of 16,384 bytes]      its space is there from the start
    h   [4 to 12, 4,096 bytes]                      lies in it: h is gone before w' is made
    x   [8 to 31, 4,096 bytes]                      does not fit in time: it needs space of its own

XLA's buffer assignment does so (openxla/xla, `BufferAssigner`): from the largest buffer to the smallest, each goes
where one that is kept to the end has room for it, and all that is left shares one heap, in which buffers are packed
(`packing`). What is written over what it reads lies where that lay.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .liveness import Held, Live
from .pack_heap import packed

# A number, or an array of numbers: one for each point of a what-if.
Numbers = Any


@dataclasses.dataclass(frozen=True, eq=False)
class Placed:
    """Where the buffers of a plan lie.

    Attributes:
        live: when they are alive.
        kept: the buffers of outputs that have space of their own, not that of a donated argument.
        heap: the buffers in the heap.
        inside: for buffers that lie in the space of another, that one.
        begins: for each buffer in the heap the first point at which it takes space.
        ends: the first point at which it does not any more.
        over: for each the position of that which it is written over; -1 for most.
    """

    live: Live
    kept: tuple[Held, ...]
    heap: tuple[Held, ...]
    inside: Mapping[Held, Held]
    begins: np.ndarray
    ends: np.ndarray
    over: np.ndarray

    def heap_size(self, nbytes: Callable[[Held], int], step: int) -> int:
        """Returns the bytes of the heap, gaps included.

        Args:
            nbytes: the bytes of a buffer.
            step: what is taken is a multiple of so many bytes.
        """
        sizes = np.array([nbytes(held) for held in self.heap], np.int64)
        begins = np.array([held.begin for held in self.heap], int)
        ends = np.array([held.end + 1 for held in self.heap], int)
        ranks = np.empty(len(self.heap), int)
        ranks[sorted(range(len(self.heap)), key=lambda i: self.heap[i].rank)] = np.arange(len(self.heap))
        return packed(begins, ends, sizes, ranks, self.over, step=step)

    def heap_bytes(self, nbytes: Callable[[Held], Numbers]) -> Numbers:
        """Returns the bytes in the heap at each point: [points], or [points, …] for sizes that are arrays."""
        sizes = [np.asarray(nbytes(held), np.float64) for held in self.heap]
        shape = np.broadcast_shapes((), *(size.shape for size in sizes))
        change = np.zeros((len(self.live.points) + 2, *shape))
        if sizes:
            all_sizes = np.stack([np.broadcast_to(size, shape) for size in sizes])
            np.add.at(change, self.begins, all_sizes)
            np.subtract.at(change, self.ends, all_sizes)
        return np.cumsum(change, axis=0)


def aligned(size: Numbers, step: int) -> Numbers:
    """Returns a size as it is taken from the heap: a multiple of so many bytes."""
    return np.ceil(np.asarray(size) / step) * step


def buffers_placed(live: Live, nbytes: Callable[[Held], int], donated: Mapping[int, int] | None = None) -> Placed:
    """Finds where buffers lie.

    Args:
        live: when they are alive.
        nbytes: the bytes of a buffer.
        donated: for outputs that take the space of an argument, by position, that argument's position.
    """
    size = {id(held): nbytes(held) for held in (*live.held, *live.arguments)}
    spaces, heap, inside = [], [], {}

    def by_size(held: Held) -> tuple:
        return (-size[id(held)], held.rank)

    arguments = {held.argument: held for held in live.arguments}
    donors = {output: arguments[argument] for output, argument in (donated or {}).items()}
    occupied: dict[int, list[Held]] = {}
    kept = []
    for held in sorted((h for h in live.held if h.output >= 0), key=by_size):
        donor = donors.get(held.output)
        if donor is not None and size[id(donor)] == size[id(held)]:
            space = donor
            # What cannot be written over its argument is made elsewhere, and copied when the argument is read no more.
            if _clashes(donor, (held,)):
                heap.append(held)
            else:
                inside[held] = donor
            occupied[id(space)] = [donor, held]
        else:
            space = held
            kept.append(held)
            occupied[id(space)] = [held]
        spaces.append(space)
    spaces.reverse()
    sizes, lies = [size[id(space)] for space in spaces], [occupied[id(space)] for space in spaces]
    for held in sorted((h for h in live.held if h.output < 0), key=by_size):
        for at in range(bisect.bisect_left(sizes, size[id(held)]), len(spaces)):
            if not _clashes(held, lies[at]):
                lies[at].append(held)
                inside[held] = spaces[at]
                break
        else:
            heap.append(held)
    return Placed(live, tuple(kept), tuple(heap), inside, *_written_over(heap, size))


def _clashes(held: Held, others: Sequence[Held]) -> bool:
    """Whether a buffer is alive at once with one of others, and neither is written over the other."""
    begin, end = held.begin, held.end
    for other in others:
        if end < other.begin or other.end < begin:
            continue
        if not ((end == other.begin and held in other.over) or (other.end == begin and other in held.over)):
            return True
    return False


def _written_over(heap: Sequence[Held], size: Mapping[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """When each buffer in the heap takes space, if what follows it is written over it; and what it is written over."""
    position = {id(held): i for i, held in enumerate(heap)}
    begins = np.array([held.begin for held in heap], int)
    ends = np.array([held.end + 1 for held in heap], int)
    before = np.full(len(heap), -1)
    taken = set()
    for i, held in enumerate(heap):
        for over in held.after:
            at = position.get(id(over))
            if at is not None and at not in taken and over.end == held.begin and size[id(over)] == size[id(held)]:
                ends[at] = held.begin
                before[i] = at
                taken.add(at)
                break
    return begins, ends, before
