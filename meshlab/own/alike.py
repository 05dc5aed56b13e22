"""Says whether a plan has a collective for the same cause as XLA's program.

    both = alike(report.beside, plan.collectives, report.collectives, report.axes)
    both.of, both.same        of 40 collectives that both have at a line, 39 are there for the same cause

The plan says why it sends something from its own steps, `ml.explain` from what XLA has compiled: two ways to one fact.
Compared are the collectives of rows of `report.beside` at which as much is sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..engine.plans.collective import Collective
from .beside import Beside, key_of
from .explained import Explained

# What a plan calls a cause, and what `causes.py` calls it.
SAME: Mapping[str, tuple[str, ...]] = {
    "sum": ("summed", "looked_up"),
    "inside": ("along", "summed", "looked_up"),
    "operand": ("otherwise", "made", "read", "along", "constrained", "uneven", "whole", "hop"),
    "stored": ("stored", "otherwise", "made", "hop"),
    "carry": ("made", "read", "otherwise", "along"),
    "branch": ("made", "read", "otherwise"),
}


class Alike(NamedTuple):
    """How many collectives both have, and how many of these are there for the same cause.

    Attributes:
        of: XLA's collectives at rows where as much is sent.
        same: how many of these say what one of the plan's says.
        apart: the others, each with those of the plan at its row.
    """

    of: int
    same: int
    apart: tuple[tuple[Explained, tuple[Collective, ...]], ...]


def alike(beside: Beside, planned: Iterable[Collective], inserted: Iterable[Explained], axes: Iterable[str]) -> Alike:
    """Compares the causes of what both a plan and XLA's program have.

    Args:
        beside: both, by lines.
        planned: the plan's collectives.
        inserted: those of XLA's program.
        axes: the mesh axes, major first.
    """
    equal = {(row.source, row.kind, row.axes) for row in beside.rows if row.is_equal}
    plans: dict[Any, list[Collective]] = defaultdict(list)
    for c in planned:
        plans[key_of(c, list(axes))].append(c)
    both = [(e, tuple(plans[key])) for e in inserted if (key := (str(e.source or "?"), e.kind, e.axes)) in equal]
    apart = tuple((e, those) for e, those in both if not any(is_alike(c, e) for c in those))
    return Alike(len(both), len(both) - len(apart), apart)


def is_alike(planned: Collective, inserted: Explained) -> bool:
    """Whether two collectives are there for the same cause: of the same kind, and of the same dims or result.

    Where an axis is cut into others, a result may have its parts, of which the user has names and XLA has none.
    """
    dims = {dim for name in planned.split for dim in _parts(name)}
    others = {dim for name in inserted.dims for dim in _parts(name)}
    is_one_result = planned.cause == "stored" and planned.value == inserted.value
    return inserted.cause in SAME.get(planned.cause, ()) and (is_one_result or not dims.isdisjoint(others))


def _parts(name: str) -> list[str]:
    """The dims of an axis that is joined of several, and the dim of one that is a part."""
    return [part.split(".")[0] for part in name.split("*")]
