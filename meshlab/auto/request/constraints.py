"""The constraints of a search: what its user pins and forbids, read from layouts.

    pin="batch:data"                    batch is on data, whatever else is chosen
    pin={"batch": None}                 batch stays whole
    forbid={"vocab": ("data",)}         vocab is not on data
    silent=["model"]                    nothing is sent over model
    scopes=["@core"]                    attention's core may be computed otherwise

A search for time or peak memory takes several axes for a pinned dim, and pinned rules at places and in scopes; the
others search no such rules, so that these can be neither pinned nor forbidden. Nor do they know what is silent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ...api.silent import axes_problem
from ...engine.errors import LayoutError, aside, listed, numbered, shown
from ...engine.legality.examine import resolve
from ...engine.legality.named_rules import named_rules
from ...engine.programs.program import Program
from ...engine.programs.scoped import scopes as named_scopes
from ...engine.specs.layout import Layout, LayoutLike
from ...engine.specs.mesh import Mesh
from ...engine.specs.spec import Axes

Splits = frozenset[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Constraints:
    """The demands on every layout of a search.

    Attributes:
        pinned: what must be computed so: rules of dims, and those at places and in scopes that all layouts have.
        forbidden: what must not be split so.
        whole: dims that must not be split at all.
        scopes: globs of the scopes in which layouts may compute otherwise.
        silent: mesh axes over which no layout may send anything.
    """

    pinned: Layout = dataclasses.field(default_factory=Layout)
    forbidden: Splits = frozenset()
    whole: frozenset[str] = frozenset()
    scopes: tuple[str, ...] = ()
    silent: frozenset[str] = frozenset()

    @property
    def splits(self) -> Splits:
        """The pairs of a pinned dim and an axis."""
        return frozenset((dim, axis) for dim, axes in self.pinned.dim_rules for axis in axes)


NONE = Constraints()


def read_constraints(
    program: Program,
    mesh: Mesh,
    pin: LayoutLike,
    forbid: LayoutLike,
    scopes: Iterable[str] = (),
    *,
    silent: Iterable[str] = (),
    everything: bool = False,
) -> Constraints:
    """Reads `pin`, `forbid`, `scopes` and `silent`; refuses all that is wrong with them in one error.

    Args:
        program: the program.
        mesh: the mesh.
        pin: what must be so.
        forbid: what must not be so.
        scopes: globs of the scopes in which layouts may compute otherwise.
        silent: mesh axes over which nothing may be sent.
        everything: whether the search puts dims on several axes, and knows rules at places and in scopes.
    """
    problems: list[str] = []
    pinned = _read(program, mesh, "pin", pin, problems, everything=everything)
    forbidden = _read(program, mesh, "forbid", forbid, problems)
    globs = _globs(scopes, problems)
    problems += [problem for glob in globs if (problem := _scope_problem(program, glob, everything=everything))]
    quiet = _silent(mesh, silent, problems, everything=everything)
    never = frozenset((dim, axis) for dim, axes in forbidden.dim_rules for axis in axes)
    problems += [f"forbid: `{d}` needs an axis: name the axis that it must not be on" for d in forbidden.whole]
    problems += [
        f'pin: `{dim}` is pinned to several axes; the search puts a dim on one axis: write pin="{dim}:{axes[0]}"'
        for dim, axes in pinned.dim_rules
        if len(axes) > 1 and not everything
    ]
    both = [(dim, axis) for dim, axes in pinned.dim_rules for axis in axes if (dim, axis) in never]
    problems += [f"`{dim}:{axis}` is both pinned and forbidden" for dim, axis in both]
    refusals: tuple = ()
    if not problems:
        try:
            resolve(program, mesh, pinned)
        except LayoutError as error:
            refusals, problems = error.problems, [f"pin: {refusal}" for refusal in error.problems or (error,)]
    if problems:
        lines = numbered(list(dict.fromkeys(problems)))
        more = {"scopes": scopes, "silent": silent}
        given = f"pin={shown(pin)} and forbid={shown(forbid)}"
        given += "".join(f" and {name}={shown(value)}" for name, value in more.items() if value)
        raise LayoutError(f"ml.auto.layout() cannot search with {given}:\n{lines}", refusals)
    return Constraints(pinned, never, frozenset(pinned.whole), globs, quiet)


def _read(
    program: Program, mesh: Mesh, name: str, given: LayoutLike, problems: list[str], *, everything: bool = False
) -> Layout:
    """A constraint as a layout of which all dims and axes are known; what is invalid is a problem."""
    try:
        layout = Layout.of(given)
    except LayoutError as error:
        problems.append(f"{name}: {error.in_one_line}")
        return Layout()
    if not everything:
        by_glob = (*layout.places.items(), *layout.scopes.items())
        problems += [_place_problem(program, mesh, name, glob, rules) for glob, rules in by_glob]
        layout = dataclasses.replace(layout, place_rules=(), scope_rules=())
    rules, refusals = named_rules(program, mesh, layout)
    problems += [f"{name}: {refusal}" for refusal in refusals]
    whole = (dim.removesuffix("?") for dim in layout.whole if dim in program.dims or not dim.endswith("?"))
    return dataclasses.replace(layout, dim_rules=tuple(sorted(rules.items())), whole=tuple(dict.fromkeys(whole)))


def _silent(mesh: Mesh, silent: Any, problems: list[str], *, everything: bool) -> frozenset[str]:
    """The axes that must stay silent, of which all are known; what is invalid is a problem."""
    if not isinstance(silent, str | Iterable):
        problems.append(f'silent={shown(silent)}: give mesh axes, as in ["model"]')
        return frozenset()
    axes = (silent,) if isinstance(silent, str) else tuple(silent)
    if axes and not everything:
        problems.append(
            f'silent: a search for "live" counts bytes in memory, not sent bytes: leave {listed(map(str, axes))} out'
        )
    elif problem := axes_problem(mesh, axes):
        problems.append(f"silent: {problem}")
    return frozenset(axes)


def _globs(scopes: Any, problems: list[str]) -> tuple[Any, ...]:
    if isinstance(scopes, str):
        return (scopes,)
    if not isinstance(scopes, Iterable):
        problems.append(f'scopes={shown(scopes)}: give globs of scopes, as in ["@core"]')
        return ()
    return tuple(scopes)


def _scope_problem(program: Program, glob: Any, *, everything: bool) -> str:
    """The reason why nothing can be searched for in a scope, and what to write instead; empty where it can."""
    if not everything:
        return f'scopes: a search for "live" has no rules in scopes: leave {shown(glob)} out'
    known = dict.fromkeys(f"@{name}" for scope in named_scopes(program) for name in scope)
    if isinstance(glob, str) and glob.startswith("@") and program.dims_in(glob):
        return ""
    if isinstance(glob, str) and program.dims_in(f"@{glob}"):
        return f'scopes: a scope begins with `@`: write "@{glob}"'
    return f"scopes: no operation is in a scope {shown(glob)}; the program's are {listed(known)}{aside(glob, known)}"


def _place_problem(program: Program, mesh: Mesh, name: str, glob: str, rules: Mapping[str, Axes]) -> str:
    """The reason why rules at a place, or in a scope, are no constraint, and what to write instead."""
    if glob in program.dims and glob not in program.places:
        known = [axis for axes in rules.values() for axis in axes if axis in mesh.axes] or list(mesh.axes)
        example = "".join(f": {glob!r}: {axis!r}" for axis in known[:1])
        return f"{name}: `{glob}` is a dim, so give it an axis{example}"
    what, where = ("a scope", "in scopes") if glob.startswith("@") else ("a place", "at places")
    reason = f"{name}: {glob!r} is {what}; rules {where} are not part of the search: leave it out"
    if name != "pin":
        return reason
    try:
        resolve(program, mesh, {glob: dict(rules)})
    except LayoutError:  # it could not be planned with either
        return reason
    return f"{reason}; to pin it, plan with {{**choice.layout.to_dict(), {glob!r}: {shown(dict(rules))}}}"
