"""A program as a layout with `zigzag(…)` sees it: the positions of its causal attention enter that order and leave it.

    "seq:zigzag(a) kv:zigzag(a)"      a ring in which all devices attend to as much

The order is of what attention reads and makes alone: where nothing is sharded so, and in all other layouts, the program
is as it was traced. A `zigzag(…)` is for a dim of positions, in the scopes in which its rule counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ..code.operations import Operation, Scope, walk
from ..passes.normalize import normalize
from ..passes.zigzag_borders import with_borders
from ..specs.layout import Layout
from ..specs.scopes import rules_in
from ..specs.spec import Axes
from ..specs.zigzag import Zigzag
from ..tensors.attention import Attention, attention_grad_p, attention_p
from .program import Program, analysis, scoped_analysis

# A scope, and a dim of the positions of an attention there.
Positions = tuple[Scope, str]

Ordered = TypeVar("Ordered", bound=Program)


def zigzagged(program: Ordered, layout: Layout) -> Ordered:
    """Returns the program as a layout sees it: itself, but for one with `zigzag(…)`."""
    traced = program.traced or program
    wanted = frozenset((scope, dim) for scope, dim, axes in zigzags(traced, layout))
    if wanted == program.zigzags:
        return program
    if not wanted:
        return traced  # pyright: ignore[reportReturnType]: replaced, a program is of the same class
    known = _zigzagged_programs(traced)
    if wanted not in known:
        known[wanted] = _ordered(traced, wanted)
    return known[wanted]  # pyright: ignore[reportReturnType]: as above


def zigzags(program: Program, layout: Layout) -> Iterator[tuple[Scope, str, Axes]]:
    """Yields the positions that a layout has in zig-zag order: the scope, the dim and the axes of each, once."""
    every = (layout.dim_rules, *(rules for _, rules in layout.scope_rules))
    if not any(isinstance(axes, Zigzag) for rules in every for _, axes in rules):
        return
    for scope, dim in dict.fromkeys((scope, dim) for scope, *dims in position_pairs(program) for dim in dims):
        axes = rules_by_scope(layout, scope).get(dim, ())
        if isinstance(axes, Zigzag):
            yield scope, dim, axes


def rules_by_scope(layout: Layout, scope: Scope) -> Mapping[str, Axes]:
    """Returns the rules of a layout in a scope as they are written: with their order."""

    def named(rules: Iterable[tuple[str, Axes]]) -> dict[str, Axes]:
        return {dim.removesuffix("?"): axes for dim, axes in rules}

    return rules_in(scope, named(layout.dim_rules), [(glob, named(own)) for glob, own in layout.scope_rules])


@analysis
def position_pairs(program: Program) -> tuple[tuple[Scope, str, str], ...]:
    """Lists the scopes and dims of queries and keys that can be in zig-zag order: of causal attention, no window."""
    found = {}
    for operation in walk(program.unmerged.block):
        if dims := _dims(program, operation):
            query, key = dims
            found[operation.scope, query, key] = None
    return (*found,)


def _dims(program: Program, operation: Operation) -> dict[str, str]:
    """Returns the letters of the positions of an attention by their dims; none of any other operation."""
    if operation.name not in (attention_p.name, attention_grad_p.name):
        return {}
    how: Attention = operation.params["how"]
    if not how.causal or how.window is not None:
        return {}
    q, k = operation.reads[:2]
    pairs = ((q, how.q, how.query), (k, how.k, how.key))
    dims = {program.dims_of(value)[axes.index(letter)]: letter for value, axes, letter in pairs}
    return {dim: letter for dim, letter in dims.items() if dim} if len(dims) == 2 and all(dims) else {}


@scoped_analysis
def _zigzagged_programs(_program: Program) -> dict[frozenset[Positions], Program]:
    """Returns the memo of the programs that layouts with `zigzag(…)` have."""
    return {}


def _ordered(program: Program, wanted: frozenset[Positions]) -> Program:
    def letters(operation: Operation) -> str:
        dims = _dims(program, operation).items()
        return "".join(letter for dim, letter in dims if (operation.scope, dim) in wanted)

    code, origins = with_borders(program.unmerged, letters)
    names = (*program.names, *(program.names[origin] for origin in origins))
    changes: dict[str, Any] = {"unmerged": code, "names": names, "zigzags": wanted, "traced": program}
    ordered = dataclasses.replace(program, **changes)
    return dataclasses.replace(ordered, code=normalize(code, ordered.merge_names, ordered.scope_class))
