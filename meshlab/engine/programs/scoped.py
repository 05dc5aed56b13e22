"""A program as the rules of a layout's scopes see it: equal operations stay apart where their rules differ.

    with jax.named_scope("a"): y = f(x)          one operation under "batch:data";
    with jax.named_scope("b"): z = f(x)          two under {"@a": {"batch": "data"}}, each of which obeys its own rule

A compiler merges equal operations, and so does the normal form (`passes/normalize.py`). Under rules by scope two equal
operations may be computed in two ways; merged, one of the rules would be ignored in silence. So such a layout has a
normal form of its own, in which operations are merged, and layers are alike, only where their rules are equal: the
rules of those dims that they have. Which axes the rules name does not matter, only where they differ, so that moving a
dim from axis to axis in one scope finds the same program again. Where no operations were merged whose rules differ now
the normal form is the same.
"""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from ..code.operations import Scope, walk
from ..passes.normalize import normalize
from ..specs.layout import Layout
from ..specs.mesh import Mesh
from ..specs.scopes import rules_in
from .program import Program, analysis, scoped_analysis
from .scoping import Ruled, Scoping
from .zigzagged import zigzagged

Scoped = TypeVar("Scoped", bound=Program)


@scoped_analysis
def _scoped_programs(_program: Program) -> dict[Scoping, Program]:
    """Returns the memo of the programs that layouts with rules by scope have."""
    return {}


@analysis
def scopes(program: Program) -> tuple[Scope, ...]:
    """Lists the scopes that operations of a program are in, in order; without `()`, that of all others."""
    return tuple(dict.fromkeys(operation.scope for operation in walk(program.unmerged.block) if operation.scope))


def scoped(program: Scoped, mesh: Mesh, layout: Layout) -> Scoped:
    """Returns the program as a layout on a mesh sees it: itself, but for one with rules by scope, or `zigzag(…)`."""
    program = zigzagged(program, layout)
    scoping = _scoping(program, mesh, layout)
    if scoping == program.scoping:
        return program
    known = _scoped_programs(program)
    if scoping not in known:
        known[scoping] = _apart(program, scoping)
    return known[scoping]  # pyright: ignore[reportReturnType]: replaced, a program is of the same class


def _apart(program: Program, scoping: Scoping) -> Program:
    """Returns the program under rules by scope: its code as it is, if the rules part nothing that was merged in it."""
    if not program.scoping.numbers and all(scoping.of(*one) == scoping.of(*other) for one, other in _merged(program)):
        return program.under(scoping)
    apart = dataclasses.replace(program, scoping=scoping)
    return dataclasses.replace(apart, code=normalize(program.unmerged, apart.merge_names, apart.scope_class))


@analysis
def _merged(program: Program) -> frozenset[tuple[Ruled, Ruled]]:
    """Finds what decides the rules of two operations that were merged, for the pairs that differ in it."""
    pairs = (tuple(map(program.ruled, pair)) for pair in program.code.merged)
    return frozenset((one, other) for one, other in pairs if one != other)


def _scoping(program: Program, mesh: Mesh, layout: Layout) -> Scoping:
    """Returns in which scopes which dims have other rules than without a scope."""

    def real(rules: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, tuple[str, ...]]:
        # An axis of size 1, or none of the mesh, splits nothing.
        return {dim.removesuffix("?"): tuple(a for a in axes if mesh.axes.get(a, 1) > 1) for dim, axes in rules}

    rules = [(glob, real(own)) for glob, own in layout.scope_rules]
    dims = sorted({dim for _, own in rules for dim in own if dim in program.dims})
    if not dims:
        return Scoping()
    plain = real(layout.dim_rules)
    classes: dict[str, dict[tuple[str, ...], int]] = {dim: {plain.get(dim, ()): 0} for dim in dims}
    numbers: dict[Scope, tuple[tuple[str, int], ...]] = {}
    for scope in scopes(program):
        here = rules_in(scope, plain, rules)
        ways = ((dim, classes[dim].setdefault(here.get(dim, ()), len(classes[dim]))) for dim in dims)
        if different := tuple((dim, number) for dim, number in ways if number):
            numbers[scope] = different
    return Scoping(tuple(numbers.items()))
