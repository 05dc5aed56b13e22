"""Sequences on mesh axes in ways that no point of a space has: what takes several rules at once, around attention.

    batch:data ffn:model   →   batch:data kv:zigzag(model) seq:zigzag(model)      a balanced ring over `model`

Attention that is written with arrays is another program in a ring (`as_asked`), zig-zag order is inside of attention
alone, and USP has rules in a scope. So a search begins with such layouts, and tries them on its answer, in the place of
what is on the same axes: parameters and state stored as they were, or in the smallest parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ...engine.attention.recognise import around, recognised
from ...engine.errors import LayoutError
from ...engine.legality.asked import as_asked
from ...engine.programs.zigzagged import position_pairs, zigzags
from ...engine.specs.layout import DimRules, Layout
from ...engine.specs.mesh import Mesh
from ...engine.specs.spec import Axes
from ...engine.specs.zigzag import Zigzag, ordered_as
from ...layouts.context import in_zigzag_order
from ...layouts.given_globs import layout_of
from .changes import Preset
from .extras import some
from .points import SearchSpace
from .recipes import contexts, recipes


def beginnings(space: SearchSpace, mesh: Mesh, as_written: bool = False) -> Iterator[Layout]:
    """Yields the layouts that a search begins with: the recipes, rings with parameters in the smallest parts as well.

    Args:
        space: of the search.
        mesh: its mesh.
        as_written: whether those are left out that have attention as an operation, of a program without one.
    """
    for _, recipe in recipes(space.program, mesh):
        if as_written and as_asked(space.program, mesh, recipe) is not space.program:
            continue
        ways = (recipe, in_smallest_parts(space, recipe)) if _is_elsewhere(space, mesh, recipe) else (recipe,)
        for way in dict.fromkeys(ways):
            if (layout := space.constrained(way)) is not None:
                yield layout


def elsewhere(space: SearchSpace, mesh: Mesh, layout: Layout) -> Iterator[Preset]:
    """Yields a layout with a sequence on each choice of axes, in place of what is there, in each way that is legal.

    Args:
        space: of the search.
        mesh: its mesh.
        layout: the answer so far.
    """
    if not around(space.program):
        return
    yield from _otherwise_ordered(space, mesh, layout)
    for over in some(space.axes):
        left = _without(space, layout, over)
        for name, axes, make in contexts(space.program, mesh, over):
            try:
                changed = left & make()
            except LayoutError:
                continue
            on = f" on `{'+'.join(axes)}`"
            yield Preset(name, changed, f"{on}, beside the rest")
            yield Preset(name, in_smallest_parts(space, changed), f"{on}, parameters in the smallest parts")


def in_smallest_parts(space: SearchSpace, layout: Layout) -> Layout:
    """Returns a layout with parameters and state in the smallest parts that its compute rules allow for."""
    computed = tuple(frozenset(dim for dim, axes in layout.dim_rules if axis in axes) for axis in space.axes)
    places = space.places(computed, space.storages(computed)[0])
    stored = layout_of(space.program, places, space.rules(computed)).place_rules
    tags = tuple(pair for pair in layout.place_rules if pair[0] in space.program.tags)
    return dataclasses.replace(layout, place_rules=(*stored, *tags))


def tried_alone(space: SearchSpace) -> tuple[str, ...]:
    """Returns the ways to attend, in words, that no point of the space has: presets and single changes alone do."""
    program, pairs = space.program, around(space.program)
    inside = any(frozenset(pair) <= dims for pair in pairs for sets in space.sets for dims in sets)
    ordered = any(position_pairs(each) for each in (program, *(recognised(program, *pair) for pair in pairs)))
    return (*(["rings"] if pairs and not inside else []), *(["zig-zag orders"] if ordered else []))


def _is_elsewhere(space: SearchSpace, mesh: Mesh, layout: Layout) -> bool:
    """Whether attention is an operation or in zig-zag order for a layout, and for no point of the space."""
    asked = as_asked(space.program, mesh, layout)
    return asked is not space.program or any(zigzags(asked, layout))


def _otherwise_ordered(space: SearchSpace, mesh: Mesh, layout: Layout) -> Iterator[Preset]:
    """Yields a layout with all positions of attention in zig-zag order, and with none."""
    asked = as_asked(space.program, mesh, layout)
    if position_pairs(asked):
        for name, changed in (
            ("zig-zag order", in_zigzag_order(asked, layout)),
            ("the order of positions", _in_their_order(layout)),
        ):
            if changed != layout:
                yield Preset(name, changed)


def _in_their_order(layout: Layout) -> Layout:
    def plain(rules: DimRules) -> DimRules:
        return tuple((dim, tuple(axes) if isinstance(axes, Zigzag) else axes) for dim, axes in rules)

    scopes = tuple((glob, plain(rules)) for glob, rules in layout.scope_rules)
    return dataclasses.replace(layout, dim_rules=plain(layout.dim_rules), scope_rules=scopes)


def _without(space: SearchSpace, layout: Layout, over: Axes) -> Layout:
    """Returns a layout with nothing on some axes but what is stored on them of arguments, outputs and gradients."""

    def left(rules: DimRules) -> DimRules:
        each = ((dim, ordered_as(axes, tuple(a for a in axes if a not in over))) for dim, axes in rules)
        return tuple((dim, axes) for dim, axes in each if axes)

    def by_glob(rules: tuple[tuple[str, DimRules], ...], globs: bool) -> tuple[tuple[str, DimRules], ...]:
        each = ((glob, left(own) if globs or glob in space.program.tags else own) for glob, own in rules)
        return tuple((glob, own) for glob, own in each if own)

    return dataclasses.replace(
        layout,
        dim_rules=left(layout.dim_rules),
        place_rules=by_glob(layout.place_rules, False),
        scope_rules=by_glob(layout.scope_rules, True),
    )
