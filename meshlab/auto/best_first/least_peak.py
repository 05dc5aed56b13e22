"""The layout with the least peak of memory: the stages and bounds of a search by bytes.

first       what is in memory at the peak of the plan that splits nothing, in as many parts as the dims of each value
allow: it is there under every layout
planned     the bytes beside the arguments, of two plans: stored in the smallest parts, and as it is computed with
stored      the ways to store it whose arguments leave room for an improvement, planned
"""

from __future__ import annotations

from .bounds import Amounts, peak_bytes
from .points import Parts, Point, Storage
from .pricer import LayoutPrice
from .search import Node, Search


class LeastPeak(Search):
    """A search for the least bytes at the donated peak of `plan.memory`."""

    def cost(self, price: LayoutPrice) -> float:
        return price.peak_bytes

    def divisible(self, unsplit: LayoutPrice, in_stages: bool) -> Amounts:
        return peak_bytes(self.space, unsplit, in_stages=in_stages)

    def branch(self, computed: Parts):
        """Lets a point wait with all that may be said besides: its arguments must be held as well."""
        for extra in self.space.beside(computed):
            smallest = Point(computed, self.space.storages(computed, extra.layers)[0], extra)
            least = max(self.first_bound(computed, bool(extra.layers)), self.space.argument_bytes(smallest))
            self.push(least, "planned", computed, extra, least)

    def expand(self, node: Node):
        """Plans two ways to store a point, or all others."""
        ways = self.space.storages(node.computed, node.extra.layers)
        if node.stage == "planned":
            self._plan(node, ways[0])
            least = self.space.argument_bytes(Point(node.computed, ways[0], node.extra)) + self.beside(node)
            self.push(max(node.bound, least), "stored", node.computed, node.extra, node.surest)
            return
        for stored in ways[1:]:
            point = Point(node.computed, stored, node.extra)
            if self.space.argument_bytes(point) + self.beside(node) < self.limit:
                self._plan(node, stored)

    def _plan(self, node: Node, stored: Storage):
        price = self.pricer.price(self.space.layout(Point(node.computed, stored, node.extra)))
        if price is not None:
            self.check_bound(node, price.peak_bytes, price)
            self.consider(price)
