"""Times, as a table of medians and 95th percentiles.

    sample = timed("re-plan", [change_one, change_two, ...])
    print(table([sample]))

Each thing timed is done once: a plan that was made before is remembered, and timing it again would time the memory.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sample:
    """Measured seconds of one thing, and how long its 95th percentile may take where there is a promise."""

    what: str
    seconds: tuple[float, ...]
    promise: float | None = None

    def percentile(self, share: float) -> float:
        """Returns the smallest measured time that at least this share of the measurements keep."""
        return sorted(self.seconds)[max(0, math.ceil(share * len(self.seconds)) - 1)]

    @property
    def holds(self) -> bool:
        """Whether the promise holds, if there is one."""
        return self.promise is None or self.percentile(0.95) <= self.promise


def timed(what: str, actions: Iterable[Callable[[], Any]], promise: float | None = None) -> Sample:
    """Does each action once, and returns how long each took.

    Args:
        what: the row's name.
        actions: what is timed; what they return is dropped after the clock is read.
        promise: seconds that 95 of 100 should take at most.
    """
    seconds = []
    gc.collect()
    for action in actions:
        start = time.perf_counter()
        result = action()
        seconds.append(time.perf_counter() - start)
        del result
    return Sample(what, tuple(seconds), promise)


def table(samples: Sequence[Sample]) -> str:
    """Returns the samples as a table, in milliseconds."""
    rows: list[tuple[str, ...]] = [("", "n", "median", "p95", "max", "promised p95")]
    for sample in samples:
        promise = "" if sample.promise is None else f"{_ms(sample.promise)} {'kept' if sample.holds else 'BROKEN'}"
        times = [_ms(time) for time in (sample.percentile(0.5), sample.percentile(0.95), max(sample.seconds))]
        rows.append((sample.what, str(len(sample.seconds)), *times, promise))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) if number == 0 else cell.rjust(width) for number, (cell, width) in enumerate(pairs))
        for pairs in (tuple(zip(row, widths, strict=True)) for row in rows)
    ]
    return "\n".join(line.rstrip() for line in lines)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
