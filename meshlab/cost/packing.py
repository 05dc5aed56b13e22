"""How large a heap is in which buffers lie side by side, with the gaps that are left between them.

    sizes 4 3 2, alive 0-5, 3-9, 6-8        4 at 0, 3 at 4, 2 at 0: a heap of 7

XLA packs from the largest buffer to the smallest, and once more from the longest lived to the shortest; each goes where
the smallest gap has room for it, for as long as it lives; the smaller of the two heaps is taken (openxla/xla,
`GlobalDecreasingSizeBestFitHeap`, `ChooseBestHeapAlgorithm`).
"""

from __future__ import annotations

import numpy as np


def packed(begins: np.ndarray, ends: np.ndarray, sizes: np.ndarray) -> int:
    """Returns the size of the heap.

    Args:
        begins: the point at which each buffer begins.
        ends: the first point at which it is not there any more.
        sizes: its bytes.
    """
    there = (sizes > 0) & (ends > begins)
    begins, ends, sizes = begins[there], ends[there], sizes[there].astype(np.int64)
    lives = ends - begins
    orders = (np.lexsort((begins, -lives, -sizes)), np.lexsort((begins, -sizes, -lives)))
    return min((_fitted(begins[o], ends[o], sizes[o]) for o in orders), default=0)


def _fitted(begins: np.ndarray, ends: np.ndarray, sizes: np.ndarray) -> int:
    """The size of the heap if buffers are put into it in order."""
    offsets, tops = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.int64)
    for i, size in enumerate(sizes.tolist()):
        beside = np.flatnonzero((begins[:i] < ends[i]) & (ends[:i] > begins[i]))
        if not len(beside):
            tops[i] = size
            continue
        low, high = offsets[beside], tops[beside]
        order = np.argsort(low, kind="stable")
        # What lies below each buffer reaches up to here; from there to the buffer itself is a gap.
        reach = np.maximum.accumulate(np.concatenate(([0], high[order])))
        gaps = low[order] - reach[:-1]
        fits = np.flatnonzero(gaps >= size)
        offsets[i] = reach[fits[np.argmin(gaps[fits])]] if len(fits) else reach[-1]
        tops[i] = offsets[i] + size
    return int(tops.max(initial=0))
