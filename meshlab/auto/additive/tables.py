"""Cost tables: what a layout costs, as a sum over small sets of dims.

    cost(layout) = Σ over sets S of table[S][the part of the layout that is about S]

A set of dims stands for everything whose cost depends on these dims alone, so a hundred equal layers add to the same
few entries. Traffic tables are filled from real plans: a layout of all dims is planned once, and what it sends for each
value is noted in the table of the value's set, under the part of the layout that is about that set. A handful of such
plans covers every entry.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from .space import Dims, Space, Splits, Test, restricted

Parts = Mapping[Dims, tuple[Splits, ...]]


@dataclasses.dataclass(frozen=True)
class Table:
    """The cost of each legal layout of a set of dims.

    Attributes:
        dims: the set.
        costs: the cost of each layout of these dims.
    """

    dims: Dims
    costs: Mapping[Splits, float]


def total(tables: Iterable[Table], splits: Splits) -> float:
    """The cost of a layout."""
    return sum(table.costs[restricted(splits, table.dims)] for table in tables)


def folded(sets: Iterable[Dims]) -> dict[Dims, Dims]:
    """Returns, for each set, a largest one of them that contains it: one table does for both."""
    distinct = sorted(set(sets), key=lambda s: (-len(s), sorted(s)))
    largest: list[Dims] = []
    table_of: dict[Dims, Dims] = {}
    for dims in distinct:
        within = next((s for s in largest if dims <= s), None)
        if within is None:
            largest.append(dims)
        table_of[dims] = within or dims
    return table_of


def parts_of(space: Space, sets: Iterable[Dims], keep: Test | None = None) -> Parts:
    """The legal parts of the largest sets, which no other contains; `keep` as in `Space.splits`."""
    largest = dict.fromkeys(folded(sets).values())
    return {dims: tuple(space.splits(dims, keep)) for dims in largest}


def traffic_tables(
    space: Space, parts: Parts, follows: Mapping[int, Dims], sent: Callable[[Splits], Mapping[int, float]]
) -> tuple[Table, ...]:
    """Fills the tables of traffic.

    Args:
        space: the legal layouts.
        parts: the sets that get a table, with the parts of each.
        follows: for each value the dims that decide what is sent for it, each within one of the sets.
        sent: what a layout sends, by value.
    """
    table_of = {value: next(s for s in parts if space.free(dims) <= s) for value, dims in follows.items()}
    costs: dict[Dims, dict[Splits, float]] = {dims: {} for dims in parts}
    for layout in covering(space, parts):
        amounts: dict[Dims, float] = defaultdict(float)
        for value, amount in sent(layout).items():
            amounts[table_of[value]] += amount
        for image in images(space, layout):
            for dims, entries in costs.items():
                entries.setdefault(restricted(image, dims), amounts[dims])
    return tuple(Table(dims, entries) for dims, entries in costs.items())


def covering(space: Space, parts: Parts) -> list[Splits]:
    """Returns few legal layouts such that every part of every set is a part of one of them, or of its images."""
    missing = {dims: dict.fromkeys(each) for dims, each in parts.items()}
    layouts = []
    while any(missing.values()):
        layout, decided = space.pinned, frozenset(d for d, _ in space.pinned)
        for dims in sorted(missing, key=lambda s: (-len(missing[s]), sorted(s))):
            part = _fitting(space, missing[dims], layout, dims, decided)
            if part is not None:
                layout, decided = layout | part, decided | dims
        layouts.append(layout)
        for image in images(space, layout):
            for dims, rest in missing.items():
                rest.pop(restricted(image, dims), None)
    return layouts


def images(space: Space, layout: Splits) -> list[Splits]:
    """The layouts that a layout becomes when mesh axes of one size change places: they cost the same."""
    by_size = [[a for a, n in space.axes.items() if n == size] for size in dict.fromkeys(space.axes.values())]
    layouts = []
    for orders in itertools.product(*map(itertools.permutations, by_size)):
        pairs = zip(itertools.chain(*by_size), itertools.chain(*orders), strict=True)
        to = dict(pairs)
        layouts.append(frozenset((d, to[a]) for d, a in layout))
    return layouts


def _fitting(space: Space, parts: Iterable[Splits], layout: Splits, dims: Dims, decided: Dims) -> Splits | None:
    """The first of a set's parts that agrees with what is decided, and may stand beside it."""
    known = restricted(layout, dims)
    for part in parts:
        if restricted(part, decided) == known and all(space.fits(*pair, layout) for pair in part - known):
            return part
    return None
