"""The fastest layout that fits: a staged search by the clock of `plan.time`."""

from __future__ import annotations

import numpy as np

from .bounds import Amounts, kernel_seconds
from .extras import Dims
from .pricer import LayoutPrice
from .promising import estimates
from .staged import Staged

# Of so many ways to compute, those that promise most are looked at early.
_LARGE = 100_000


class Fastest(Staged):
    """A search for the least seconds of a step, by the estimate of `plan.time`."""

    def cost(self, price: LayoutPrice) -> float:
        return price.seconds

    def divisible(self, unsplit: LayoutPrice, in_stages: bool) -> Amounts:
        return kernel_seconds(self.space, unsplit, in_stages=in_stages)

    def promise(self, unsplit: LayoutPrice) -> np.ndarray | None:
        """The seconds that points may take, in large spaces."""
        if self.space.count() < _LARGE:
            return None
        return estimates(self.space, self.pricer, unsplit, self.bounds, lambda: self.is_over(self.limits.seconds))

    def of_activations(self, price: LayoutPrice) -> float:
        return price.of_activations

    def without(self, price: LayoutPrice, dims: Dims) -> float:
        return price.without(dims)
