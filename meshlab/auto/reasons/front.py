"""The Pareto front of step time and peak memory: the fastest layout for each amount of memory.

Each point is the fastest layout met whose peak is at most that of the point; its bound is what any layout of the search
takes at least. With `exact` every point is searched for by itself, under a cap just below the peak of the one before.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from ...cost.machines.units import bytes_text, seconds_text
from ...engine.specs.layout import Layout
from ..best_first.fastest import Fastest
from ..best_first.pricer import LayoutPrice
from ..best_first.search import Search
from ..request.answer import Limits

# A layout that takes less memory by a smaller share than this is no point of its own.
_SAME = 0.005
# Seconds of one search for a point, where its user has set no limit.
_SECONDS = 20.0


@dataclasses.dataclass(frozen=True)
class FrontPoint:
    """One point of the front.

    Attributes:
        layout: the layout.
        seconds: of a step.
        peak_bytes: at the donated peak.
        bound: seconds that every layout of the search with at most this peak takes at least, as far as is known.
    """

    layout: Layout
    seconds: float
    peak_bytes: int
    bound: float

    def __str__(self):
        least = f" (at least {seconds_text(self.bound)})" if self.bound < self.seconds else ""
        return f"{bytes_text(self.peak_bytes)}: {seconds_text(self.seconds)}{least}, {self.layout or 'nothing sharded'}"

    __repr__ = __str__


def front(prices: Iterable[LayoutPrice], bound: float) -> tuple[FrontPoint, ...]:
    """Returns the layouts that no other one beats in both time and memory, the fastest first, no two almost the same.

    Args:
        prices: the layouts.
        bound: seconds that every layout takes at least.
    """
    points: list[FrontPoint] = []
    for price in sorted(prices, key=lambda price: (price.seconds, price.rules)):
        most = points[-1].peak_bytes * (1 - _SAME) if points else math.inf
        # Arguments are known exactly, and are part of every peak: most layouts are beaten by theirs alone.
        if price.plan.stored.argument_bytes < most and price.peak_bytes < most:
            if points and points[-1].seconds == price.seconds:
                points.pop()
            points.append(FrontPoint(price.layout, price.seconds, price.peak_bytes, min(bound, price.seconds)))
    return tuple(points)


def searched_front(search: Search, limits: Limits, step: float, most: int) -> tuple[FrontPoint, ...]:
    """Returns the front by one search for each point, the fastest layout of all first.

    Args:
        search: the search that has been; what it has priced is not priced again.
        limits: the tolerance and what ends each search; the cap on memory is not looked at.
        step: the share by which each point takes less memory than the one before, at least.
        most: the number of points, at most.
    """
    points: list[FrontPoint] = []
    cap: float | None = None
    limits = dataclasses.replace(limits, seconds=limits.seconds or _SECONDS, progress=None)
    while len(points) < most:
        again = Fastest(search.space, search.pricer, dataclasses.replace(limits, most_bytes=cap))
        *_, found = again.run()
        if again.best is None:
            break
        best = again.best
        points.append(FrontPoint(best.layout, best.seconds, best.peak_bytes, found.bound))
        cap = best.peak_bytes * (1 - step)
    return tuple(points)
