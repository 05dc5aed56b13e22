"""Several searches of which one answer is wanted: on several meshes, or of several programs.

    answer, standings = contest([asked_on_one_axis, asked_on_two_axes], Fastest, started)

The first is searched as a single one would be; each after it only for what costs less than the best before it. Of
those that are as good as the best the first is taken. What is proved is of all of them: while others wait, nothing is.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence

from ...engine.specs.layout import Layout
from ..request.answer import Answer, Asked, Found
from .answers import BY_CLOCK, answer_of, search_of, tie_share
from .fastest import Fastest
from .search import Search


@dataclasses.dataclass(frozen=True)
class Standing:
    """What came out of one search.

    Attributes:
        number: of the search, from 0.
        layout: the best layout met that fits; None where there is none.
        value: what it costs; infinite where there is none.
        bound: what every layout of the search costs at least.
    """

    number: int
    layout: Layout | None
    value: float
    bound: float


def contest(
    asks: Sequence[Asked], started: float, kind: Callable[..., Search] = Fastest, method: str = BY_CLOCK
) -> tuple[Answer, tuple[Standing, ...]]:
    """Finds the best layout of several searches.

    Args:
        asks: what they are asked; all have the same limits but for the bytes.
        started: when they began, by `time.perf_counter`.
        kind: of the searches.
        method: how they find it, in words.

    Returns:
        The answer, and what came out of each, the best one first.
    """
    searches, standings, plans, leader = [search_of(asked, kind) for asked in asks], [], 0, None
    for asked, search in zip(asks, searches, strict=True):
        is_last = search is searches[-1]
        elsewhere = min((each.bound for each in standings), default=math.inf) if is_last else 0.0
        found = _searched(asked, search, leader, elsewhere, started)
        leader = found if leader is None or found.value < leader.value else leader
        value = math.inf if search.best is None else search.cost(search.best)
        layout = None if search.best is None else search.best.layout
        standings.append(Standing(len(standings), layout, value, min(found.bound, value)))
        plans += search.pricer.plans
    least = min(each.value for each in standings) * (1 + tie_share(asks[0].limits))
    best = next(each for each in standings if each.value <= least)
    bound, best_search = min(each.bound for each in standings), searches[best.number]
    plan = None if best_search.best is None else best_search.best.plan
    found = Found(plan, best.value, bound, plans, time.perf_counter() - started)
    answer = answer_of(asks[best.number], best_search, found, method)
    others = sorted((each for each in standings if each is not best), key=lambda each: each.value)
    return answer, (best, *others)


def _searched(asked: Asked, search: Search, leader: Found | None, elsewhere: float, started: float) -> Found:
    """Searches for what costs less than the best so far; where the time is over, only its bounds are worked out.

    Args:
        asked: what is asked.
        search: the search.
        leader: the best answer of those before it.
        elsewhere: the bound of all other searches, for progress.
        started: when the first began.
    """
    limits = asked.limits
    left = None if limits.seconds is None else limits.seconds - (time.perf_counter() - started)
    best = math.inf if leader is None else leader.value
    search.limits = dataclasses.replace(limits, to_beat=best, seconds=None if left is None else max(left, 0.0))
    found = None
    for found in search.run() if math.isinf(best) or left is None or left > 0 else search.proceed():
        if limits.progress is not None:
            shown = found if leader is None or found.value < leader.value else leader
            told = dataclasses.replace(shown, plans=found.plans, seconds=found.seconds)
            limits.progress(dataclasses.replace(told, bound=min(found.bound, elsewhere, told.value)))
    assert found is not None, "a search ends with an answer"
    return found
