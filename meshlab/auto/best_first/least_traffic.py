"""The layout that sends least, of those that divide the work: a staged search by bytes.

A layout that splits nothing sends nothing, so that layouts count whose device does at most 1 % more multiply-adds than
the least that any way to compute leaves it. Of ways to compute both are known without a plan (`additive.work`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...engine.specs.layout import Layout
from ..additive.dim_work import SLACK, amounts_of
from ..request.answer import Limits
from .bounds import Amounts, divided, least_under
from .extras import Dims, Rules
from .points import SearchSpace
from .pricer import LayoutPrice, Pricer
from .search import ROUNDING
from .staged import Staged


class LeastTraffic(Staged):
    """A search for the fewest bytes that a device sends in a run.

    Attributes:
        least_work: the fewest multiply-adds of a device.
    """

    # As an operation it leaves out what a mask hides: it has less work, which is divided no better for that.
    as_written = True

    def __init__(
        self, space: SearchSpace, pricer: Pricer, limits: Limits, allows: Callable[[Layout], bool] | None = None
    ):
        super().__init__(space, pricer, limits, allows)
        self._multiply_adds = tuple(amounts_of(space.program).items())
        self._work = divided(space, self._multiply_adds)
        self.least_work = self._least_work()

    def _least_work(self) -> float:
        for index in np.argsort(self._work, axis=None, kind="stable"):
            place = np.unravel_index(index, self._work.shape)
            computed = tuple(sets[i] for sets, i in zip(self.space.sets, place, strict=True))
            if self.space.divides(self.space.rules(computed)):
                return float(self._work[place])
        return math.inf

    @property
    def most_work(self) -> float | None:
        return self._most

    @property
    def _most(self) -> float:
        return self.least_work * (1 + SLACK) * (1 + ROUNDING)

    def cost(self, price: LayoutPrice) -> float:
        return price.plan.wire_bytes

    def divisible(self, unsplit: LayoutPrice, in_stages: bool) -> Amounts:
        """Nothing: a layout may send nothing."""
        return ()

    def excluded(self) -> np.ndarray:
        return self._work / self.space.extras.stage_count > self._most

    def of_activations(self, price: LayoutPrice) -> float:
        return price.bytes_without(self.space.parameter_dims)

    def fits(self, price: LayoutPrice) -> bool:
        return price.plan.work.amount <= self._most

    def consider(self, price: LayoutPrice | None) -> bool:
        """Takes a layout for the answer if it is better, or divides more of the work than any in the space."""
        if price is None or not self.is_allowed(price):
            return False
        if price.plan.work.amount * (1 + SLACK) < self.least_work:
            self.least_work, self.best = price.plan.work.amount, None
        return super().consider(price)

    def least(self, rules: Rules) -> float:
        """Nothing, but where a device does more work than it may."""
        return 0.0 if least_under(self.space, self._multiply_adds, rules) <= self._most else math.inf

    def without(self, price: LayoutPrice, dims: Dims) -> float:
        return price.bytes_without(dims)
