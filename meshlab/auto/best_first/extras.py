"""What a layout of the space may say beside what is computed and stored, one of each kind at most.

tagged      residual seq:model               a dim of a tag that the model offers, on axes that none of its dims has
turned      @core heads:model seq:None       in a scope that the user names, dims give axes to others
blocks      batch:data+micro                 the batch, or other dims of data, in micro-batches
layers      batch:data+micro layers:pipe     the layers in stages that micro-batches pass through; of two stacks both
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

from ...engine.programs.program import Program
from ...engine.specs.layout import DimRules, Layout
from ...engine.specs.spec import Axes

Dims = frozenset[str]
Rules = Mapping[str, Axes]


@dataclasses.dataclass(frozen=True)
class Tagged:
    """The axes on which a dim of a tag is stored beside those that it is computed on."""

    tag: str
    dim: str
    over: Axes


@dataclasses.dataclass(frozen=True)
class Turned:
    """The axes that dims of a scope give to other dims there."""

    scope: str
    over: Axes
    onto: Dims


@dataclasses.dataclass(frozen=True)
class Extra:
    """What one layout says beside what is computed and stored.

    Attributes:
        tagged: the tag that is stored otherwise, if one is.
        turned: the scope that is computed otherwise, if one is.
        blocks: the dims on the axis in time.
        layers: the dims on the axis of stages: several where two stacks have layers of their own.
    """

    tagged: Tagged | None = None
    turned: Turned | None = None
    blocks: Dims = frozenset()
    layers: Dims = frozenset()

    @property
    def in_one_piece(self) -> Extra:
        """The same without micro-batches."""
        return dataclasses.replace(self, blocks=frozenset(), layers=frozenset())


PLAIN = Extra()


@dataclasses.dataclass(frozen=True)
class ScopedDims:
    """The dims that operations of a scope have, and the sets of them that may be given axes there."""

    dims: Dims
    onto: tuple[Dims, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Extras:
    """All extras of a space.

    Attributes:
        program: the program.
        sizes: of all axes of the mesh.
        tags: for each tag the dims that may go on axes of their own there.
        scopes: by glob, those that may be computed otherwise.
        loop: the axis in time; "" where there is none.
        in_time: the sets of dims that may be on it.
        stages: the axis of stages; "" where there is none.
        layers: for each of these sets the dims that are on it together in a pipeline, if one can be planned.
        ticks: how often more than they work the stages take their turn, at least: waiting at both ends of a step.
    """

    program: Program
    sizes: Mapping[str, int]
    tags: Mapping[str, Dims]
    scopes: Mapping[str, ScopedDims] = dataclasses.field(default_factory=dict)
    loop: str = ""
    in_time: tuple[Dims, ...] = ()
    stages: str = ""
    layers: Mapping[Dims, Dims] = dataclasses.field(default_factory=dict)
    ticks: float = 1.0

    @property
    def stage_count(self) -> int:
        """The number of stages that layers may be on; 1 where none may."""
        return self.ways([self.stages]) if self.layers else 1

    @property
    def stepped(self) -> Dims:
        """All dims of layers that may be on the axis of stages."""
        return frozenset[str]().union(*self.layers.values())

    def ways(self, axes: Iterable[str]) -> int:
        """The number of parts that axes split a dim into; one of a single device may be pinned, and splits nothing."""
        return math.prod(self.sizes.get(axis, 1) for axis in axes)

    def divide(self, dim: str, axes: Axes) -> bool:
        return self.program.dims[dim] % self.ways(axes) == 0

    def beside(self, rules: Rules) -> tuple[Extra, ...]:
        """Returns all that may stand beside what is computed, nothing first."""
        blocks = [(dims, frozenset[str]()) for dims in (frozenset[str](), *self.in_time) if self._goes(dims, rules)]
        blocks += [(dims, self.layers[dims]) for dims, _ in blocks if dims in self.layers]
        turned = (None, *self._turned(rules))
        tagged = (None, *self._tagged(rules))
        return tuple(Extra(tag, turn, *both) for both, turn, tag in itertools.product(blocks, turned, tagged))

    def said(self, layout: Layout, rules: Rules, extra: Extra) -> Layout:
        """Returns a layout with the rules of an extra.

        Args:
            layout: as it is computed and stored.
            rules: the axes of each dim that is computed in parts.
            extra: what it says besides.
        """

        def in_time(pairs: Iterable[tuple[str, Axes]]) -> DimRules:
            return tuple((dim, (*axes, self.loop) if dim in extra.blocks else axes) for dim, axes in pairs)

        places, scopes = layout.place_rules, layout.scope_rules
        if (tag := extra.tagged) is not None:
            places = (*places, (tag.tag, in_time([(tag.dim, (*rules.get(tag.dim, ()), *tag.over))])))
        if (turn := extra.turned) is not None:
            scopes = (*scopes, (turn.scope, in_time(sorted(self._in_scope(rules, turn).items()))))
        computed = in_time((dim, rules.get(dim, ())) for dim in sorted({*rules, *extra.blocks}))
        computed = tuple(sorted((*computed, *((dim, (self.stages,)) for dim in extra.layers))))
        return dataclasses.replace(layout, dim_rules=computed, place_rules=places, scope_rules=scopes)

    def _goes(self, dims: Dims, rules: Rules) -> bool:
        return all(self.divide(dim, (*rules.get(dim, ()), self.loop)) for dim in dims)

    def _tagged(self, rules: Rules) -> Iterator[Tagged]:
        for tag, dims in self.tags.items():
            taken = {axis for dim in self.program.place_dims[tag] for axis in rules.get(dim, ())}
            free = [axis for axis in self.sizes if axis not in (*taken, self.loop, self.stages)]
            for dim, over in itertools.product(sorted(dims), some(free)):
                if self.divide(dim, (*rules.get(dim, ()), *over)):
                    yield Tagged(tag, dim, over)

    def _turned(self, rules: Rules) -> Iterator[Turned]:
        for glob, scope in self.scopes.items():
            there = {axis for dim in scope.dims for axis in rules.get(dim, ())}
            given = [axis for axis in self.sizes if axis in there and axis != self.loop]
            for over, onto in itertools.product(some(given), scope.onto):
                turned = Turned(glob, over, onto)
                inside = self._in_scope(rules, turned)
                if inside and all(self.divide(dim, axes) for dim, axes in inside.items()):
                    yield turned

    def _in_scope(self, rules: Rules, turned: Turned) -> dict[str, Axes]:
        """The axes of each dim that has others in the scope."""
        inside = {}
        for dim in self.scopes[turned.scope].dims:
            own = rules.get(dim, ())
            after = {axis for axis in own if axis not in turned.over} | set(turned.over if dim in turned.onto else ())
            if after != set(own):
                inside[dim] = tuple(axis for axis in self.sizes if axis in after)
        return inside


def some(axes: Iterable[str]) -> list[Axes]:
    """Returns all choices of at least one of the axes, those of one axis first."""
    each = tuple(axes)
    return [some for count in range(1, len(each) + 1) for some in itertools.combinations(each, count)]
