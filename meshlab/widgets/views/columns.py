"""The columns of the board as JSON-like data: the rules of each, and what holds there without a rule of its own.

columns_view(explorer)[1]
{"at": "grads/*", "rules": {}, "inherited": {}, "follows": {"embed": ["data"]}, …}     under FSDP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from ...engine.plans.summed_gradients import splits_after_sums
from ...engine.specs.zigzag import Zigzag
from ..state.columns import Column, columns_of, rules_at, scope_columns
from ..state.explorer_state import ExplorerState


class ColumnRulesView(TypedDict):
    """The mesh axes by dim at a glob."""

    at: str
    rules: dict[str, list[str]]


class ColumnView(ColumnRulesView):
    """A column of the board; `inherited` are compute rules that hold there, `within` rules at places inside it.

    `follows` are mesh axes over which gradients are split all the same, since what is made of them is stored so.
    The dims of `zigzag` have a rule that puts positions in zig-zag order.
    """

    label: str
    kind: str
    open: bool
    inherited: dict[str, list[str]]
    follows: NotRequired[dict[str, list[str]]]
    zigzag: NotRequired[list[str]]
    within: list[ColumnRulesView]


def columns_view(explorer: ExplorerState) -> list[ColumnView]:
    """Lists the columns, each with the dims that have a rule there, and the mesh axes of each, major first.

    Of a place also the dims that are stored there as compute rules say, because it has no rules of its own for them; of
    a scope those that are computed so. Scopes without rules are not open.
    """
    layout, closed = explorer.layout, scope_columns(explorer.program, explorer.layout)
    return [
        {
            "at": column.at,
            "label": column.label,
            "kind": column.kind,
            "rules": rules_view(rules_at(layout, column), explorer.mesh.axes),
            "open": column not in closed,
            "inherited": rules_view(_inherited(explorer, column), explorer.mesh.axes),
            **follows_view(explorer, column),
            **zigzag_view(rules_at(layout, column)),
            "within": [{"at": at, "rules": rules_view(layout.places[at], explorer.mesh.axes)} for at in column.within],
        }
        for column in (*columns_of(explorer.program, layout), *closed)
    ]


def _inherited(explorer: ExplorerState, column: Column) -> dict[str, Sequence[str]]:
    """Returns the compute rules that hold in a column: of the dims there, those without a rule of its own."""
    if not column.at:
        return {}
    program, layout = explorer.program, explorer.layout
    own = {dim.removesuffix("?") for dim in rules_at(layout, column)}
    if column.kind == "scope":
        there = program.dims_in(column.at)
    else:
        places = program.matching(column.at) or program.matching(column.at.removesuffix("?"))
        there = frozenset[str]().union(*(program.place_dims[place] for place in places))
    return {dim: axes for dim, axes in layout.rules.items() if dim.removesuffix("?") in there - own}


class FollowsView(TypedDict, total=False):
    follows: dict[str, list[str]]


class ZigzagView(TypedDict, total=False):
    zigzag: list[str]


def zigzag_view(rules: Mapping[str, Sequence[str]]) -> ZigzagView:
    """Describes which of some rules are for zig-zag order."""
    dims = [dim.removesuffix("?") for dim, axes in rules.items() if isinstance(axes, Zigzag)]
    return {"zigzag": dims} if dims else {}


def follows_view(explorer: ExplorerState, column: Column) -> FollowsView:
    """Describes over what else the plan's sums leave gradients split, of dims that no rule stores there."""
    if column.kind != "gradients":
        return {}
    layout, found = explorer.layout, dict[str, list[str]]()
    ruled = [rules_at(layout, column), *(layout.places[at] for at in column.within)]
    own = {dim.removesuffix("?") for rules in ruled for dim in rules}
    places = set(explorer.program.matching(column.at.removesuffix("?")))
    for place, splits in splits_after_sums(explorer.plan).items():
        for dim, axes in splits.items():
            if place in places and dim not in own:
                known = found.setdefault(dim, [])
                known += [axis for axis in axes if axis not in known and axis not in layout.rules.get(dim, ())]
    found = {dim: axes for dim, axes in found.items() if axes}
    return {"follows": found} if found else {}


def rules_view(rules: Mapping[str, Sequence[str]], sizes: Mapping[str, int]) -> dict[str, list[str]]:
    """Describes rules as mesh axes by dim; of an optional rule only the axes that there are."""
    return {dim.removesuffix("?"): [axis for axis in axes if axis in sizes] for dim, axes in rules.items()}
