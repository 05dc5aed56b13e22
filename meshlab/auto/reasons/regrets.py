"""Regrets: what the best layout costs that decides one thing otherwise, all else chosen anew.

    heads off model         +4.9%  (at least +4.1%)
    stored as computed      +0.2%

For each rule of the chosen layout, without it: a dim off an axis where it is computed, parameters and state stored as
they are computed with, no rule at a tag or in a scope, no micro-batches. What the search has met gives an upper bound
at once, what it has left behind gives a lower one; with `exact` each is searched for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...cost.machines.units import share_text
from ...engine.specs.layout import Layout
from ..best_first.fastest import Fastest
from ..best_first.points import SearchSpace
from ..best_first.polish import polish
from ..best_first.search import Search
from ..best_first.space import search_space
from ..request.answer import Limits

Test = Callable[[Layout], bool]

# How many single changes of what decides otherwise are planned at most.
_MOST = 40


@dataclasses.dataclass(frozen=True)
class Regret:
    """What it costs to decide one thing otherwise.

    Attributes:
        change: the decision, in words: "`ffn` off `model`".
        layout: the best layout met that decides so; None where none was met that fits.
        seconds: of a step under it; infinite where there is none.
        bound: seconds that every layout of the search that decides so takes at least.
        best: seconds of the chosen layout.
        exact: whether it was searched for.
    """

    change: str
    layout: Layout | None
    seconds: float
    bound: float
    best: float
    exact: bool = False

    @property
    def share(self) -> float:
        """The share of the chosen layout's time by which the step gets longer."""
        return self.seconds / self.best - 1

    def __str__(self):
        more = "no layout evaluated fits" if self.layout is None else f"+{share_text(max(0.0, self.share))}"
        least = self.bound / self.best - 1
        return f"{self.change}: {more}" + (f" (at least +{share_text(max(0.0, least))})" if least < self.share else "")

    __repr__ = __str__


def regrets(search: Search, chosen: Layout) -> tuple[Regret, ...]:
    """Returns the regret of each decision of the chosen layout, the greatest first, by what was met and left behind."""
    return _sorted(_met(search, change, decides) for change, _, decides in _decisions(search, chosen))


def exact_regrets(
    search: Search, chosen: Layout, limits: Limits, progress: Callable[[tuple[Regret, ...]], Any]
) -> tuple[Regret, ...]:
    """Searches for the regret of each decision; returns them, the greatest first.

    Args:
        search: the search that has been; what it has priced is not priced again.
        chosen: the chosen layout.
        limits: what ends each search.
        progress: called with all regrets as they are known so far, after each that was searched for.
    """
    decisions = list(_decisions(search, chosen))
    known = [_met(search, change, decides) for change, _, decides in decisions]
    for at, (change, space, decides) in enumerate(decisions):
        known[at] = _searched(search, change, space, decides, limits)
        progress(_sorted(known))
    return _sorted(known)


def _sorted(found: Iterable[Regret]) -> tuple[Regret, ...]:
    return tuple(sorted(found, key=lambda regret: (-regret.bound, -regret.seconds, regret.change)))


def _decisions(search: Search, chosen: Layout) -> Iterator[tuple[str, SearchSpace, Test]]:
    """Each decision otherwise: in words, as a space, and as a test of layouts."""
    space, constraints = search.space, search.space.constraints
    for dim, axes in chosen.dim_rules:
        for axis in axes:
            if (dim, axis) not in constraints.splits and axis in space.axes:
                never = dataclasses.replace(constraints, forbidden=constraints.forbidden | {(dim, axis)})
                without = search_space(search.pricer, never)
                yield f"`{dim}` off `{axis}`", without, lambda layout, d=dim, a=axis: a not in layout.rules.get(d, ())
    yield from _extras(space, chosen)
    if len(chosen.places) > len(space.extras.tags.keys() & chosen.places.keys()):
        places = frozenset(a.place for a in (*space.parameters, *space.state))
        yield (
            "stored as computed with",
            dataclasses.replace(space, parameters=(), state=()),
            lambda layout: not any(places & set(space.program.matching(glob)) for glob in layout.places),
        )


def _extras(space: SearchSpace, chosen: Layout) -> Iterator[tuple[str, SearchSpace, Test]]:
    """Each extra of the chosen layout left out."""
    extras = space.extras

    def without(**fewer: Any) -> SearchSpace:
        return dataclasses.replace(space, extras=dataclasses.replace(extras, **fewer))

    for tag in extras.tags.keys() & chosen.places.keys():
        others = {name: dims for name, dims in extras.tags.items() if name != tag}
        yield (
            f"no rule at `{tag}`",
            without(tags=others),
            lambda layout, tag=tag: not any(tag in space.program.matching(glob) for glob in layout.places),
        )
    for glob in extras.scopes.keys() & chosen.scopes.keys():
        others = {name: scope for name, scope in extras.scopes.items() if name != glob}
        yield f"no rules in `{glob}`", without(scopes=others), lambda layout, glob=glob: glob not in layout.scopes
    in_time = lambda layout: any(extras.loop in axes for axes in layout.rules.values())  # noqa: E731
    if extras.in_time and in_time(chosen):
        yield f"nothing on `{extras.loop}`", without(in_time=()), lambda layout: not in_time(layout)


def _met(search: Search, change: str, decides: Test) -> Regret:
    best = search.best
    assert best is not None, "its caller has chosen it"
    fitting = sorted((p for p in search.met.values() if decides(p.layout)), key=search.cost)
    found = next((price for price in fitting if search.fits(price)), None)
    bound = min(search.bound_of(decides), float("inf") if found is None else found.seconds)
    return Regret(change, found and found.layout, found.seconds if found else float("inf"), bound, best.seconds)


def _searched(search: Search, change: str, space: SearchSpace, decides: Test, limits: Limits) -> Regret:
    best = search.best
    assert best is not None, "its caller has chosen it"
    again = Fastest(space, search.pricer, limits, decides)
    *_, found = again.run()
    bound = found.bound
    if again.best is not None and space.parameters:
        # A preset may store what the space does not, gradients say; and so may a single change.
        bound = polish(again, limits, bound, 0.0, _MOST).bound
    fitting = [price for price in again.met.values() if decides(price.layout) and again.fits(price)]
    other = min(fitting, key=again.cost, default=None)
    seconds = found.value if other is None else min(found.value, again.cost(other))
    return Regret(change, other and other.layout, seconds, min(bound, seconds), best.seconds, exact=True)
