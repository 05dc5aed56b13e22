"""The answer of a solver: a layout, what it costs, and what is proved."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from .choices import Splits


@dataclasses.dataclass(frozen=True)
class Solution:
    """A best layout.

    Attributes:
        splits: the layout.
        value: what it costs, by the tables that the solver was given.
        bound: what every layout costs at least, as the solver has proved it.
        method: how it was found.
        most_work: the most work that was allowed; None: any.
    """

    splits: Splits
    value: float
    bound: float
    method: str
    most_work: float | None = None


def best_of(first: Splits, ordered: Splits, cost: Callable[[Splits], float]) -> Splits:
    """Returns the first layout in documented order, unless the solver's tolerance made it worse than its first answer.

    Args:
        first: the solver's answer for the cost alone.
        ordered: the first in documented order of the layouts that it takes for equals.
        cost: of a layout, exactly.
    """
    return first if cost(ordered) > cost(first) * (1 + 1e-12) else ordered
