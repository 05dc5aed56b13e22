"""What the caller wants fixed or ruled out before a layout is chosen.

    pin="batch:data"                    batch lies on data, whatever else is chosen
    pin={"batch": None}                 batch stays whole
    forbid={"vocab": ("data",)}         vocab does not lie on data

Both are written as layouts are. Rules at places are not chosen, so they can be neither pinned nor forbidden.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..engine.errors import LayoutError, closest, listed, numbered, shown
from ..engine.planning.legality import resolve
from ..engine.programs.data import Program
from ..engine.specs.layout import Layout, LayoutLike
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes
from .space import Splits


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What was asked for.

    Attributes:
        pinned: what must be split so.
        forbidden: what must not be split so.
        whole: dims that must not be split at all.
    """

    pinned: Splits = frozenset()
    forbidden: Splits = frozenset()
    whole: frozenset[str] = frozenset()


def read_wishes(program: Program, mesh: Mesh, pin: LayoutLike, forbid: LayoutLike) -> Wishes:
    """Reads `pin` and `forbid`.

    Raises:
        LayoutError: a name is unknown, something is asked for that no layout of the search can be, or the two
            contradict each other; all problems are listed.
    """
    problems: list[str] = []
    wanted, unwanted = _layout("pin", pin, problems), _layout("forbid", forbid, problems)
    whole = frozenset(dim.removesuffix("?") for dim in wanted.whole if dim in program.dims or not dim.endswith("?"))
    pinned = _pairs(program, mesh, "pin", wanted, problems)
    forbidden = _pairs(program, mesh, "forbid", unwanted, problems)
    problems += [f"forbid: `{d}` is given no axis; name the one it must not lie on" for d in unwanted.whole]
    problems += [f"pin: `{d}` is no dim of this program.{closest(d, program.dims)}" for d in whole - set(program.dims)]
    dims = [d for d, _ in pinned]
    problems += [
        f'pin: `{d}` is put on several axes; the search puts a dim on one: write pin="{d}:{axes[0]}"'
        for d in dict.fromkeys(dims)
        if len(axes := [a for dim, a in pinned if dim == d]) > 1
    ]
    problems += [f"`{d}:{a}` is both pinned and forbidden" for d, a in pinned if (d, a) in forbidden]
    refusals: tuple = ()
    if not problems:
        try:
            resolve(program, mesh, dict(pinned))
        except LayoutError as error:
            refusals, problems = error.problems, [f"pin: {refusal}" for refusal in error.problems or (error,)]
    if problems:
        lines = numbered(list(dict.fromkeys(problems)))
        given = f"pin={shown(pin)} and forbid={shown(forbid)}"
        raise LayoutError(f"ml.auto.layout() cannot search with {given}:\n{lines}", refusals)
    return Wishes(frozenset(pinned), frozenset(forbidden), whole)


def _layout(name: str, given: LayoutLike, problems: list[str]) -> Layout:
    """A wish as a layout; what cannot be read is a problem, and nothing is wished."""
    try:
        return Layout.of(given)
    except LayoutError as error:
        problems.append(f"{name}: {error}")
        return Layout()


def _place_problem(program: Program, mesh: Mesh, name: str, glob: str, rules: Mapping[str, Axes]) -> str:
    """Why rules at a place are no wish, and what to write instead."""
    if glob in program.dims and glob not in program.places:
        known = [axis for axes in rules.values() for axis in axes if axis in mesh.axes] or list(mesh.axes)
        example = "".join(f": {glob!r}: {axis!r}" for axis in known[:1])
        return f"{name}: `{glob}` is a dim, and takes an axis{example}"
    told = f"{name}: {glob!r} is a place; rules at places are not part of the search: leave it out"
    if name != "pin":
        return told
    try:
        resolve(program, mesh, {glob: dict(rules)})
    except LayoutError:  # it could not be planned with either
        return told
    return f"{told}; to pin it, plan with {{**choice.layout.to_dict(), {glob!r}: {shown(dict(rules))}}}"


def _pairs(program: Program, mesh: Mesh, name: str, layout: Layout, problems: list[str]) -> list[tuple[str, str]]:
    """The (dim, axis) pairs of a wish; those with unknown names are problems."""
    problems += [_place_problem(program, mesh, name, glob, rules) for glob, rules in layout.places.items()]
    problems += [
        f"{name}: `{dim}` has size {program.dims[dim]:,} in this program, and was given as a dim of size {size:,}"
        for place, dim, size in layout.sizes
        if not place and program.dims.get(dim, size) != size
    ]
    pairs = []
    for written, axes in layout.rules.items():
        dim, optional = written.removesuffix("?"), written.endswith("?")
        unknown = [a for a in axes if a not in mesh.axes]
        if dim not in program.dims and not optional:
            hint = closest(dim, program.dims) or f" Its dims are {listed(program.dims)}."
            problems.append(f"{name}: `{dim}` is no dim of this program.{hint}")
        if dim in program.dims or not optional:
            for a in unknown:
                hint = closest(a, mesh.axes) or f" Its axes are {listed(mesh.axes)}."
                problems.append(f"{name}: the mesh has no axis `{a}`.{hint}")
        if dim in program.dims:
            pairs += [(dim, a) for a in axes if a not in unknown]
    return pairs
