"""Draws legal layouts at random, places and scopes included, to test every promise with.

    for mesh, layout in draw(program, seed=0, count=200): program.plan(mesh, layout).check()

A layout is built rule by rule: a dim goes to mesh axes that are drawn, and stays there if the layout is still legal;
then some places get rules of their own in the same way, and some scopes, where the program has any. So every legal
layout of compute rules can come up, and many of places and scopes. On a mesh with an axis in time one dim, or two, go
on over it in the end, if an iteration can run alone then. All of it is drawn for plans that pad, too, on meshes whose
axes divide few dims.

With `rings` each layout begins with one, in zig-zag order more often than not: of `ml.attention`, and of attention that
is recognised.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..attention.recognise import around
from ..axes.serial import serial
from ..errors import LayoutError
from ..legality.asked import as_asked
from ..legality.examine import resolve
from ..planning.plan_steps import plan_steps
from ..plans.iterations import divided
from ..plans.plan_data import Plan
from ..programs.outline import outline
from ..programs.program import Program
from ..programs.scoped import scoped, scopes
from ..specs.layout import Layout
from ..specs.mesh import Mesh
from ..specs.zigzag import Zigzag, ordered_as

Turn = tuple[Sequence[Mesh], bool]
MESHES = tuple(
    Mesh(shape)
    for shape in (
        (("x", 2),),
        (("x", 4),),
        (("x", 8),),
        (("x", 2), ("y", 2)),
        (("x", 2), ("y", 4)),
        (("x", 4), ("y", 2)),
        (("x", 2), ("y", 2), ("z", 2)),
    )
)

# How often a ring is in zig-zag order.
_ORDERED = 0.6
# How often micro-batches are tried before other dims.
_MOSTLY_BATCH = 0.7
# The same with micro-batches, in all ways to reduce and to gather.
MESHES_IN_TIME = tuple(
    Mesh((*shape, ("t", serial(count, reduce, gather))))
    for shape in ((), (("x", 2),), (("x", 4),), (("x", 2), ("y", 2)), (("x", 2), ("y", 4)))
    for count in (2, 4)
    for reduce, gather in ((None, None), ("once", None), ("each", None), ("once", "each"), ("each", "once"))
)
# Of sizes that divide few dims, for plans that pad; with an axis in time and without.
_ODD_SHAPES = (
    *((("x", size),) for size in (3, 5, 6, 7)),
    *((("x", one), ("y", other)) for one, other in ((3, 2), (2, 3), (2, 4))),
)
ODD_MESHES = tuple(map(Mesh, _ODD_SHAPES))
ODD_MESHES_IN_TIME = tuple(Mesh((*shape, ("t", serial(n)))) for shape in _ODD_SHAPES for n in (2, 3, 4))
# The meshes that are drawn in turn, with whether their plans pad.
TURNS = ((MESHES, False), (MESHES_IN_TIME, False), (ODD_MESHES, True), (ODD_MESHES_IN_TIME, True))


class Drawn(NamedTuple):
    """A layout that was drawn, with its mesh.

    Attributes:
        mesh: the mesh.
        layout: legal on it.
        pad: whether its plan pads what axes do not divide.
    """

    mesh: Mesh
    layout: Layout
    pad: bool = False


def draw_in_turn(
    program: Program, seed: int, count: int, turns: Sequence[Turn] = TURNS, rings: bool = False
) -> Iterator[Drawn]:
    """Draws layouts on all kinds of meshes in turn: plain, with an axis in time, padded, and padded with one.

    Args:
        program: what the layouts are for.
        seed: equal seeds draw equal layouts.
        count: how many at most, of all kinds together.
        turns: the kinds: meshes to draw from, and whether plans pad.
        rings: whether rings on each kind are kinds as well, where the program has attention.
    """
    kinds = [(pad, draw(program, seed, count, meshes, pad)) for meshes, pad in turns]
    if rings and around(program):
        kinds += [(pad, draw(program, seed, count, meshes, pad, rings=True)) for meshes, pad in turns]
    # Whoever draws few begins with another kind for each seed.
    kinds = kinds[seed % len(kinds) :] + kinds[: seed % len(kinds)]
    while kinds and count:
        for kind in tuple(kinds):
            found = next(kind[1], None)
            if found is None:
                kinds.remove(kind)
            elif count:
                count -= 1
                yield Drawn(*found, kind[0])


def draw(
    program: Program,
    seed: int,
    count: int,
    meshes: Sequence[Mesh] = MESHES,
    pad: bool = False,
    *,
    rings: bool = False,
) -> Iterator[tuple[Mesh, Layout]]:
    """Draws different legal layouts.

    Args:
        program: what the layouts are for.
        seed: equal seeds draw equal layouts.
        count: how many at most; fewer where a program has fewer.
        meshes: the meshes to draw from; by default of 2, 4 and 8 devices with one to three axes. On those with an
            axis in time only layouts are drawn that use it.
        pad: whether the layouts are for plans that pad dims which their axes do not divide.
        rings: whether each has a ring.
    """
    chance = random.Random(seed)
    seen = set()
    for _ in range(count * 20):
        mesh = chance.choice(meshes)
        ring = _ring(program, mesh, chance, pad) if rings else {}
        layout = None if rings and not ring else _draw_layout(program, mesh, chance, pad, ring)
        if layout is None:
            continue
        key = (mesh, str(layout))
        if key not in seen:
            seen.add(key)
            yield mesh, layout
        if len(seen) == count:
            return


def _ring(program: Program, mesh: Mesh, chance: random.Random, pad: bool) -> dict[str, Any]:
    """Returns rules for both positions of some attention, on axes that are drawn; none where these are not legal."""
    axes = _axes(mesh, chance)
    ordered = Zigzag(axes) if axes and chance.random() < _ORDERED else axes
    rules = dict.fromkeys(chance.choice(around(program)), ordered) if axes else {}
    return rules if _is_legal(program, mesh, rules, pad) else {}


def _draw_layout(program: Program, mesh: Mesh, chance: random.Random, pad: bool, ring: dict[str, Any]) -> Layout | None:
    rules, dims = dict(ring), [dim for dim in program.dims if dim not in ring]
    chance.shuffle(dims)
    for dim in dims[: chance.randint(0, len(dims))] if mesh.size > 1 else ():
        rules = _extended(program, mesh, rules, {dim: _axes(mesh, chance)}, pad)
    globs = _globs(program)
    for glob in chance.sample(globs, min(len(globs), chance.randint(0, 2))) if mesh.size > 1 else ():
        for _ in range(chance.randint(1, 2)):
            dim = chance.choice(list(program.dims))
            inner = {**rules.get(glob, {}), dim: None if chance.random() < 0.15 else _axes(mesh, chance)}
            rules = _extended(program, mesh, rules, {glob: inner}, pad)
    rules = _with_scopes(program, mesh, rules, chance, pad)
    return _in_time(program, mesh, rules, chance, pad) if mesh.in_time else Layout.of(rules)


def _with_scopes(
    program: Program, mesh: Mesh, rules: dict[str, Any], chance: random.Random, pad: bool
) -> dict[str, Any]:
    """Returns the rules with some for scopes: of a dim that has another rule outside more often than not."""
    names = list(dict.fromkeys(f"@{name}" for scope in scopes(program) for name in scope))
    if not names:
        return rules
    for glob in chance.sample(names, min(len(names), chance.randint(0, 2))):
        for _ in range(chance.randint(1, 3)):
            ruled = [dim for dim in program.dims if dim in rules]
            dim = chance.choice(ruled if ruled and chance.random() < 0.5 else list(program.dims))
            inner = {**rules.get(glob, {}), dim: None if chance.random() < 0.4 else _axes(mesh, chance)}
            rules = _extended(program, mesh, rules, {glob: inner}, pad)
    return rules


def _in_time(program: Program, mesh: Mesh, rules: dict[str, Any], chance: random.Random, pad: bool) -> Layout | None:
    """Returns the layout with a dim, or two, on the axis in time; None where none of those tried can be there."""
    (axis,), dims = mesh.in_time, list(program.dims)
    first = [dim for dim in ("batch", "groups") if dim in dims]
    tried = [first, first[:1], *(chance.sample(dims, min(len(dims), count)) for count in (1, 1, 2))]
    for chosen in tried if chance.random() < _MOSTLY_BATCH else tried[::-1]:
        layout = Layout.of(rules | {dim: ordered_as(now := rules.get(dim, ()), (*now, axis)) for dim in chosen})
        if chosen and _is_accepted(program, mesh, layout, pad):
            return layout
    return None


def _is_accepted(program: Program, mesh: Mesh, layout: Layout, pad: bool) -> bool:
    """Says whether a layout is legal, and its iterations need nothing that only all of them know."""
    try:
        rules = resolve(program, mesh, layout, pad)
        program = scoped(as_asked(program, mesh, layout), mesh, layout)
        planned = plan_steps(program, rules, rules.grid(mesh), outline(program))
        divided(Plan(program, mesh, layout, rules, planned))
    except LayoutError:
        return False
    return True


def _extended(program: Program, mesh: Mesh, rules: dict[str, Any], more: dict[str, Any], pad: bool) -> dict[str, Any]:
    """Returns the rules with more of them, or as they were if that is not legal, or of another program.

    That is one in which attention is an operation, or in one with a ring one in which it is none.
    """
    now, after = (as_asked(program, mesh, Layout.of(each)) for each in (rules, rules | more))
    return rules | more if after is now and _is_legal(program, mesh, rules | more, pad) else rules


def _is_legal(program: Program, mesh: Mesh, rules: dict[str, Any], pad: bool) -> bool:
    try:
        resolve(program, mesh, rules, pad)
    except LayoutError:
        return False
    return True


def _axes(mesh: Mesh, chance: random.Random) -> tuple[str, ...]:
    names = list(mesh.devices.axes)
    chance.shuffle(names)
    several = len(names) > 1 and chance.random() < 0.2
    return tuple(names[: 2 if several else 1])


def _globs(program: Program) -> list[str]:
    parameters = dict.fromkeys(a.parameter for a in program.arguments)
    globs = [f"{p}/*" if p not in program.places else p for p in parameters]
    single = [p for p in program.places if p.startswith("out/")][:3]
    roots = dict.fromkeys(f"{place.split('/')[0]}/*" for place in program.gradients)
    gradients = (*roots, *list(program.gradients)[:1])
    # In a dict of rules a place that is called like a dim would take its place.
    return [g for g in (*globs, *single, *program.tags, *gradients) if g not in program.dims]
