"""Lists what the languages of other systems cannot say of a layout, for all of them in one place.

    not_said(Layout.of({"ensemble?": "data", "params/*": {"embed": "data"}}))
    ["`ensemble?` is optional: the format has no optional rules",
     "at `params/*` is stored embed:data: the format has no rules for places"]

Mesh TensorFlow's strings and Flax's axis rules both have rules for dims alone. Whatever else the language of layouts
has is lost in both, and stands here, so that a new kind of rule is listed by every dialect at once. What only one of
them lacks stands with that one (`mesh_tf_string`, `flax_rules`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..errors import LayoutError, listed, numbered
from .spec import Axes
from .zigzag import Zigzag, around

DimRules = Sequence[tuple[str, Axes]]


class Rules(Protocol):
    """The rules of a layout, as far as a dialect reads them."""

    @property
    def dim_rules(self) -> DimRules: ...

    @property
    def place_rules(self) -> Sequence[tuple[str, DimRules]]: ...

    @property
    def scope_rules(self) -> Sequence[tuple[str, DimRules]]: ...

    @property
    def in_time(self) -> Axes:
        """The mesh axes that are known to be in time."""
        ...


def in_space(layout: Rules) -> DimRules:
    """Returns the rules for dims without the axes that are known to be in time: with those of devices alone."""
    rules = ((dim, tuple(axis for axis in axes if axis not in layout.in_time)) for dim, axes in layout.dim_rules)
    return [(dim, axes) for dim, axes in rules if axes]


def not_said(layout: Rules) -> list[str]:
    """Returns a text for each thing that a layout says beside plain rules for dims."""
    optional = [dim for dim, _ in layout.dim_rules if dim.endswith("?")]
    lost = [f"`{dim}` is optional: the format has no optional rules" for dim in optional]
    for dim, axes in layout.dim_rules:
        if in_time := [axis for axis in axes if axis in layout.in_time]:
            lost.append(f"`{dim}` is on {listed(in_time)}, a serial axis: the format has only axes of devices")
        if isinstance(axes, Zigzag):
            lost.append(f"`{dim}` is in zig-zag order inside of attention: the format has one order of positions")
    for glob, rules in layout.place_rules:
        lost.append(f"at `{glob}` is stored {rules_in(rules)}: the format has no rules for places")
    for glob, rules in layout.scope_rules:
        lost.append(f"in `{glob}` is computed {rules_in(rules)}: the format has no rules for scopes")
    return lost


def rules_in(rules: DimRules) -> str:
    """Returns rules in words: `embed:data, ffn:whole`."""
    return ", ".join(f"{dim}:{around(axes, '+'.join(axes)) or 'whole'}" for dim, axes in rules) or "nothing"


def refuse_lost(asked: str, form: str, lost: Sequence[str]):
    """Refuses to write a layout in a form that cannot express all of it."""
    if lost:
        raise LayoutError(
            f"{asked} writes {form}, which cannot express all of this layout:\n{numbered(lost)}\nUse layout.to_dict(),"
            " which expresses everything; or leave these rules out.",
            tuple(lost),
        )
