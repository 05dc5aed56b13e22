"""Cost tables: what a layout costs, as a sum over small sets of dims.

    cost(layout) = Σ over sets S of table[S][the part of the layout that is about S]

A set of dims stands for everything whose cost depends on these dims alone, so a hundred equal layers add to the same
few entries. Traffic tables are filled from real plans: a layout of all dims is planned once, and what it sends for each
value is noted in the table of the value's set, under the part of the layout that is about that set. A handful of such
plans covers every entry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from .space import Space, Splits, restricted

Dims = frozenset[str]


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
    """Returns, for each set, a set among them that holds it and lies in no other: one table does for both."""
    distinct = sorted(set(sets), key=lambda s: (-len(s), sorted(s)))
    largest: list[Dims] = []
    home: dict[Dims, Dims] = {}
    for dims in distinct:
        within = next((s for s in largest if dims <= s), None)
        if within is None:
            largest.append(dims)
        home[dims] = within or dims
    return home


def traffic_tables(
    space: Space, sites: Mapping[int, Dims], sent: Callable[[Splits], Mapping[int, float]]
) -> tuple[tuple[Table, ...], int]:
    """Fills the tables of traffic.

    Args:
        space: the legal layouts.
        sites: for each value the dims that decide what is sent for it.
        sent: what a layout sends, by value.

    Returns:
        The tables, and how many layouts were planned for them.
    """
    home = folded(space.free(dims) for dims in sites.values())
    of_value = {value: home[space.free(dims)] for value, dims in sites.items()}
    costs: dict[Dims, dict[Splits, float]] = {dims: {} for dims in set(home.values())}
    planned = covering(space, tuple(costs))
    for layout in planned:
        new = {dims: part for dims in costs if (part := restricted(layout, dims)) not in costs[dims]}
        for dims, part in new.items():
            costs[dims][part] = 0.0
        for value, amount in sent(layout).items():
            dims = of_value[value]
            if dims in new:
                costs[dims][new[dims]] += amount
    return tuple(Table(dims, entries) for dims, entries in costs.items()), len(planned)


def covering(space: Space, sets: Sequence[Dims]) -> list[Splits]:
    """Returns few legal layouts such that every layout of every set is a part of one of them."""
    missing = {dims: dict.fromkeys(space.splits(dims)) for dims in sets}
    found = []
    while any(missing.values()):
        layout, decided = space.pinned, frozenset(d for d, _ in space.pinned)
        for dims in sorted(missing, key=lambda s: (-len(missing[s]), sorted(s))):
            part = _fitting(space, missing[dims], layout, dims, decided)
            if part is not None:
                layout, decided = layout | part, decided | dims
        found.append(layout)
        for dims, parts in missing.items():
            parts.pop(restricted(layout, dims), None)
    return found


def _fitting(space: Space, parts: Iterable[Splits], layout: Splits, dims: Dims, decided: Dims) -> Splits | None:
    """The first of a set's parts that agrees with what is decided, and may stand beside it."""
    known = restricted(layout, dims)
    for part in parts:
        if restricted(part, decided) == known and all(space.fits(*pair, layout) for pair in part - known):
            return part
    return None
