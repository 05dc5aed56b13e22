"""Why no layout does all that is asked: the constraints that are in the way, each tried by a search without it.

    [str(each) for each in in_the_way(asked)]
    ['without the pin `batch:data`, `batch:model` holds 61.2 GB']

A search without a constraint ends with the first layout that fits, and after a few seconds in any case: what is not
found until then is not told.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

from ...cost.machines.units import bytes_text
from ...engine.specs.layout import Layout
from ..request.answer import Asked, Limits
from ..request.constraints import NONE, Constraints
from .least_peak import LeastPeak
from .pricer import LayoutPrice, Pricer
from .space import search_space

# Seconds for one constraint, and for all of them.
_EACH, _ALL = 3.0, 15.0


@dataclasses.dataclass(frozen=True)
class Obstacle:
    """A constraint without which a layout fits.

    Attributes:
        constraint: in words.
        layout: one that fits without it.
        peak_bytes: of that layout.
    """

    constraint: str
    layout: Layout
    peak_bytes: int

    def __str__(self):
        return f"without {self.constraint}, `{self.layout or 'nothing sharded'}` holds {bytes_text(self.peak_bytes)}"


def in_the_way(asked: Asked) -> tuple[Obstacle, ...]:
    """Returns the constraints each of which keeps all layouts out; where none does alone, all of them as one."""
    until, found = time.perf_counter() + _ALL, []
    for words, without in _each_left_out(asked.constraints):
        if time.perf_counter() < until and (price := _fitting(asked, without)) is not None:
            found.append(Obstacle(words, price.layout, price.peak_bytes))
    several = sum(1 for _ in _each_left_out(asked.constraints)) > 1
    if not found and several and (price := _fitting(asked, NONE)) is not None:
        found.append(Obstacle("all that is pinned, forbidden and silent", price.layout, price.peak_bytes))
    return tuple(found)


def _fitting(asked: Asked, constraints: Constraints) -> LayoutPrice | None:
    """A layout that fits under other constraints; None where none was met."""
    most, pricer = asked.limits.most_bytes, Pricer(asked.program, asked.mesh, asked.options)
    watch = asked.limits.watch
    search = LeastPeak(search_space(pricer, constraints, watch), pricer, Limits(seconds=_EACH, watch=watch))
    for found in search.run():
        if found.plan is not None and (most is None or found.value <= most):
            return search.best
    return None


def _each_left_out(constraints: Constraints) -> Iterator[tuple[str, Constraints]]:
    """Yields each constraint in words, with all the others."""
    pinned = constraints.pinned
    for dim, axes in pinned.dim_rules:
        rules = tuple(rule for rule in pinned.dim_rules if rule[0] != dim)
        without = dataclasses.replace(pinned, dim_rules=rules)
        yield f"the pin `{dim}:{'+'.join(axes)}`", dataclasses.replace(constraints, pinned=without)
    for dim in sorted(constraints.whole):
        without = dataclasses.replace(pinned, whole=tuple(each for each in pinned.whole if each != dim))
        whole = constraints.whole - {dim}
        yield f"the pin of `{dim}` whole", dataclasses.replace(constraints, pinned=without, whole=whole)
    for glob in (*pinned.places, *pinned.scopes):
        places = tuple(rule for rule in pinned.place_rules if rule[0] != glob)
        scopes = tuple(rule for rule in pinned.scope_rules if rule[0] != glob)
        without = dataclasses.replace(pinned, place_rules=places, scope_rules=scopes)
        yield f"the pin at `{glob}`", dataclasses.replace(constraints, pinned=without)
    for dim, axis in sorted(constraints.forbidden):
        forbidden = constraints.forbidden - {(dim, axis)}
        yield f"`{dim}` never on `{axis}`", dataclasses.replace(constraints, forbidden=forbidden)
    for axis in sorted(constraints.silent):
        yield f"`{axis}` silent", dataclasses.replace(constraints, silent=constraints.silent - {axis})
