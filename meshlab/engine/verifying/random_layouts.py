"""Draws legal layouts at random, places and scopes included, to test every promise with.

    for mesh, layout in draw(program, seed=0, count=200): program.plan(mesh, layout).check()

A layout is built rule by rule: a dim goes to mesh axes that are drawn, and stays there if the layout is still legal;
then some places get rules of their own in the same way, and some scopes, where the program has any. So every legal
layout of compute rules can come up, and many of places and scopes. On a mesh with an axis in time one dim, or two, go
on over it in the end, if an iteration can run alone then. All of it is drawn for plans that pad, too, on meshes whose
axes divide few dims.

A layout may begin with a form (`forms.py`): with what several rules only make together, such as a ring or a pipeline.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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
from ..specs.zigzag import ordered_as
from .drawn_meshes import MESHES, TURNS, Turn
from .forms import BATCH, Form, Rules, drawn_axes

# How often micro-batches are tried before other dims.
_MOSTLY_BATCH = 0.7
# After so many beginnings in a row that are not legal, a program has no more of a form.
_MISSES = 20


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
    program: Program, seed: int, count: int, turns: Sequence[Turn] = TURNS, forms: Sequence[Form] = ()
) -> Iterator[Drawn]:
    """Draws layouts on all kinds of meshes in turn: plain, with an axis in time, padded, and padded with one.

    Args:
        program: what the layouts are for.
        seed: equal seeds draw equal layouts.
        count: how many at most, of all kinds together.
        turns: the kinds: meshes to draw from, and whether plans pad.
        forms: more kinds: layouts that begin with one, each on all kinds of meshes in turn.
    """

    def on(turns: Sequence[Turn], form: Form | None = None) -> list[Iterator[Drawn]]:
        return [_padded(pad, draw(program, seed, count, meshes, pad, form=form)) for meshes, pad in turns]

    kinds = [*on(turns), *(_in_turn(on(form.turns or turns, form), seed) for form in forms)]
    return itertools.islice(_in_turn(kinds, seed), count)


def _padded(pad: bool, found: Iterator[tuple[Mesh, Layout]]) -> Iterator[Drawn]:
    return (Drawn(mesh, layout, pad) for mesh, layout in found)


def _in_turn(kinds: Sequence[Iterator[Drawn]], seed: int) -> Iterator[Drawn]:
    """Yields one of each kind in turn, until there is none of any; who draws few begins with another for each seed."""
    first = seed % len(kinds) if kinds else 0
    left = [*kinds[first:], *kinds[:first]]
    while left:
        for kind in tuple(left):
            found = next(kind, None)
            if found is None:
                left.remove(kind)
            else:
                yield found


def draw(
    program: Program,
    seed: int,
    count: int,
    meshes: Sequence[Mesh] = MESHES,
    pad: bool = False,
    *,
    form: Form | None = None,
) -> Iterator[tuple[Mesh, Layout]]:
    """Draws different legal layouts.

    Args:
        program: what the layouts are for.
        seed: equal seeds draw equal layouts.
        count: how many at most; fewer where a program has fewer.
        meshes: the meshes to draw from; by default of 2, 4 and 8 devices with one to three axes. On those with an
            axis in time only layouts are drawn that use it.
        pad: whether the layouts are for plans that pad dims which their axes do not divide.
        form: what each begins with.
    """
    chance = random.Random(f"{seed} {form.name}" if form else seed)
    seen, missed = set(), 0
    for _ in range(count * 20):
        mesh = chance.choice(meshes)
        begun = _begun(program, mesh, chance, pad, form) if form else {}
        layout = None if form and not begun else _draw_layout(program, mesh, chance, pad, begun)
        if layout is None:
            missed += 1
            if form and missed == _MISSES:
                return
            continue
        missed = 0
        key = (mesh, str(layout))
        if key not in seen:
            seen.add(key)
            yield mesh, layout
        if len(seen) == count:
            return


def _begun(program: Program, mesh: Mesh, chance: random.Random, pad: bool, form: Form) -> Rules:
    """Returns the rules of a form; none where the mesh has too few axes, or they are not legal."""
    rules = form.rules(program, mesh, chance)
    if not all(rules.values()) or not _is_legal(program, mesh, rules, pad):
        return {}
    return rules if not mesh.stages or _is_accepted(program, mesh, Layout.of(rules), pad) else {}


def _draw_layout(program: Program, mesh: Mesh, chance: random.Random, pad: bool, begun: Rules) -> Layout | None:
    rules, dims = dict(begun), [dim for dim in program.dims if dim not in begun]
    free = any(axis not in mesh.stages for axis in mesh.devices.axes)
    chance.shuffle(dims)
    for dim in dims[: chance.randint(0, len(dims))] if free else ():
        rules = _extended(program, mesh, rules, {dim: drawn_axes(mesh, chance)}, pad)
    of_dims = rules
    globs = _globs(program)
    for glob in chance.sample(globs, min(len(globs), chance.randint(0, 2))) if free else ():
        for _ in range(chance.randint(1, 2)):
            dim = chance.choice(list(program.dims))
            inner = {**rules.get(glob, {}), dim: None if chance.random() < 0.15 else drawn_axes(mesh, chance)}
            rules = _extended(program, mesh, rules, {glob: inner}, pad)
    of_places = rules
    rules = _with_scopes(program, mesh, rules, chance, pad)
    if mesh.stages:
        # Whether stages can be cut is known when a step is planned; what it begins with can be.
        each = map(Layout.of, (rules, of_places, of_dims, begun))
        return next(layout for layout in each if _is_accepted(program, mesh, layout, pad))
    return _in_time(program, mesh, rules, chance, pad) if mesh.in_time else Layout.of(rules)


def _with_scopes(program: Program, mesh: Mesh, rules: Rules, chance: random.Random, pad: bool) -> Rules:
    """Returns the rules with some for scopes: of a dim that has another rule outside more often than not."""
    begun = rules
    names = list(dict.fromkeys(f"@{name}" for scope in scopes(program) for name in scope))
    if not names:
        return rules
    for glob in chance.sample(names, min(len(names), chance.randint(0, 2))):
        for _ in range(chance.randint(1, 3)):
            ruled = [dim for dim in program.dims if dim in rules]
            dim = chance.choice(ruled if ruled and chance.random() < 0.5 else list(program.dims))
            inner = {**rules.get(glob, {}), dim: None if chance.random() < 0.4 else drawn_axes(mesh, chance)}
            if dim not in begun.get(glob, {}):
                rules = _extended(program, mesh, rules, {glob: inner}, pad)
    return rules


def _in_time(program: Program, mesh: Mesh, rules: Rules, chance: random.Random, pad: bool) -> Layout | None:
    """Returns the layout with a dim, or two, on the axis in time; None where none of those tried can be there."""
    (axis,), dims = mesh.in_time, list(program.dims)
    first = [dim for dim in BATCH if dim in dims]
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


def _extended(program: Program, mesh: Mesh, rules: Rules, more: Rules, pad: bool) -> Rules:
    """Returns the rules with more of them, or as they were if that is not legal, or of another program.

    That is one in which attention is an operation, or in one with a ring one in which it is none.
    """
    now, after = (as_asked(program, mesh, Layout.of(each)) for each in (rules, rules | more))
    return rules | more if after is now and _is_legal(program, mesh, rules | more, pad) else rules


def _is_legal(program: Program, mesh: Mesh, rules: Rules, pad: bool) -> bool:
    try:
        resolve(program, mesh, rules, pad)
    except LayoutError:
        return False
    return True


def _globs(program: Program) -> list[str]:
    parameters = dict.fromkeys(a.parameter for a in program.arguments)
    globs = [f"{p}/*" if p not in program.places else p for p in parameters]
    single = [p for p in program.places if p.startswith("out/")][:3]
    roots = dict.fromkeys(f"{place.split('/')[0]}/*" for place in program.gradients)
    gradients = (*roots, *list(program.gradients)[:1])
    # In a dict of rules a place that is called like a dim would take its place.
    return [g for g in (*globs, *single, *program.tags, *gradients) if g not in program.dims]
