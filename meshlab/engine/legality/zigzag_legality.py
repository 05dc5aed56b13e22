"""Judges `zigzag(…)`: which dims may be in zig-zag order inside of attention, of which sizes, and beside which others.

    seq:zigzag(a) kv:zigzag(a)      2n halves of parts on n devices: the size is a multiple of 2n
    seq:zigzag(a+b) kv:zigzag(a)    refused: keys would be gathered in their new order
    seq:zigzag(a) kv:a              refused: balanced in all, but in no turn of the ring

A value is stored in the order of its positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ..errors import listed
from ..programs.program import Program
from ..programs.zigzagged import position_pairs, rules_by_scope, zigzags
from ..specs.layout import Layout
from ..specs.mesh import Mesh
from ..specs.scopes import matches, path
from ..specs.spec import Axes, AxesByDim
from ..specs.zigzag import Zigzag
from .refusal import Refusal


def zigzag_problems(
    program: Program, mesh: Mesh, layout: Layout, matched: Mapping[str, AxesByDim]
) -> Iterator[Refusal]:
    """Yields the problems of the axes of a layout that are written `zigzag(…)`; `matched` are the rules of places."""
    yield from _unused(program, layout)
    for place, rules in matched.items():
        for dim in (dim for dim, axes in rules.items() if isinstance(axes, Zigzag)):
            text = f"At `{place}`: `{dim}` is in zig-zag order, but a value is stored in the order of its positions."
            yield Refusal("conflict", text, f"Write `{dim}:{'+'.join(rules[dim])}` there.")
    for scope, dim, axes in zigzags(program, layout):
        count = 2 * math.prod(mesh.axes.get(axis, 1) for axis in axes)
        size = program.dims[dim]
        if count > 2 and size % count:
            where = f"In `@{path(scope)}`: " if scope and dim not in layout.rules else ""
            text = f"{where}`{dim}` has size {size:,}, which {count} do not divide: two halves on each of {count // 2}"
            text += f" devices (`zigzag({'+'.join(axes)})`)."
            fitting = f"{size // count * count:,} or " * (size >= count) + f"{-(-size // count) * count:,}"
            yield Refusal("not_divisible", text, f"Sizes that fit: {fitting}; or write `{dim}:{'+'.join(axes)}`.")
    yield from _apart(program, mesh, layout)


def _unused(program: Program, layout: Layout) -> Iterator[Refusal]:
    """Yields the problems of dims that are no positions, or of attention that needs no order."""
    known = dict.fromkeys((scope, dim) for scope, *dims in position_pairs(program) for dim in dims)
    ordered = {(scope, dim) for scope, dim, _ in zigzags(program, layout)}
    for glob, rules in (("", layout.dim_rules), *layout.scope_rules):
        for dim in (dim.removesuffix("?") for dim, axes in rules if isinstance(axes, Zigzag)):
            there = {each for each in known if each[1] == dim and _in(each[0], glob)}
            if dim not in program.dims or there & ordered:
                continue
            text = f"{f'In `{glob}`: ' if glob else ''}`{dim}` has no zig-zag order: "
            if there:
                text += "rules of a scope replace this one wherever its positions are attended to."
                yield Refusal("unused_dim", text, f"Write `{dim}:zigzag(…)` in that scope.")
                continue
            text += "it is for positions of ml.attention(…, causal=True) without a window, whose last queries attend"
            have = f"The dims of such positions are {listed(dict.fromkeys(each for _, each in known))}."
            have = have if known else "This program has no such attention."
            yield Refusal("unused_dim", f"{text} to the most keys.", have)


def _in(scope: tuple[str, ...], glob: str) -> bool:
    return not glob or matches(glob, scope) or matches(glob.removesuffix("?"), scope)


def _apart(program: Program, mesh: Mesh, layout: Layout) -> Iterator[Refusal]:
    """Yields the problems of queries and keys that share some axes and are not split alike, and in one order.

    Keys would be gathered in the new order, or devices of a ring would wait for each other in every turn.
    """

    def real(axes: Axes) -> Axes:
        return tuple(axis for axis in axes if mesh.axes.get(axis, 1) > 1)

    ordered = {(scope, dim) for scope, dim, _ in zigzags(program, layout)}
    for scope, query, key in position_pairs(program):
        rules = rules_by_scope(layout, scope)
        both = [real(rules.get(dim, ())) for dim in (query, key)]
        in_order = [(scope, dim) in ordered for dim in (query, key)]
        if not any(in_order) or not set(both[0]) & set(both[1]) or (both[0] == both[1] and all(in_order)):
            continue
        split = " and ".join(f"`{dim}` over `{'+'.join(axes)}`" for dim, axes in zip((query, key), both, strict=True))
        text = f"{split} cannot be in zig-zag order: where queries and keys share an axis they are split alike."
        if both[0] == both[1]:
            first, second = (query, key) if in_order[0] else (key, query)
            text = f"`{first}` is in zig-zag order and `{second}`, around the same ring, is not: in each turn some"
            text += " device attends to all keys that it holds, and the others wait."
        alike = f"{query}:zigzag({'+'.join(both[0])}) {key}:zigzag({'+'.join(both[0])})"
        yield Refusal("conflict", text, f"Write `{alike}`, or leave one of them replicated.")
