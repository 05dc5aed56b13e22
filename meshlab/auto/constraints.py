"""The constraints of a search: what its user pins and forbids, read from layouts.

    pin="batch:data"                    batch is on data, whatever else is chosen
    pin={"batch": None}                 batch stays whole
    forbid={"vocab": ("data",)}         vocab is not on data

Rules at places are not chosen, so they can be neither pinned nor forbidden.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..engine.errors import LayoutError, numbered, shown
from ..engine.planning.legality import resolve
from ..engine.planning.named_rules import named_rules
from ..engine.programs.data import Program
from ..engine.specs.layout import Layout, LayoutLike
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes
from .space import Constraints


def read_constraints(program: Program, mesh: Mesh, pin: LayoutLike, forbid: LayoutLike) -> Constraints:
    """Reads `pin` and `forbid`.

    Raises:
        LayoutError: a name is unknown, no layout of the search satisfies a constraint, or two contradict each other;
            all problems are listed.
    """
    problems: list[str] = []
    pinned, whole = _pairs(program, mesh, "pin", pin, problems)
    forbidden, never = _pairs(program, mesh, "forbid", forbid, problems)
    problems += [f"forbid: `{d}` is given no axis; name the one it must not be on" for d in never]
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
    return Constraints(frozenset(pinned), frozenset(forbidden), whole)


def _pairs(
    program: Program, mesh: Mesh, name: str, given: LayoutLike, problems: list[str]
) -> tuple[list[tuple[str, str]], frozenset[str]]:
    """The (dim, axis) pairs of a constraint, and the dims that it gives no axis; what is invalid is a problem."""
    try:
        layout = Layout.of(given)
    except LayoutError as error:
        problems.append(f"{name}: {error}")
        return [], frozenset()
    by_glob = (*layout.places.items(), *layout.scopes.items())
    problems += [_place_problem(program, mesh, name, glob, rules) for glob, rules in by_glob]
    rules, refusals = named_rules(program, mesh, layout)
    problems += [f"{name}: {refusal}" for refusal in refusals]
    whole = frozenset(dim.removesuffix("?") for dim in layout.whole if dim in program.dims or not dim.endswith("?"))
    return [(dim, axis) for dim, axes in rules.items() for axis in axes], whole


def _place_problem(program: Program, mesh: Mesh, name: str, glob: str, rules: Mapping[str, Axes]) -> str:
    """The reason why rules at a place, or in a scope, are no constraint, and what to write instead."""
    if glob in program.dims and glob not in program.places:
        known = [axis for axes in rules.values() for axis in axes if axis in mesh.axes] or list(mesh.axes)
        example = "".join(f": {glob!r}: {axis!r}" for axis in known[:1])
        return f"{name}: `{glob}` is a dim, and takes an axis{example}"
    what, where = ("a scope", "in scopes") if glob.startswith("@") else ("a place", "at places")
    reason = f"{name}: {glob!r} is {what}; rules {where} are not part of the search: leave it out"
    if name != "pin":
        return reason
    try:
        resolve(program, mesh, {glob: dict(rules)})
    except LayoutError:  # it could not be planned with either
        return reason
    return f"{reason}; to pin it, plan with {{**choice.layout.to_dict(), {glob!r}: {shown(dict(rules))}}}"
