"""Layouts after a dim was placed, or a rule taken away; and what has to go along with a dim.

    with_placed(layout, program, Place("hidden", ("model",)))       `batch:data` becomes `batch:data hidden:model`

Dims that are made of the batch, groups of tokens for experts say, run in micro-batches with it or not at all: one that
is dragged there alone is refused, and what is offered has all of them there.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...engine.errors import LayoutError, closest, listed, some
from ...engine.programs.axis_conflicts import conflicts_by_scope
from ...engine.specs.layout import Layout
from ...engine.specs.scopes import matches
from ...engine.specs.spec import Axes
from ...layouts.recognise import made_of
from .documents import Documents
from .intents import Load, Place, Refused, refused


def with_placed(layout: Layout, program: Any, intent: Place) -> Layout:
    """Returns a layout after a dim was placed."""
    dim, axes, at = intent.dim, intent.axes, intent.at
    if intent.source is not None and intent.source != (at or ""):  # the chip was moved from there
        layout = without(layout, program, dim, intent.source or None)
    if at is None:
        return layout.with_rule(dim, axes)
    if at.startswith("@"):
        layout = _giving_way(layout, program, dim, axes, at)
    return _with_rule_at(layout, at, dim, axes)


def _with_rule_at(layout: Layout, at: str, dim: str, axes: tuple[str, ...] | None) -> Layout:
    """Returns a layout with a rule for a dim at a place or in a scope; without one where the axes are None."""
    rules = layout.to_dict()
    at_place = {name: there for name, there in rules.get(at, {}).items() if name != dim}
    if axes is not None:
        at_place[dim] = axes
    # A place keeps its position among the places, since the last that matches counts.
    return Layout.of({name: rule for name, rule in (rules | {at: at_place}).items() if name != at or at_place})


def without(layout: Layout, program: Any, dim: str, at: str | None) -> Layout:
    """Returns a layout without the rule for a dim; refuses where there is none."""
    if at is not None:
        return _without_at(layout, program, dim, str(at))
    if dim not in program.dims:
        there = f" There are {some(tuple(program.dims))}."
        raise LayoutError(f"There is no dim `{dim}`.{closest(dim, program.dims) or there}")
    if dim not in {name.removesuffix("?") for name in layout.rules}:
        raise LayoutError(f"`{dim}` has no rule to remove: only rules at places shard it.")
    return layout.with_rule(dim, ())


def _without_at(layout: Layout, program: Any, dim: str, at: str) -> Layout:
    rules = layout.to_dict()
    if at not in rules and not program.matching(at):
        known = (*layout.places, *layout.scopes)
        there = f" There are rules at {some(known)}." if known else " No place has any."
        raise LayoutError(f"There are no rules at `{at}`.{closest(at, [*known, *program.places]) or there}")
    if dim not in rules.get(at, {}):
        raise LayoutError(f"`{dim}` has no rule at `{at}` to remove.{closest(dim, rules.get(at, {}))}")
    return _with_rule_at(layout, at, dim, None)


def _giving_way(layout: Layout, program: Any, dim: str, axes: tuple[str, ...], scope: str) -> Layout:
    """Returns the layout in which dims that have the axes without a scope are whole in it, where `dim` meets them."""
    meeting = {
        other
        for each, conflicts in conflicts_by_scope(program).items()
        if matches(scope.removesuffix("?"), each)
        for pair in conflicts
        if dim in pair
        for other in pair
    }
    own = layout.scopes.get(scope, {})
    for written, taken in layout.rules.items():
        other = written.removesuffix("?")
        if other in meeting and other != dim and other not in own and set(taken) & set(axes):
            layout = _with_rule_at(layout, scope, other, ())
    return layout


# What goes along


def refused_place(documents: Documents, intent: Place, error: LayoutError) -> Refused:
    """Returns why a dim is not placed; where others have to run in time with it, the layout in which they do."""
    answer, program, dim = refused(error), documents.program, intent.dim
    axis = next((axis for axis in intent.axes if axis in documents.mesh.in_time), None)
    if axis is None or intent.at is not None or dim not in program.dims:
        return answer
    placed = with_placed(documents.present.layout, program, intent)
    there = {name.removesuffix("?"): axes for name, axes in placed.rules.items()}
    kin = (*made_of(program, dim), *(other for other in program.dims if dim in made_of(program, other)))
    others = [other for other in dict.fromkeys(kin) if other != dim and axis not in there.get(other, ())]
    for layout in _along(placed, there, dim, others) if others else ():
        if documents.unplanned(dataclasses.replace(documents.present, layout=layout)) is None:
            brief = f"`{dim}` goes on `{axis}` together with {listed(others)}: {_made(program, dim, others)}."
            offer = f"{' + '.join((dim, *others))} on {axis}", Load(layout.to_dict())
            return dataclasses.replace(answer, brief=(brief, ""), instead=(offer,))
    return answer


def _along(placed: Layout, there: Mapping[str, Axes], dim: str, others: Sequence[str]) -> Iterator[Layout]:
    """Yields layouts in which others run in time as a dim does, beside the axes that they have, or where it is."""
    axes = there[dim]
    for bare in (axes[-1:], axes):
        own = {other: (*there[other], axes[-1]) if there.get(other) else bare for other in others}
        yield functools.reduce(lambda layout, rule: layout.with_rule(*rule), own.items(), placed)


def _made(program: Any, dim: str, others: Sequence[str]) -> str:
    """Says which is made of which: what the data have comes first."""
    data = {name for argument in program.arguments for name in program.dims_of(argument.value)}
    if dim not in data:
        return f"`{dim}` is made of {listed(others)}"
    return f"{listed(others)} {'is' if len(others) == 1 else 'are'} made of `{dim}`"
