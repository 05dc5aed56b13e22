"""What a layout costs by the clock of activations, added up over clusters of dims that never meet each other.

Of the dims those are taken away (the *core*: of the residual stream where it is tagged, or those that meet most others)
without which the others fall apart into clusters, of heads, of the feed-forward layer, of the vocabulary, which no
operation brings together. A layout then costs what its core costs alone, and for each cluster what that adds: each from
a plan that splits the core and one cluster, which many layouts share. So two hundred plans bound tens of thousands.

This is no theorem: collectives of two clusters may hide behind the same kernels. It was exact, or a little low, where
it was tried, and a search holds it against every layout that it plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...engine.programs.axis_conflicts import conflicting_dims
from .extras import Dims, Extra
from .points import Parts, Point, SearchSpace
from .pricer import LayoutPrice, Pricer


def clusters(space: SearchSpace) -> tuple[Dims, tuple[Dims, ...]]:
    """Returns the core, and the clusters of dims that are left without it; no clusters where they do not fall apart."""
    beside = conflicting_dims(space.program)
    dims = frozenset(d for sets in space.sets for own in sets for d in own)
    core = space.tag_dims & dims
    while True:
        found = _components(dims - core, beside)
        if len(found) > 1:
            return core, found
        if space.tag_dims or 2 * len(core) >= len(dims):
            return dims, ()
        left = dims - core
        core |= {max(sorted(left), key=lambda dim: len(beside[dim] & left))}


def _components(dims: Dims, beside: Mapping[str, Dims]) -> tuple[Dims, ...]:
    found, left = [], set(dims)
    while left:
        grown, waiting = set(), [min(left)]
        while waiting:
            dim = waiting.pop()
            grown.add(dim)
            waiting += [other for other in beside[dim] & left if other not in grown]
        left -= grown
        found.append(frozenset(grown))
    return tuple(found)


class Star:
    """The bounds, each part planned once."""

    def __init__(self, space: SearchSpace, pricer: Pricer, of_activations: Callable[[LayoutPrice], float]):
        self.space, self.pricer, self.of_activations = space, pricer, of_activations
        self.core, self.clusters = clusters(space)
        self._known: dict[tuple[Parts, Extra], float | None] = {}

    def bound(self, computed: Parts, extra: Extra) -> float:
        """Returns what a point costs at least, however it is stored; 0 where no parts of it tell them."""
        used = [own for own in self.clusters if any(dims & own for dims in computed)]
        if len(used) < 2:
            return 0.0
        base = self._part(computed, self.core, extra)
        parts = [self._part(computed, self.core | own, extra) for own in used]
        if base is None or any(part is None for part in parts):
            return 0.0
        return base + sum(part - base for part in parts if part is not None)

    def _part(self, computed: Parts, dims: Dims, extra: Extra) -> float | None:
        kept = tuple(own & dims for own in computed)
        if (kept, extra) not in self._known:
            stored = self.space.storages(kept)[0]
            price = self.pricer.price(self.space.layout(Point(kept, stored, extra)))
            self._known[kept, extra] = None if price is None else self.of_activations(price)
        return self._known[kept, extra]
