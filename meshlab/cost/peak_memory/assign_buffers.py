"""Assigns buffers to the allocations of outputs, or to a heap, as XLA's buffer assignment does.

    w'  [start 30, an output of 16,384 bytes]       its allocation exists from the start
    h   [4 to 12, 4,096 bytes]                      shares it: h is dead before w' is written
    x   [8 to 31, 4,096 bytes]                      is alive at the same time as w': it goes to the heap

From the largest buffer to the smallest, each goes to an output's allocation whose buffers are never alive at the same
time, and all others share one heap, in which they are packed (`pack_heap`). A buffer that is written in place shares
its operand's space (openxla/xla, `BufferAssigner`).
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .backends import Backend
from .liveness import LiveBuffer, Liveness
from .pack_heap import packed

# A number, or an array of numbers: one for each point of a what-if.
Numbers = Any


@dataclasses.dataclass(frozen=True, eq=False)
class Assignment:
    """The places of the buffers of a plan.

    Attributes:
        liveness: of the buffers.
        outputs: the buffers of outputs with allocations of their own, not those of donated arguments.
        heap: the buffers in the heap.
        shared: for buffers that share the allocation of another, that one.
        starts: for each buffer in the heap the first point at which it takes space.
        ends: the first point at which it does not any more.
        aliases: for each buffer in the heap the position of the operand in whose space it is written; -1 for most.
    """

    liveness: Liveness
    outputs: tuple[LiveBuffer, ...]
    heap: tuple[LiveBuffer, ...]
    shared: Mapping[LiveBuffer, LiveBuffer]
    starts: np.ndarray
    ends: np.ndarray
    aliases: np.ndarray

    def output_bytes(self, nbytes: Callable[[LiveBuffer], int]) -> int:
        """Returns the bytes of outputs with allocations of their own."""
        return sum(map(nbytes, self.outputs))

    def without_gaps(self, nbytes: Callable[[LiveBuffer], int], alignment: int) -> int:
        """Returns the bytes that the heap has at least: those of the buffers that are alive at once."""
        return round(float(np.max(self.heap_bytes(nbytes, alignment), initial=0.0)))

    def heap_size(self, nbytes: Callable[[LiveBuffer], int], backend: Backend) -> int:
        """Returns the bytes of the heap, with its gaps if they count; where they are more than 64 bits count, without.

        Args:
            nbytes: the bytes of a buffer.
            backend: the compiler.
        """
        alignment, given = backend.alignment, [nbytes(buffer) for buffer in self.heap]
        if not backend.fragmentation or sum(given) > np.iinfo(np.int64).max // 2:
            return self.without_gaps(nbytes, alignment)
        sizes = np.array(given, np.int64)
        starts = np.array([buffer.start for buffer in self.heap], int)
        ends = np.array([buffer.end + 1 for buffer in self.heap], int)
        ranks = np.empty(len(self.heap), int)
        ranks[sorted(range(len(self.heap)), key=lambda i: self.heap[i].rank)] = np.arange(len(self.heap))
        return int(aligned(packed(starts, ends, sizes, ranks, self.aliases, alignment=alignment), alignment))

    def heap_bytes(self, nbytes: Callable[[LiveBuffer], Numbers], alignment: int) -> Numbers:
        """Returns the bytes in the heap at each point: [points], or [points, …] for sizes that are arrays.

        Args:
            nbytes: the bytes of a buffer, which are rounded up.
            alignment: to a multiple of as many bytes.
        """
        given = [nbytes(buffer) for buffer in self.heap]
        many = any(isinstance(size, np.ndarray) for size in given)
        sizes = np.stack(np.broadcast_arrays(*given)) if many else np.array(given)
        sizes = aligned(sizes.astype(np.float64), alignment)
        change = np.zeros((len(self.liveness.points) + 2, *sizes.shape[1:]))
        np.add.at(change, self.starts, sizes)
        np.subtract.at(change, self.ends, sizes)
        return np.cumsum(change, axis=0)


def aligned(size: Numbers, alignment: int) -> Numbers:
    """Returns a size in the heap: rounded up to a multiple of as many bytes."""
    return np.ceil(np.asarray(size) / alignment) * alignment


def assign_buffers(
    liveness: Liveness, nbytes: Callable[[LiveBuffer], int], donated: Mapping[int, int] | None = None
) -> Assignment:
    """Assigns each buffer to an output's allocation or to the heap.

    Args:
        liveness: of the buffers.
        nbytes: the bytes of a buffer.
        donated: for outputs that take the space of a donated argument, by position, that argument's position.
    """
    size = {id(buffer): nbytes(buffer) for buffer in (*liveness.buffers, *liveness.arguments)}
    allocations, heap, shared = [], [], {}

    def by_size(buffer: LiveBuffer) -> tuple:
        return (-size[id(buffer)], buffer.rank)

    arguments = {buffer.argument: buffer for buffer in liveness.arguments}
    donors = {output: arguments[argument] for output, argument in (donated or {}).items()}
    sharers: dict[int, list[LiveBuffer]] = {}
    outputs = []
    for buffer in sorted((b for b in liveness.buffers if b.output >= 0), key=by_size):
        donor = donors.get(buffer.output)
        if donor is not None and size[id(donor)] == size[id(buffer)]:
            allocation = donor
            sharers[id(allocation)] = [donor, buffer]
            if buffer.copied is donor:
                # What comes back as it came stays where it is.
                shared[buffer] = donor
                sharers[id(allocation)] = [dataclasses.replace(donor, end=buffer.end)]
            elif _overlaps(donor, (buffer,)):
                # What overlaps with its argument is written to the heap, and copied when the argument is dead.
                heap.append(buffer)
            else:
                shared[buffer] = donor
        else:
            allocation = buffer
            outputs.append(buffer)
            sharers[id(allocation)] = [buffer]
        allocations.append(allocation)
    allocations.reverse()
    sizes = [size[id(allocation)] for allocation in allocations]
    sharing = [sharers[id(allocation)] for allocation in allocations]
    for buffer in sorted((b for b in liveness.buffers if b.output < 0), key=by_size):
        for at in range(bisect.bisect_left(sizes, size[id(buffer)]), len(allocations)):
            if not _overlaps(buffer, sharing[at]):
                sharing[at].append(buffer)
                shared[buffer] = allocations[at]
                break
        else:
            heap.append(buffer)
    return Assignment(liveness, tuple(outputs), tuple(heap), shared, *_heap_lifetimes(heap, size))


def least_assignment(
    liveness: Liveness, nbytes: Callable[[LiveBuffer], int], backend: Backend, donors: Mapping[int, int] | None
) -> tuple[Assignment, int]:
    """Returns the assignment that takes least, with and without arguments overwritten, and the size of its heap.

    Args:
        liveness: the lifetimes.
        nbytes: the size of each buffer.
        backend: whose heap it is.
        donors: for outputs, the argument that may be overwritten; None: none may.
    """
    plain = assign_buffers(liveness, nbytes)
    if donors is None:
        return plain, plain.heap_size(nbytes, backend)
    over = assign_buffers(liveness, nbytes, donors)
    size, more = over.heap_size(nbytes, backend), plain.output_bytes(nbytes) - over.output_bytes(nbytes)
    if size <= plain.without_gaps(nbytes, backend.alignment) + more:
        return over, size
    larger = plain.heap_size(nbytes, backend)
    return (over, size) if size <= larger + more else (plain, larger)


def _overlaps(buffer: LiveBuffer, others: Sequence[LiveBuffer]) -> bool:
    """Whether a buffer is alive at the same time as one of others, and neither is written in place of the other."""
    start, end = buffer.start, buffer.end
    for other in others:
        if end < other.start or other.end < start:
            continue
        if not (
            (end == other.start and buffer in other.may_alias) or (other.end == start and other in buffer.may_alias)
        ):
            return True
    return False


def _heap_lifetimes(heap: Sequence[LiveBuffer], size: Mapping[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The start and end of each buffer in the heap, shortened where another is written in place; and the aliases."""
    position = {id(buffer): i for i, buffer in enumerate(heap)}
    starts = np.array([buffer.start for buffer in heap], int)
    ends = np.array([buffer.end + 1 for buffer in heap], int)
    aliases = np.full(len(heap), -1)
    taken = set()
    for i, buffer in enumerate(heap):
        for operand in buffer.heap_aliases:
            at = position.get(id(operand))
            is_last = operand.end == buffer.start and size[id(operand)] == size[id(buffer)]
            if at is not None and at not in taken and is_last:
                ends[at] = buffer.start
                aliases[i] = at
                taken.add(at)
                break
    return starts, ends, aliases
