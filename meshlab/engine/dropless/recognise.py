"""Makes experts that are written with a sort and ragged matmuls the operations of `ml.dispatch`, where a layout asks.

    order = argsort(choice); rows = x[order // k]; … ragged_dot(rows, w, sizes) …; y = made[argsort(order)]

Tokens meet the matrices of all experts in a ragged matmul, and no mesh axis may split both there. So a program is
planned as it stands, until a layout puts tokens and experts on one axis: only then is there something that the
operations alone can do. Such programs drop nothing, so each device has places for all rows that may come to it: the
factor is the number of devices that the experts are on.

Axes are named again: where tokens come back, and between, they have the names of the tokens.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TypeVar

from ..passes.normalize import drop_dead, normalize
from ..programs.naming import name_axes
from ..programs.program import Program, analysis
from ..programs.rename import renamed
from ..specs.mesh import Mesh
from ..specs.scopes import rules_in
from ..specs.spec import AxesByDim
from .emit import with_operations
from .rows import Sorted, found

Traced = TypeVar("Traced", bound=Program)


def under(program: Traced, mesh: Mesh, compute: AxesByDim, scoped: Sequence[tuple[str, AxesByDim]]) -> Traced:
    """Returns the program as a layout needs it: with operations, where tokens and experts are on one axis."""
    devices = {axis for axis, size in mesh.devices.axes.items() if size > 1}
    for rows in _sorted_rows(program):
        rules = rules_in(rows.sort.scope, compute, scoped)
        (experts, *_), tokens = _dims(program, rows.weights), _dims(program, rows.choice)
        homes = [axis for dim in experts for axis in rules.get(dim, ()) if axis in devices]
        there = {axis for each in tokens for dim in each for axis in rules.get(dim, ())}
        if not there.isdisjoint(homes):
            return recognised(program, math.prod(mesh.axes[axis] for axis in homes))
    return program


def _dims(program: Program, value: int) -> list[tuple[str, ...]]:
    """Returns the user's dims that split each axis of a value."""
    return [program.splitters(name) if name else () for name in program.names[value]]


@analysis
def _sorted_rows(program: Program) -> tuple[Sorted, ...]:
    return tuple(found(program.unmerged))


@analysis
def _recognised(_program: Program) -> dict[float, Program]:
    """Returns the memo of the programs with operations, by the factor of places."""
    return {}


def recognised(program: Traced, factor: float) -> Traced:
    """Returns the program with all rows that are sorted by expert moved by operations; itself where none are.

    Args:
        program: the program.
        factor: how many places there are for each choice of a token.
    """
    known = _recognised(program)
    if factor not in known:
        known[factor] = _with(program, factor) if _sorted_rows(program) else program
    return known[factor]  # pyright: ignore[reportReturnType]: replaced, a program is of the same class


def _with(program: Program, factor: float) -> Program:
    code = with_operations(program.unmerged, [(rows, factor) for rows in _sorted_rows(program)])
    code = dataclasses.replace(code, block=drop_dead(code.block))
    given = {
        argument.value: (names, f"argument `{argument.place}`")
        for argument, names in zip(program.arguments, program.named, strict=True)
        if names is not None
    }
    naming = name_axes(code, given)
    new = dataclasses.replace(
        program,
        unmerged=code,
        code=code,
        names=naming.names,
        dims=naming.dims,
        made_of=naming.made_of,
        cuts=naming.cuts,
    )
    if program.renames:
        new = renamed(new, {old: name for old, name in program.renames.items() if old in _every(new)}, {})
    return dataclasses.replace(new, code=normalize(code, new.merge_names, new.scope_class))


def _every(program: Program) -> set[str | None]:
    return {name for axes in program.names for name in axes}
