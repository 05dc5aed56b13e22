"""Logical axis rules, as Flax, T5X and MaxText write layouts: what they mean for an array, and a layout as such rules.

    rules = axis_rules([("batch", "data"), ("embed", "model"), ("embed", "data")])
    assigned(("batch", "embed"), rules)                     {"batch": ("data",), "embed": ("model",)}
    assigned(("vocab", "batch"), rules)                     {"batch": ("data",)}
    Layout.of("batch:data vocab:data+model").to_axis_rules()
                                                            [("batch", "data"), ("vocab", ("data", "model"))]

The rules are one list for all models. Each gives a logical name mesh axes, one, several (major first) or None. For each
array the list is gone through from the top: a rule counts if the array has the name, no rule gave it axes before, and
none of the rule's mesh axes is taken by another name of that array. So several rules for one name are a first choice
and what to do where that is taken. Names without a rule are replicated. A layout has no second choices, for in one that
is legal no two dims of an array have the same axis: its rules may be written in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import LayoutError, numbered, shown
from .dialects import Rules, in_space, not_said, refuse_lost
from .spec import Axes

AxisRules = Sequence[tuple[str, Axes]]
Written = list[tuple[str, str | Axes | None]]


def axis_rules(given: Any) -> AxisRules:
    """Reads logical axis rules: pairs of a name and its mesh axis, several, or None."""
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(pairs, list | tuple):
        raise LayoutError(f"Axis rules were given as {shown(given)}. {_HELP}")
    rules, problems = [], []
    for number, pair in enumerate(pairs, 1):
        name, axes = pair if isinstance(pair, list | tuple) and len(pair) == 2 else (None, None)
        several = (axes,) if isinstance(axes, str) else () if axes is None else axes
        if not isinstance(name, str) or not name:
            problems.append(f"rule {number} is {shown(pair)}: not a pair of a logical name and mesh axes")
        elif not isinstance(several, list | tuple) or not all(isinstance(axis, str) and axis for axis in several):
            problems.append(f"rule {number} gives `{name}` {shown(axes)}: no axis name, tuple of names or None")
        elif len(set(several)) < len(several):
            problems.append(f"rule {number} gives `{name}` {shown(axes)}: one axis twice")
        else:
            rules.append((name, tuple(several)))
    if problems:
        raise LayoutError(f"Invalid axis rules:\n{numbered(problems)}\n{_HELP}", tuple(problems))
    return rules


_HELP = 'Write [("batch", "data"), ("mlp", ("model", "expert")), ("embed", None)].'


def assigned(names: Iterable[str | None], rules: AxisRules) -> dict[str, Axes]:
    """Returns the mesh axes that the rules give the names of one array; names that no rule is for are left out."""
    names = frozenset(names)
    return chosen(rules, lambda name: [name] if name in names else [], lambda name: names - {name})


def chosen(
    rules: AxisRules, called: Callable[[str], Iterable[str]], beside: Callable[[str], Iterable[str | None]]
) -> dict[str, Axes]:
    """Gives dims mesh axes, the first rules first, and no axis that a dim beside has.

    Args:
        rules: the rules.
        called: returns the dims that a logical name is that of.
        beside: returns the dims that a dim shares no axis with.
    """
    axes_of: dict[str, Axes] = {}
    for name, axes in rules:
        for dim in called(name):
            taken = {axis for other in beside(dim) if other for axis in axes_of.get(other, ())}
            if dim not in axes_of and taken.isdisjoint(axes):
                axes_of[dim] = axes
    return axes_of


def said(layout: Rules) -> tuple[Written, tuple[str, ...]]:
    """Returns what axis rules can say of a layout, and a text for each thing that they cannot.

    A dim that is optional is written like the others: every axis rule is left out where a model has no such name.
    """
    pairs: Written = [(dim.removesuffix("?"), axes[0] if len(axes) == 1 else axes) for dim, axes in in_space(layout)]
    return pairs, tuple(not_said(layout))


def written_rules(layout: Rules) -> Written:
    rules, lost = said(layout)
    refuse_lost("layout.to_axis_rules()", "logical axis rules", lost)
    return rules
