"""What would remove a collective: in words, and as changes of the layout where it is one.

    remedy = plan.collectives[0].remedies[0]
    remedy.text                             "take `hidden` off `model`"
    remedy.applied(plan.layout)             the layout without that rule

The words are made of the same facts as the changes, so that a text and a button cannot differ; what a change does is
what planning it says (`trials.py`). A remedy without changes asks for a name: a layout has no word for a dim whose name
is made up, `~seq`, so that it is never told to move one.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any, Final, Literal

from ..globs import matches
from ..specs.layout import DimRules, Layout
from ..specs.spec import Axes

OFF: Final = "off"
ON: Final = "on"
STORED: Final = "stored"
# What is asked of a layout, and a made-up name in it, as a word or as a rule's key.
_ASKED, _MADE_UP = re.compile(r"(take|put|store|compute)\b"), re.compile(r"[`\"](~[^`\"]+)[`\"]")


@dataclasses.dataclass(frozen=True)
class Change:
    """One change of a layout.

    Attributes:
        how: "off" takes a dim off mesh axes, "on" puts it on further ones where it is computed, "stored" says by which
            axes it is stored at a place; none leave it whole there.
        dim: the dim.
        axes: the mesh axes, major first.
        at: the place, or the glob of several, of "stored"; of "off" the glob of a scope, where its rule alone changes.
        there: the dims of what is stored there: of a wider glob's rules those for others are left out; () for all.
    """

    how: Literal["off", "on", "stored"]
    dim: str
    axes: Axes
    at: str = ""
    there: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Remedy:
    """What would remove a collective.

    Attributes:
        text: what to do, in words that go on after "to remove it".
        changes: of the layout, all of them together; none where a dim is to be named first.
        effect: what is so then; "" where the text says it.
        saves: whether it is offered only where a device sends less in all: it moves the value in another way.
        outcome: what it does to bytes, peak and time, by a plan of it (`trials.Outcome`); None before it is tried, and
            where there are no changes.
    """

    text: str
    changes: tuple[Change, ...] = ()
    effect: str = ""
    saves: bool = False
    outcome: Any = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self):
        if _ASKED.match(self.text) and (unsayable := dict.fromkeys(_MADE_UP.findall(self.text))):
            parts = dict.fromkeys(part for name in unsayable for part in name.split("*") if part.startswith("~"))
            names = " and ".join(f"`{part}`" for part in parts)
            rename = f"program.rename({json.dumps(dict.fromkeys(parts, 'kv'))})"
            text = f"first rename {names}, so that layouts can address it: {rename}"
            object.__setattr__(self, "text", text)
            object.__setattr__(self, "changes", ())
            object.__setattr__(self, "effect", "")

    @property
    def sentence(self) -> str:
        """The remedy in a sentence, with its effect, and its outcome where it is tried."""
        effect = f": {self.effect}" if self.effect else ""
        return f"{self.text[:1].upper()}{self.text[1:]}{effect}{f'; {self.outcome}' if self.outcome else ''}."

    def applied(self, layout: Layout) -> Layout:
        """Returns a layout with the changes."""
        for change in self.changes:
            layout = _changed(layout, change)
        return layout

    def at(self, place: str, places: str) -> Remedy:
        """Returns the remedy for several places instead of one."""
        changes = [dataclasses.replace(c, at=places) if c.at == place else c for c in self.changes]
        return dataclasses.replace(self, text=self.text.replace(place, places), changes=tuple(changes))


def sentence(remedies: Sequence[Remedy]) -> str:
    """Says the alternatives in one sentence; "" where there are none."""
    text = ", or ".join(remedy.text for remedy in remedies)
    effect = "".join(f": {remedy.effect}" for remedy in remedies if remedy.effect)
    return f"{text[:1].upper()}{text[1:]}{effect}." if text else ""


def _changed(layout: Layout, change: Change) -> Layout:
    dim, compute = change.dim, _axes(layout.dim_rules, change.dim)
    if change.how == STORED:
        # Of several globs the last one that matches counts, alone: what it says of other dims goes on.
        glob, rules = next((p for p in reversed(layout.place_rules) if matches(change.at, p[0])), ("", ()))
        others = [place for place in layout.place_rules if place[0] != change.at]
        if glob != change.at and change.there:
            rules = tuple(rule for rule in rules if rule[0].removesuffix("?") in change.there)
        stored = change.at, _with_axes(rules, dim, change.axes)
        places = [stored if p[0] == glob else p for p in layout.place_rules] if glob == change.at else [*others, stored]
        return dataclasses.replace(layout, place_rules=tuple(places))
    if change.how == ON:
        return layout.with_rule(dim, (*compute, *_without(change.axes, compute)))
    if change.at:
        scopes = tuple(_taken_off(each, change) if each[0] == change.at else each for each in layout.scope_rules)
        return dataclasses.replace(layout, scope_rules=scopes)
    if set(compute) & set(change.axes):
        return layout.with_rule(dim, _without(compute, change.axes))
    # No compute rule shards it: then the rules at places or in scopes do.
    places, scopes = (tuple(_taken_off(each, change) for each in by) for by in (layout.place_rules, layout.scope_rules))
    return dataclasses.replace(layout, place_rules=places, scope_rules=scopes)


def _taken_off(by_glob: tuple[str, DimRules], change: Change) -> tuple[str, DimRules]:
    """Returns the rules at a place or in a scope with a dim off mesh axes, if it was on them."""
    glob, rules = by_glob
    axes = _axes(rules, change.dim)
    hit = set(axes) & set(change.axes)
    return glob, _with_axes(rules, change.dim, _without(axes, change.axes)) if hit else rules


def _axes(rules: DimRules, dim: str) -> Axes:
    return next((axes for name, axes in rules if name.removesuffix("?") == dim), ())


def _without(axes: Axes, others: Axes) -> Axes:
    return tuple(axis for axis in axes if axis not in others)


def _with_axes(rules: DimRules, dim: str, axes: Axes) -> DimRules:
    return (*(rule for rule in rules if rule[0].removesuffix("?") != dim), (dim, axes))
