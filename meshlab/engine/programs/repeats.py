"""Finds repeats: stretches of a sequence in which the same pattern comes again and again, one repetition after another.

    a b c  b c  b c  d        Repeat(start=1, period=2, repetitions=3)

A model whose layers are a Python loop is such a sequence of operations. The items are numbers here, equal ones for
items that are alike, so that whole stretches are compared at once: shifted by a period, a repeat equals itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

# Of the distances at which equal items follow each other, so many of the most frequent are tried as periods.
_TRIED = 32


class Repeat(NamedTuple):
    """A pattern that is repeated.

    Attributes:
        start: where its representative begins.
        period: how long a repetition is.
        repetitions: how many there are, at least 2.
    """

    start: int
    period: int
    repetitions: int

    @property
    def stop(self) -> int:
        """Where the last repetition ends."""
        return self.start + self.period * self.repetitions

    @property
    def saved(self) -> int:
        """How many items need not be looked at, if one repetition is enough."""
        return self.period * (self.repetitions - 1)


def repeats(items: np.ndarray, least: int) -> list[Repeat]:
    """Finds repeats that do not overlap: the one that saves most, then those on either side of it.

    Args:
        items: a number for each item, equal for items that are alike.
        least: how many items a repeat must save to be worth it.

    Returns:
        The repeats, in order.
    """
    best = max(_candidates(items, least), key=lambda r: (r.saved, -r.period), default=None)
    if best is None:
        return []
    after = (r._replace(start=r.start + best.stop) for r in repeats(items[best.stop :], least))
    return [*repeats(items[: best.start], least), best, *after]


def _candidates(items: np.ndarray, least: int) -> Iterator[Repeat]:
    """Yields for each period that is tried the longest repeat."""
    for period in _distances(items):
        start, length = _longest(items[:-period] == items[period:])
        repeat = Repeat(start, period, 1 + length // period)
        if repeat.repetitions > 1 and repeat.saved >= least:
            yield repeat


def _distances(items: np.ndarray) -> list[int]:
    """Returns the most frequent distances from an item to the next one that is alike."""
    order = np.argsort(items, kind="stable")
    alike = items[order][1:] == items[order][:-1]
    distances, counts = np.unique(np.diff(order)[alike], return_counts=True)
    return distances[np.argsort(-counts, kind="stable")][:_TRIED].tolist()


def _longest(equal: np.ndarray) -> tuple[int, int]:
    """Returns the start and length of the longest stretch of True."""
    edges = np.flatnonzero(np.diff(equal, prepend=False, append=False))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    if not len(starts):
        return 0, 0
    longest = int(np.argmax(lengths))
    return int(starts[longest]), int(lengths[longest])
