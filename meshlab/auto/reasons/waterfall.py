"""From one layout to another, one change at a time: what each of them brings.

    print(choice.waterfall("batch:data heads:model ffn:model"))

                                step     bytes sent  peak
    yours                       2.34 s   72.8 GB     42.8 GB
    batch on data+model         …
    auto                        1.87 s   44.7 GB     14.3 GB

A change is the axes of one dim where it is computed, or all rules of one place or scope. Of the changes that are left
the one is made next that is legal by itself and leaves the shortest step; where none is, as many together as it takes.
Where that leads through a step that is slower than both ends, as changes do that pay together alone, other orders are
searched for one in which no step is: best first, by the slowest step so far. `order` says where there is none.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ...cost.machines.units import bytes_text, seconds_text
from ...engine.specs.layout import DimRules, Layout
from ...engine.tables import html_rows, text_rows
from ..best_first.pricer import LayoutPrice, Pricer

# Up to so many changes are tried together, where none is legal by itself.
_TOGETHER = 4
# So many plans are made to look for an order.
_PLANS = 160
_NO_ORDER = "In every order of these changes some layout is slower than both ends; here that one is the fastest."
_NOT_MET = "An order in which no layout is slower than both ends was not found in"


@dataclasses.dataclass(frozen=True)
class Fall:
    """One change.

    Attributes:
        change: what was changed, in words.
        layout: the layout after it.
        seconds: of a step under it.
        wire_bytes: that one device sends in one run.
        peak_bytes: at the donated peak.
    """

    change: str
    layout: Layout
    seconds: float
    wire_bytes: float
    peak_bytes: int


@dataclasses.dataclass(frozen=True)
class Waterfall:
    """The way from one layout to another.

    Attributes:
        steps: the layouts on the way, the first one first.
        order: a note on their order: why a step is slower than both ends; "" where none is.
    """

    steps: tuple[Fall, ...]
    order: str = ""

    def rows(self) -> list[tuple[str, ...]]:
        """Returns the table: each change, the step after it with the difference, bytes sent, and the peak."""
        rows = []
        for before, step in zip((self.steps[0], *self.steps), self.steps, strict=False):
            more = step.seconds - before.seconds
            change = "" if step is self.steps[0] else f"{'+' if more >= 0 else '−'}{seconds_text(abs(more))}"
            figures = (seconds_text(step.seconds), change, bytes_text(step.wire_bytes), bytes_text(step.peak_bytes))
            rows.append((step.change, *figures))
        return rows

    def to_dict(self) -> list[dict[str, Any]]:
        """Returns the steps as JSON-able data."""
        return [{**dataclasses.asdict(step), "layout": step.layout.to_dict()} for step in self.steps]

    def __str__(self):
        return "\n".join(filter(None, (text_rows([_HEADS, *self.rows()]), self.order)))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_rows(self.rows(), _HEADS) + (f"<p>{self.order}</p>" if self.order else "")


_HEADS = ("", "step", "change", "bytes sent", "peak")
# Rules as they are compared: those of dims (key "" and the dim), of places and of scopes.
_Key = tuple[str, str]
_Rules = Mapping[_Key, Any]


def waterfall(
    pricer: Pricer, first: Layout, last: Layout, pause: Callable[[], Any] = lambda: None, plans: int = _PLANS
) -> Waterfall:
    """Returns the way from one layout to another; both must be legal.

    Args:
        pricer: of the program on the mesh.
        first: the layout to begin with.
        last: the one to end with.
        pause: called before each plan; it may wait.
        plans: so many are made at most to look for an order.
    """
    walk = _Walk(pricer, first, last, pause)
    steepest = walk.on_from(())
    if walk.worst(steepest) <= walk.limit:
        return walk.told(steepest)
    return walk.told(*walk.searched(steepest, plans))


# A change of several rules at once where none is legal alone, and what the layout after it costs.
_Step = tuple[tuple[_Key, ...], LayoutPrice]
_Path = tuple[_Step, ...]


class _Walk:
    """The orders of the changes between two layouts.

    Attributes:
        limit: the seconds of the slower of both.
    """

    def __init__(self, pricer: Pricer, first: Layout, last: Layout, pause: Callable[[], Any]):
        start, end = pricer.price(first), pricer.price(last)
        assert start is not None, "its caller has planned it"
        assert end is not None, "its caller has planned it"
        self._pricer, self._start, self._pause = pricer, start, pause
        self._here, self._there = _rules(first), _rules(last)
        self._keys = [k for k in dict.fromkeys((*self._here, *self._there)) if self._here.get(k) != self._there.get(k)]
        self._known: dict[frozenset[_Key], LayoutPrice | None] = {}
        self.limit = max(start.seconds, end.seconds)

    def worst(self, path: _Path) -> float:
        """The seconds of the slowest step, both ends among them."""
        return max((price.seconds for _, price in path), default=self.limit)

    def on_from(self, path: _Path) -> _Path:
        """Goes on to the end, each time by the change after which the step is fastest."""
        while steps := self._next(path):
            path = (*path, min(steps, key=lambda step: step[1].seconds))
        return path

    def searched(self, known: _Path, plans: int) -> tuple[_Path, str]:
        """Searches for the order whose slowest step is fastest, as long as some are slower than both ends.

        Args:
            known: an order.
            plans: so many are made at most.

        Returns:
            The order, and what is to be said of it.
        """
        until, number = self._pricer.plans + plans, itertools.count()
        waiting: list[tuple[float, int, float, int, _Path]] = [(self.limit, 0, 0.0, next(number), ())]
        seen: set[frozenset[_Key]] = set()
        while waiting:
            worst, *_, path = heapq.heappop(waiting)
            done = _done(path)
            if len(done) == len(self._keys):
                return path, _NO_ORDER if worst > self.limit else ""
            if done in seen:
                continue
            if self._pricer.plans >= until:
                return min(self.on_from(path), known, key=self.worst), f"{_NOT_MET} {plans:,} plans."
            seen.add(done)
            for step in self._next(path):
                longer = (*path, step)
                seconds = step[1].seconds
                heapq.heappush(waiting, (max(worst, seconds), -len(_done(longer)), seconds, next(number), longer))
        raise AssertionError("with all changes it is the last layout, which is legal")

    def _next(self, path: _Path) -> list[_Step]:
        """The changes that may be made next: as few at once as any legal one needs."""
        done = _done(path)
        left = [key for key in self._keys if key not in done]
        for count in range(1, len(left) + 1):
            if _TOGETHER < count < len(left):
                continue
            tried = [(keys, self._price(done.union(keys))) for keys in itertools.combinations(left, count)]
            if legal := [(keys, price) for keys, price in tried if price is not None]:
                return legal
        return []

    def _price(self, done: frozenset[_Key]) -> LayoutPrice | None:
        if done not in self._known:
            self._pause()
            self._known[done] = self._pricer.price(_layout(_changed(self._here, self._there, done)))
        return self._known[done]

    def told(self, path: _Path, order: str = "") -> Waterfall:
        """Puts an order into words."""
        steps = [_step("yours", self._start)]
        for keys, price in path:
            steps.append(_step("; ".join(_said(key, self._there.get(key)) for key in keys), price))
        return Waterfall(tuple(steps), order)


def _done(path: _Path) -> frozenset[_Key]:
    return frozenset(key for keys, _ in path for key in keys)


def _rules(layout: Layout) -> _Rules:
    rules: dict[_Key, Any] = {("", dim): axes for dim, axes in layout.dim_rules}
    return rules | {(glob, ""): own for glob, own in (*layout.place_rules, *layout.scope_rules)}


def _changed(here: _Rules, there: _Rules, keys: Collection[_Key]) -> _Rules:
    """The rules after some changes, those of the last layout in its order behind those that it does not have."""
    changed = {key: there.get(key) if key in keys else own for key, own in {**dict.fromkeys(there), **here}.items()}
    ordered = (*(key for key in changed if key not in there), *there)
    return {key: own for key in ordered if (own := changed[key]) is not None}


def _layout(rules: _Rules) -> Layout:
    dims = tuple(sorted((dim, axes) for (glob, dim), axes in rules.items() if not glob))
    by_glob = [(glob, own) for (glob, _), own in rules.items() if glob]
    places = tuple(pair for pair in by_glob if not pair[0].startswith("@"))
    return Layout(dims, places, tuple(pair for pair in by_glob if pair[0].startswith("@")))


def _said(key: _Key, axes: tuple[str, ...] | DimRules | None) -> str:
    glob, dim = key
    if not glob:
        return f"{dim} on {'+'.join(map(str, axes))}" if axes else f"{dim} whole"
    if axes is None:
        return f"no rules at {glob}"
    rules = (f"{name}:{'+'.join(own) or 'whole'}" for name, own in axes)
    return f"{glob}: {' '.join(rules)}"


def _step(change: str, price: LayoutPrice) -> Fall:
    return Fall(change, price.layout, price.seconds, price.plan.wire_bytes, price.peak_bytes)
