"""Single changes of a layout: a dim on other axes, or whole, or without a rule, in one place; or a preset in its place.

    >>> [str(each) for each in changes(program, mesh, Layout.of("batch:data"))][:2]
    ['`batch` without a rule', '`batch` on `data+model`']

A place is the compute rules, a scope that the layout has rules in, a tag, an output, an argument, or a tree of
arguments. It is what a hand can change at once: a search tries all of it on its answer (`polish`).

Not changed are the places of outputs that the next call takes as arguments: they are stored as those. Stored otherwise
an output would save this step what the next one pays (`handed_on`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from ...engine.errors import LayoutError
from ...engine.legality.asked import as_asked
from ...engine.legality.legal_rules import LegalRules
from ...engine.programs.program import Program, analysis
from ...engine.programs.trained import donors, trained
from ...engine.programs.zigzagged import position_pairs
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from ...engine.specs.spec import Axes
from ...engine.specs.zigzag import Zigzag, around, ordered_as
from ...layouts.by_name import PRESETS
from ...layouts.given_globs import exact
from .extras import some


@dataclasses.dataclass(frozen=True)
class RuleChange:
    """A rule that a layout gets, or loses.

    Attributes:
        at: the glob of the place or the scope; "" for compute rules.
        dim: the dim.
        axes: its mesh axes, none where it is whole there; None: it has no rule.
    """

    at: str
    dim: str
    axes: Axes | None

    def applied(self, layout: Layout) -> Layout:
        """Returns a layout with the change; what has rules keeps its position, since the last that matches counts."""
        if not self.at:
            return layout.with_rule(self.dim, self.axes or ())
        name = "scope_rules" if self.at.startswith("@") else "place_rules"
        by_glob = dict(getattr(layout, name))
        rules = {dim: axes for dim, axes in by_glob.get(self.at, ()) if dim != self.dim}
        if self.axes is not None:
            rules[self.dim] = self.axes
        by_glob[self.at] = tuple(sorted(rules.items()))
        return dataclasses.replace(layout, **{name: tuple((glob, own) for glob, own in by_glob.items() if own)})

    def __str__(self):
        where = f" at `{self.at}`" if self.at else ""
        on = around(self.axes or (), "+".join(self.axes or ()))
        how = "without a rule" if self.axes is None else f"on `{on}`" if self.axes else "whole"
        return f"`{self.dim}` {how}{where}"


@dataclasses.dataclass(frozen=True)
class Preset:
    """A preset in the place of a layout, or of what it has on some axes."""

    name: str
    layout: Layout
    at: str = ""

    def applied(self, layout: Layout) -> Layout:
        return self.layout

    def __str__(self):
        return f"the preset `{self.name}`{self.at}"


def changes(program: Program, mesh: Mesh, layout: Layout) -> Iterator[RuleChange | Preset]:
    """Yields every single change of a layout, legal or not."""
    ordered = {dim for _, *pair in position_pairs(as_asked(program, mesh, layout)) for dim in pair}
    for at, dims in _places(program, layout).items():
        rules, computes = _rules(layout, at), not at or at.startswith("@")
        for dim in dims:
            now = rules.get(dim)
            here = _axes_at(program, layout, at, dim)
            options = dict.fromkeys(_options(mesh, now, here))
            if now and computes and dim in ordered:
                options |= dict.fromkeys((tuple(now), Zigzag(now)))
            yield from (RuleChange(at, dim, axes) for axes in options if axes != now and (at or axes != ()))
    for name, preset in PRESETS.items():
        try:
            yield Preset(name, preset(program, mesh))
        except LayoutError:
            continue


def _options(mesh: Mesh, now: Axes | None, here: Axes) -> Iterator[Axes | None]:
    """The axes that a dim may get where it has `now` by its own rule there, and `here` by what counts there."""
    yield from (None, (), *some(mesh.axes))
    for axis in mesh.axes:
        yield from (ordered_as(there, (*there, axis)) for there in (now or (), here) if axis not in there)


def _rules(layout: Layout, at: str) -> Mapping[str, Axes]:
    by_glob = layout.scopes if at.startswith("@") else layout.places
    return by_glob.get(at, {}) if at else layout.rules


def _axes_at(program: Program, layout: Layout, at: str, dim: str) -> Axes:
    """The axes of a dim where it is stored or computed now, at the first of the places that a glob matches."""
    place = next((p for p in _matched(program, at) if dim in program.place_dims[p]), "") if at else ""
    usual = layout.rules.get(dim, ())
    if not place:
        return usual
    given = [rules[dim] for glob, rules in layout.places.items() if dim in rules and place in _matched(program, glob)]
    return given[-1] if given else usual


def _places(program: Program, layout: Layout) -> dict[str, tuple[str, ...]]:
    """The places that can be changed, with the dims that are there; larger ones first, compute rules before all."""
    kept = handed_on(program).keys()
    every = [place for place, dims in program.place_dims.items() if any(dims) and place not in kept]
    trees: dict[str, list[str]] = {}
    for place in every:
        path = exact(place).split("/")
        for depth in range(1, len(path)):
            trees.setdefault("/".join((*path[:depth], "*")), []).append(place)
    globs = [glob for glob, below in trees.items() if len(below) > 1 and kept.isdisjoint(program.matching(glob))]
    named = dict.fromkeys((*(glob for glob, _ in layout.place_rules), *globs, *map(exact, every)))
    found = {"": tuple(program.dims)}
    for glob, _ in layout.scope_rules:
        dims = program.dims_in(glob)
        found[glob] = tuple(dim for dim in program.dims if dim in dims)
    for glob in named:
        dims = frozenset[str]().union(*(program.place_dims[place] for place in _matched(program, glob)))
        found[glob] = tuple(dim for dim in program.dims if dim in dims)
    return found


def _matched(program: Program, glob: str) -> tuple[str, ...]:
    """The places that a glob matches; one that ends in `?` may be optional."""
    return program.matching(glob) or program.matching(glob.removesuffix("?"))


@analysis
def handed_on(program: Program) -> Mapping[str, tuple[str, ...]]:
    """Returns the places of the outputs that are the next call's arguments, with that of the argument.

    Where it is not known which of several arguments an output becomes, it has all parameters of its dims and sizes.
    """
    kinds, carried = trained(program), donors(program)
    positions = sorted(kinds.parameters | kinds.state)
    like: dict[tuple, tuple[str, ...]] = {}
    for argument in (program.arguments[position] for position in positions):
        kind = program.names[argument.value], program.code.shapes[argument.value]
        like[kind] = (*like.get(kind, ()), argument.place)
    found = {}
    for position, (place, value) in enumerate(zip(program.outputs, program.code.block.outputs, strict=True)):
        if position in carried:
            found[place] = (program.arguments[carried[position]].place,)
        elif isinstance(value, int) and program.place_dims[place]:
            found[place] = like.get((program.names[value], program.code.shapes[value]), ())
    return {place: arguments for place, arguments in found.items() if arguments}


def otherwise(program: Program, rules: LegalRules) -> frozenset[str]:
    """Returns the outputs that are stored otherwise than the arguments that they become in the next call."""

    def stored(place: str, dims: Iterable[str]) -> tuple[Axes, ...]:
        own = {**rules.compute, **rules.storage.get(place, {})}
        return tuple(own.get(dim, ()) for dim in dims)

    def differs(out: str, arguments: Iterable[str]) -> bool:
        dims = sorted(program.place_dims[out])
        return all(stored(argument, dims) != stored(out, dims) for argument in arguments)

    return frozenset(out for out, arguments in handed_on(program).items() if differs(out, arguments))
