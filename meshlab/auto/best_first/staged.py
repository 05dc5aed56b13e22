"""A search whose points are bounded in stages, each sharper and dearer than the one before.

first       from one plan for all points (`bounds`)
star        what activations cost, from plans that many points share (`star.Star`)
planned     the same of its own plan, stored in the smallest parts: a bound for all ways to store it
stored      every way to store it, planned
"""

from __future__ import annotations

from collections.abc import Callable

from ...engine.specs.layout import Layout
from ..request.answer import Limits
from .points import Parts, Point, SearchSpace
from .pricer import LayoutPrice, Pricer
from .search import Node, Search
from .star import Star


class Staged(Search):
    """A search that goes through these stages; what it minimises is its subclass's."""

    def __init__(
        self, space: SearchSpace, pricer: Pricer, limits: Limits, allows: Callable[[Layout], bool] | None = None
    ):
        super().__init__(space, pricer, limits, allows)
        self.star = Star(space, pricer, self.of_activations)

    def of_activations(self, price: LayoutPrice) -> float:
        """What a layout costs where parameters and gradients are sent for nothing."""
        raise NotImplementedError

    def branch(self, computed: Parts):
        """Pushes a point with all that may be said besides."""
        for extra in self.space.beside(computed):
            least = self.first_bound(computed, bool(extra.layers))
            self.push(least, "star", computed, extra, least)

    def expand(self, node: Node):
        """Bounds a point better, plans it, or plans all ways to store it."""
        if node.stage == "star":
            # In one piece it costs no more than in iterations; stages leave a share of that to each device.
            star = 0.0 if not self.trust else self.star.bound(node.computed, node.extra.in_one_piece)
            star *= self._share(node.computed) if node.extra.layers else 1.0
            self.push(max(node.bound, star), "planned", node.computed, node.extra, node.surest)
        elif node.stage == "planned":
            self._plan(node)
        else:
            self._store(node)

    def _share(self, computed: Parts) -> float:
        """Returns the share of its cost that stages leave to each device at least."""
        alone = self.first_bound(computed, in_stages=False)
        return self.first_bound(computed, in_stages=True) / alone if alone else 1 / self.space.extras.stage_count

    def _plan(self, node: Node):
        """Plans a point as it is stored in the smallest parts."""
        most = self.limits.most_bytes
        point = Point(node.computed, self.space.storages(node.computed, node.extra.layers)[0], node.extra)
        least = self.space.argument_bytes(point)
        if most is not None and least > most:
            return
        price = self.pricer.price(self.space.layout(point))
        if price is None:
            return
        own = self.of_activations(price)
        self.check_bound(node, own, price)
        self.consider(price)
        if most is not None:
            self.check_peak_bound(node.computed, price)
        if most is None or own >= self.limit or least + self.beside(node, most - least) <= most:
            self.push(own, "stored", node.computed, node.extra, node.surest)

    def _store(self, node: Node):
        """Plans all other ways to store a point, but those whose arguments do not fit beside the rest of it."""
        most = self.limits.most_bytes
        beside = 0.0 if most is None else self.beside(node)
        for stored in self.space.storages(node.computed, node.extra.layers)[1:]:
            self.limits.watch.check()
            if node.bound >= self.limit:
                self.prune(node)
                return
            point = Point(node.computed, stored, node.extra)
            if most is not None and self.space.argument_bytes(point) + beside > most:
                continue
            price = self.pricer.price(self.space.layout(point))
            if price is not None:
                self.check_bound(node, self.cost(price), price)
                self.consider(price)
