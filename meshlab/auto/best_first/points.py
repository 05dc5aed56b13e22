"""The space of a search by time: layouts by what they are for.

A layout of the space makes a choice for each of three roles, on the axes of the mesh:

    computed    batch:data ffn:model             dims that share no operation may share an axis; a dim may have several
    stored      params/* embed:data              which arguments are stored in shards beside that, over which dims
    extra       residual seq:model               what it says besides: rules of a tag, of a scope, in time (`extras`)

What is stored is tied: one set of dims of parameters, along which the storing axes go, for all of them; an argument is
stored over the dim of the set that it has. The sets are the largest of which no parameter has two, and "its largest
dim", as the presets of `ml.layouts` choose it. Either the optimizer's state alone is stored so, or parameters too.
Axes that store are in all orders, behind those that compute; of these several of one dim are in the mesh's order, and
of the best layout in all others (`orders`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping

from ...engine.programs.axis_conflicts import scanned_dims
from ...engine.programs.program import Program
from ...engine.programs.values import Argument
from ...engine.specs.layout import Layout
from ...engine.specs.spec import Axes
from ...layouts.given_globs import layout_of
from ..request.constraints import NONE, Constraints
from .extras import PLAIN, Dims, Extra, Extras, Rules

# For each mesh axis the dims that it splits.
Parts = tuple[Dims, ...]

STATE, ALL = "state", "all"


@dataclasses.dataclass(frozen=True)
class Storage:
    """How parameters and the optimizer's state are stored beside what is computed.

    Attributes:
        over: the mesh axes that split them besides; none: they are stored as they are computed with.
        along: the dims over which, at most one of any argument; none: each over its largest.
        what: "state", the optimizer's state alone, or "all", parameters too.
    """

    over: Axes = ()
    along: Dims = frozenset()
    what: str = ALL


@dataclasses.dataclass(frozen=True)
class Point:
    """One layout of the space.

    Attributes:
        computed: for each axis of the space the dims that it splits.
        stored: how parameters and optimizer state are stored.
        extra: what it says besides.
    """

    computed: Parts
    stored: Storage = Storage()
    extra: Extra = PLAIN


@dataclasses.dataclass(frozen=True, eq=False)
class SearchSpace:
    """The space: everything that a search compares.

    Attributes:
        program: the program.
        axes: the mesh axes that split anything, with their sizes.
        sets: for each of them the sets of dims that it may split.
        left_out: dims that are never split, with the reason.
        parameters: the arguments that are trained.
        state: what the optimizer keeps of them.
        along: the sets of dims along which they may be stored.
        extras: what they may say besides.
        constraints: what every layout must satisfy.
    """

    program: Program
    axes: Mapping[str, int]
    sets: tuple[tuple[Dims, ...], ...]
    left_out: Mapping[str, str]
    parameters: tuple[Argument, ...]
    state: tuple[Argument, ...]
    along: tuple[Dims, ...]
    extras: Extras
    constraints: Constraints = NONE

    @functools.cached_property
    def parameter_dims(self) -> Dims:
        """The dims of all parameters and of the optimizer's state."""
        arguments = (*self.parameters, *self.state)
        return frozenset(d for a in arguments for d in self.program.dims_of(a.value) if d)

    @functools.cached_property
    def tag_dims(self) -> Dims:
        """The dims of everything that is tagged, but gradients."""
        return frozenset(d for tag in self.extras.tags for d in self.program.place_dims[tag])

    def rules(self, computed: Parts) -> dict[str, Axes]:
        """Returns the axes of each dim that is computed in parts."""
        rules: dict[str, Axes] = {}
        for axis, dims in zip(self.axes, computed, strict=True):
            for dim in dims:
                rules[dim] = (*rules.get(dim, ()), axis)
        return {**rules, **self.constraints.pinned.rules}

    def divides(self, rules: Rules) -> bool:
        return all(self.extras.divide(dim, axes) for dim, axes in rules.items())

    def count(self) -> int:
        """The number of points of what is computed, those that do not divide a dim among them."""
        return math.prod(map(len, self.sets))

    def place(self, computed: Parts) -> tuple[int, ...]:
        """The place of a point in arrays that have an axis for each mesh axis."""
        return tuple(sets.index(own) for sets, own in zip(self.sets, computed, strict=True))

    def storages(self, computed: Parts, layers: Dims = frozenset()) -> tuple[Storage, ...]:
        """Returns all ways to store, the one that stores least on a device first; of equal ones the first.

        Args:
            computed: for each axis the dims that it splits.
            layers: the dims on the axis of stages.
        """
        known = self._storages.get((computed, layers))
        if known is None:
            different: dict[tuple, tuple[float, Storage]] = {}
            for stored in self._ways_to_store():
                places = self.places(computed, stored)
                key = tuple(sorted((place, tuple(sorted(rules.items()))) for place, rules in places.items()))
                different.setdefault(key, (self._bytes(computed, places, layers), stored))
            ordered = sorted(different.values(), key=lambda pair: pair[0])
            known = self._storages[computed, layers] = tuple(stored for _, stored in ordered)
        return known

    def extremes(self, computed: Parts, layers: Dims = frozenset()) -> tuple[Storage, ...]:
        """Returns the ways to store that least differ from others in what is beside the arguments at a peak.

        They are the one that stores least, that of what is computed with, and the first with its axes in other orders.
        """
        ways = self.storages(computed, layers)
        first = ways[0]
        orders = (stored for stored in ways[1:] if self._alike(stored, first))
        return tuple(dict.fromkeys((first, ways[-1], *orders)))

    def _alike(self, one: Storage, other: Storage) -> bool:
        return (one.along, one.what) == (other.along, other.what) and frozenset(one.over) == frozenset(other.over)

    @functools.cached_property
    def _storages(self) -> dict[tuple[Parts, Dims], tuple[Storage, ...]]:
        return {}

    def _ways_to_store(self) -> Iterator[Storage]:
        yield Storage()
        whats = (ALL, STATE) if self.state else (ALL,)
        # What is stored in shards besides is gathered where it is used.
        storing = [axis for axis in self.axes if axis not in self.constraints.silent]
        for count in range(1, len(storing) + 1) if self.parameters else ():
            for over in itertools.permutations(storing, count):
                for along in (frozenset[str](), *self.along):
                    yield from (Storage(over, along, what) for what in whats)

    def places(self, computed: Parts, stored: Storage) -> dict[str, dict[str, Axes]]:
        """Returns the axes of each dim of each argument that is stored otherwise than it is computed with."""
        if not stored.over:
            return {}
        arguments = (*(self.parameters if stored.what == ALL else ()), *self.state)
        rules = self.rules(computed)
        places = {}
        for place, dims in ((a.place, self._dims[a.place]) for a in arguments):
            own = tuple([rules.get(dim, ()) for dim in dims])
            key = (dims, own, stored.over, stored.along)
            if key not in self._known:
                self._known[key] = self._in_shards(dims, own, stored)
            if (axes := self._known[key]) is not None:
                places[place] = dict(zip(dims, axes, strict=True))
        return places

    def _in_shards(self, dims: tuple[str, ...], own: tuple[Axes, ...], stored: Storage) -> tuple[Axes, ...] | None:
        """The axes of each dim of an argument, with the storing ones on one of them; None where none can have them.

        Args:
            dims: of the argument.
            own: the axes that each has anyway.
            stored: how arguments are stored.
        """
        there = {axis for axes in own for axis in axes}
        over = tuple(axis for axis in stored.over if axis not in there)
        after = {dim: (*axes, *over) for dim, axes in zip(dims, own, strict=True) if dim not in self._scanned}
        dividing = [dim for dim, axes in after.items() if self.extras.divide(dim, axes)]
        possible = [dim for dim in dividing if not stored.along or dim in stored.along]
        if not over or not possible:
            return None
        first = min(possible, key=lambda dim: (-self.program.dims[dim], dim))
        return tuple(after[dim] if dim == first else axes for dim, axes in zip(dims, own, strict=True))

    @functools.cached_property
    def _known(self) -> dict[tuple, tuple[Axes, ...] | None]:
        return {}

    @functools.cached_property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        """The dims of each argument, by its place."""
        return {a.place: tuple(d for d in self.program.dims_of(a.value) if d) for a in self.program.arguments}

    @functools.cached_property
    def _scanned(self) -> Dims:
        return frozenset(scanned_dims(self.program))

    def argument_bytes(self, point: Point) -> float:
        """The bytes of all arguments on one device."""
        return self._bytes(point.computed, self.places(point.computed, point.stored), point.extra.layers)

    def _bytes(self, computed: Parts, places: Mapping[str, Rules], layers: Dims) -> float:
        rules, stages = self.rules(computed), self.extras.stage_count
        total = 0.0
        for argument, dims, nbytes in self._arguments:
            own = places.get(argument, rules)
            parts = math.prod(self.axes.get(axis, 1) for dim in dims for axis in own.get(dim, ()))
            total += nbytes / (parts if layers.isdisjoint(dims) else parts * stages)
        return total

    @functools.cached_property
    def _arguments(self) -> list[tuple[str, tuple[str, ...], int]]:
        program = self.program
        return [(a.place, self._dims[a.place], program.value(a.value).nbytes) for a in program.arguments]

    def beside(self, computed: Parts) -> tuple[Extra, ...]:
        return self.extras.beside(self.rules(computed))

    def points(self) -> Iterator[Point]:
        for computed in itertools.product(*self.sets):
            if self.divides(self.rules(computed)):
                for extra in self.beside(computed):
                    yield from (Point(computed, stored, extra) for stored in self.storages(computed, extra.layers))

    def layout(self, point: Point) -> Layout:
        rules, places = self.rules(point.computed), self.places(point.computed, point.stored)
        return self._with_pins(self.extras.said(layout_of(self.program, places, rules), rules, point.extra))

    def _with_pins(self, layout: Layout) -> Layout:
        pinned = self.constraints.pinned
        places, scopes = (*layout.place_rules, *pinned.place_rules), (*layout.scope_rules, *pinned.scope_rules)
        return dataclasses.replace(layout, place_rules=places, scope_rules=scopes)

    def constrained(self, layout: Layout) -> Layout | None:
        """Returns a given layout with all that is pinned; None where it breaks a constraint."""
        limits, rules = self.constraints, layout.rules
        pairs = frozenset((dim, axis) for dim, axes in rules.items() for axis in axes)
        if pairs & limits.forbidden or rules.keys() & limits.whole:
            return None
        if any(rules.get(dim, axes) != axes for dim, axes in limits.pinned.dim_rules):
            return None
        computed = tuple(sorted({**rules, **limits.pinned.rules}.items()))
        return self._with_pins(dataclasses.replace(layout, dim_rules=computed))
