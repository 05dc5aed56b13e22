"""Hints in three steps, each one further: which condition is missed, why the plan misses it, which change leads on.

The reason is the plan's own; of a collective that is missing it is what that does. The change is looked for: of all
single changes of the layout that was tried, and of all pairs of those, the first that meets the goal; where there is
none, it is one that the answer makes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ...engine.collectives.kinds import KINDS
from ...engine.errors import LayoutError
from ...engine.specs.layout import Layout
from ...engine.specs.spec import Axes
from ...goals.bounded import Counted
from ...goals.conditions import Condition
from .attempts import Attempts
from .setting import Setting

# How many layouts are planned at most to find the way from a try to the goal.
_MOST = 2000


class Change(NamedTuple):
    """One rule that is changed.

    Attributes:
        where: the glob of places or scopes whose rule it is; "" for rules of dims.
        dim: the dim.
        axes: the mesh axes that it lies on afterwards; None for no rule there.
    """

    where: str
    dim: str
    axes: Axes | None

    def __str__(self):
        at = f" at `{self.where}`" if self.where else ""
        if self.axes is None:
            return f"remove the rule of `{self.dim}`{at}" if self.where else f"take `{self.dim}` off the mesh"
        if not self.axes:
            return f"leave `{self.dim}` whole{at}"
        return f"put `{self.dim}` on {' and '.join(f'`{axis}`' for axis in self.axes)}{at}"


def hint(setting: Setting, attempts: Attempts) -> str:
    """Returns the next hint for the last try."""
    if setting.ask is not None and attempts.predicted is None:
        return f"First predict: {setting.ask.text}? A guess will do."
    layout = attempts.last or Layout.of(setting.start)
    if _is_met(setting, layout):
        return f"The layout meets the goal: puzzles.{setting.name}.check(layout) gives the receipt."
    attempts.hints += 1
    attempts.steps += 1
    steps = (_missed, _reason, _change)
    return steps[min(attempts.steps, len(steps)) - 1](setting, layout)


def _is_met(setting: Setting, layout: Layout) -> bool:
    try:
        return setting.verdict(layout).met
    except LayoutError:
        return False


def _missed(setting: Setting, layout: Layout) -> str:
    try:
        verdict = setting.verdict(layout)
    except LayoutError as error:
        return str(error)
    pairs = zip(verdict.goal.conditions, verdict.each, strict=True)
    condition, judged = next((one, each) for one, each in pairs if not each.met)
    return f"Missed: each device {condition.text}. Now: {judged.value or 'it does not'}."


def _reason(setting: Setting, layout: Layout) -> str:
    try:
        verdict = setting.verdict(layout)
    except LayoutError as error:
        return str(error)
    missed = [pair for pair in zip(verdict.goal.conditions, verdict.each, strict=True) if not pair[1].met]
    said = (each.because or _what_it_does(condition) for condition, each in missed)
    return next(filter(None, said), None) or _change(setting, layout)


def _what_it_does(condition: Condition) -> str:
    """Says of a kind of collective that runs too seldom what it does."""
    kind = KINDS.get(condition.kind) if isinstance(condition, Counted) else None
    return f"{kind.name}: {kind.meaning[0].lower()}{kind.meaning[1:]}" if kind else ""


def _change(setting: Setting, layout: Layout) -> str:
    found = leading(setting, layout)
    if found:
        return f"Try this: {', then '.join(map(str, found))}."
    mine, theirs = _rules(layout), _rules(Layout.of(setting.answer))
    lacks = [change for change in theirs if change not in mine]
    has = [change._replace(axes=None) for change in mine if change not in theirs]
    step = next((change for change in (*lacks, *has) if _is_legal(setting, changed(layout, [change]))), None)
    return f"A first step towards an answer: {step}." if step else f"An answer is {setting.answer}."


def _is_legal(setting: Setting, layout: Layout) -> bool:
    try:
        setting.plan(layout)
    except LayoutError:
        return False
    return True


def leading(setting: Setting, layout: Layout) -> tuple[Change, ...]:
    """Returns the fewest changes of a layout, of one or two, that meet the goal; none where there are none."""
    single = list(_changes(setting, layout))
    pairs = ((one, other) for one, other in itertools.combinations(single, 2) if one[:2] != other[:2])
    for changes in itertools.islice(itertools.chain(((one,) for one in single), pairs), _MOST):
        try:
            if setting.verdict(changed(layout, changes)).met:
                return changes
        except LayoutError:
            continue
    return ()


def changed(layout: Layout, changes: Iterable[Change]) -> Layout:
    """Returns a layout with some rules changed."""
    rules: dict[str, Any] = layout.to_dict()
    for where, dim, axes in changes:
        inside = rules.setdefault(where, {}) if where else rules
        inside.pop(dim, None)
        if axes is not None:
            inside[dim] = list(axes) or None
    return Layout.of({name: rule for name, rule in rules.items() if rule != {}})


def _changes(setting: Setting, layout: Layout) -> Iterator[Change]:
    """Yields single changes: of each dim, and of each rule of a place or scope that the try or the answer has."""
    axes = [axis for axis, size in setting.mesh.axes.items() if size > 1]
    in_use = (*_rules(layout), *_rules(Layout.of(setting.answer)))
    places = dict.fromkeys((change.where, change.dim) for change in in_use if change.where)
    for where, dim in (*(("", dim) for dim in setting.program.dims), *places):
        now = _axes_of(layout, where).get(dim)
        yield from (Change(where, dim, (axis,)) for axis in axes if now != (axis,))
        yield from (Change(where, dim, (*now, axis)) for axis in axes if now and axis not in now)
        if now is not None:
            yield Change(where, dim, None)


def _axes_of(layout: Layout, where: str) -> Mapping[str, Axes]:
    return {**layout.places, **layout.scopes}.get(where, {}) if where else layout.rules


def _rules(layout: Layout) -> list[Change]:
    rules = [Change("", dim, axes) for dim, axes in layout.rules.items()]
    by_glob = {**layout.places, **layout.scopes}
    return [*rules, *(Change(where, dim, axes) for where, row in by_glob.items() for dim, axes in row.items())]
