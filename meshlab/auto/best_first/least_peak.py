"""The layout with the least peak of memory: the bounds of a search by bytes.

What is in memory at the peak of the plan that splits nothing is there under every layout, in as many parts as the dims
of each value allow: that is the first bound. Points are planned as they are stored in the smallest parts.
"""

from __future__ import annotations

import numpy as np

from .bounds import memory_bounds
from .pricer import Price
from .roles import Parts, Point
from .search import Search, Waiting


class LeastPeak(Search):
    """A search for the least bytes at the donated peak of `plan.memory`."""

    def cost(self, price: Price) -> float:
        """The bytes at the peak."""
        return price.peak_bytes

    def first_bounds(self, unsplit: Price) -> np.ndarray:
        """The bytes of what is held anyway."""
        return memory_bounds(self.roles, unsplit)

    def open(self, computed: Parts, bound: float):
        """Lets a point wait with each rule for a tag: its arguments must fit as well."""
        smallest = Point(computed, self.roles.storages(computed)[0])
        least = max(bound, self.roles.argument_bytes(smallest))
        for tagged in self.roles.tags(computed):
            self.wait(least, "planned", computed, tagged, least)

    def take(self, one: Waiting):
        """Plans a point, stored in the smallest parts."""
        stored = self.roles.storages(one.computed)[0]
        price = self.pricer.price(self.roles.layout(Point(one.computed, stored, one.tagged)))
        if price is not None:
            self.hold(one.bound, price.peak_bytes, price)
            self.consider(price)
