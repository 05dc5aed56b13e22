"""From one layout to another, one change at a time: what each of them brings.

    print(choice.waterfall("batch:data heads:model ffn:model"))

                                step     bytes sent  peak
    yours                       2.34 s   72.8 GB     42.8 GB
    batch on data+model         …
    auto                        1.87 s   44.7 GB     14.3 GB

A change is the axes of one dim where it is computed, or all rules of one place or scope. Of the changes that are left
the one is made next that is legal by itself and leaves the shortest step; where none is, as many together as it takes.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ...cost.machines.units import bytes_text, seconds_text
from ...engine.specs.layout import DimRules, Layout
from ...engine.tables import html_rows, text_rows
from ..best_first.pricer import LayoutPrice, Pricer

# Up to so many changes are tried together, where none is legal by itself.
_TOGETHER = 4


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
    """

    steps: tuple[Fall, ...]

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
        return text_rows([_HEADS, *self.rows()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_rows(self.rows(), _HEADS)


_HEADS = ("", "step", "change", "bytes sent", "peak")
# Rules as they are compared: those of dims (key "" and the dim), of places and of scopes.
_Key = tuple[str, str]
_Rules = Mapping[_Key, Any]


def waterfall(pricer: Pricer, first: Layout, last: Layout) -> Waterfall:
    """Returns the way from one layout to another; both must be legal."""
    start, end = pricer.price(first), pricer.price(last)
    assert start is not None, "its caller has planned it"
    assert end is not None, "its caller has planned it"
    here, steps = _rules(first), [_step("yours", start)]
    left = [key for key in dict.fromkeys((*here, *_rules(last))) if here.get(key) != _rules(last).get(key)]
    while left:
        keys, price = _next(pricer, here, _rules(last), left)
        here = _changed(here, _rules(last), keys)
        left = [key for key in left if key not in keys]
        steps.append(_step("; ".join(_said(key, here.get(key)) for key in keys), price))
    return Waterfall(tuple(steps))


def _next(pricer: Pricer, here: _Rules, there: _Rules, left: Sequence[_Key]) -> tuple[tuple[_Key, ...], LayoutPrice]:
    """The changes to make next, and what the layout after them costs."""
    for count in range(1, len(left) + 1):
        if _TOGETHER < count < len(left):
            continue
        tried = [
            (keys, pricer.price(_layout(_changed(here, there, keys)))) for keys in itertools.combinations(left, count)
        ]
        legal = [(keys, price) for keys, price in tried if price is not None]
        if legal:
            return min(legal, key=lambda pair: pair[1].seconds)
    raise AssertionError("with all changes it is the last layout, which is legal")


def _rules(layout: Layout) -> _Rules:
    rules: dict[_Key, Any] = {("", dim): axes for dim, axes in layout.dim_rules}
    return rules | {(glob, ""): own for glob, own in (*layout.place_rules, *layout.scope_rules)}


def _changed(here: _Rules, there: _Rules, keys: Sequence[_Key]) -> _Rules:
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
