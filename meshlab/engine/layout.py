"""Layouts: which mesh axes split which dims, said from outside the model.

    "batch:data hidden:model"                        Mesh TensorFlow's notation
    {"batch": "data", "vocab": ("data", "model")}    the same as a dict; several axes, major first
    {"params/*": {"embed": "data"}}                  how values *at a place* are stored, whatever is computed

Rules for a dim say how values are computed; rules at a place (a glob over arguments, outputs `out/*` and tags) say how
the value there is stored, and replace the plain rules for the dims that they name; `None` leaves a dim unsplit there.
Of several globs that match one place the last one counts. A name that ends in `?` is optional: where the program or the
mesh has no such name, the rule is left out instead of refused. In a place `?` is first of all the glob's own: one
character, as in `ml.named`. `params/w?` is where `params/w1` and `params/w2` are stored; only where it matches nothing
so, `params/w` is meant, if there is one.

A layout knows no program. Whether it is legal for one is decided in `legality`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .dims import Dim
from .errors import LayoutError
from .spec import Axes

Rules = tuple[tuple[str, Axes], ...]

_SEPARATORS = re.compile(r"[\s,;]+")
_HELP = 'Write "batch:data hidden:model", "vocab:data+model" for several axes, or a dict.'


@dataclasses.dataclass(frozen=True)
class Layout:
    """Dims → mesh axes, with rules at places. Make one with `Layout.of`.

    Attributes:
        dim_rules: (dim, axes) pairs, sorted by dim; a trailing `?` marks an optional name.
        place_rules: (glob, rules) pairs in the order given.
    """

    dim_rules: Rules = ()
    place_rules: tuple[tuple[str, Rules], ...] = ()

    @staticmethod
    def of(given: LayoutLike) -> Layout:
        """Makes a layout from a string, a dict, another layout, or None (nothing is split).

        Raises:
            LayoutError: it cannot be read; every problem is listed.
        """
        if given is None:
            return Layout()
        if isinstance(given, Layout):
            return given
        if isinstance(given, str):
            return _from_pairs(_read_string(given))
        if isinstance(given, Mapping):
            return _from_pairs(list(given.items()))
        raise LayoutError(f"A layout was given as {type(given).__name__}: {given!r}. {_HELP}")

    @property
    def rules(self) -> Mapping[str, Axes]:
        """Mesh axes by dim."""
        return MappingProxyType(dict(self.dim_rules))

    @property
    def places(self) -> Mapping[str, Mapping[str, Axes]]:
        """Rules by place; empty axes mean unsplit there."""
        return MappingProxyType({glob: MappingProxyType(dict(rules)) for glob, rules in self.place_rules})

    def with_rule(self, dim: str | Dim, axes: Axes) -> Layout:
        """Returns this layout with `dim` on `axes`, instead of where it was; no axes take it off the mesh."""
        name = dim.name if isinstance(dim, Dim) else dim
        rules = {d: a for d, a in self.dim_rules if d.removesuffix("?") != name}
        if axes:
            rules[name] = tuple(axes)
        return dataclasses.replace(self, dim_rules=tuple(sorted(rules.items())))

    def to_dict(self) -> dict[str, Any]:
        """Returns the layout as sorted, JSON-able data that `Layout.of` reads back."""

        def plain(rules: Rules) -> dict[str, Any]:
            return {dim: list(axes) if len(axes) != 1 else axes[0] for dim, axes in sorted(rules)}

        def stored(rules: Rules) -> dict[str, Any]:
            return {dim: (axes or None) for dim, axes in plain(rules).items()}

        # Places keep their order, since the last match counts.
        return plain(self.dim_rules) | {glob: stored(rules) for glob, rules in self.place_rules}

    def __str__(self):
        def text(rules: Rules) -> str:
            return " ".join(f"{dim}:{'+'.join(axes) or 'whole'}" for dim, axes in rules)

        return " · ".join(filter(None, [text(self.dim_rules), *(f"{g}: {text(r)}" for g, r in self.place_rules)]))


LayoutLike = Layout | str | Mapping[Any, Any] | None


def _read_string(text: str) -> list[tuple[str, Any]]:
    pairs, wrong = [], []
    for word in filter(None, _SEPARATORS.split(text)):
        dim, colon, axes = word.partition(":")
        names = tuple(axes.split("+"))
        if not (dim and colon and all(names)) or ":" in axes:
            wrong.append(word)
        pairs.append((dim, names))
    if wrong:
        raise LayoutError(f"The layout {text!r} has parts that are no `dim:axis` pair: {', '.join(wrong)}. {_HELP}")
    return pairs


def _from_pairs(pairs: list[tuple[Any, Any]]) -> Layout:
    problems: list[str] = []
    rules: dict[str, Axes] = {}
    places: list[tuple[str, Rules]] = []
    for key, value in pairs:
        name = key.name if isinstance(key, Dim) else key
        if not isinstance(name, str) or not name:
            problems.append(f"{key!r} is neither a dim nor a place")
        elif isinstance(value, str) and ("*" in name or "/" in name):
            problems.append(f'`{name}` is a place, whose rules are a dict: {{"{name}": {{"embed": "data"}}}}, say')
        elif isinstance(value, Mapping):
            inner = {_dim_name(d, name, problems): _axes(a, f"{name}: {d}", problems) for d, a in value.items()}
            places.append((name, tuple(sorted(inner.items()))))
        elif name.removesuffix("?") in {d.removesuffix("?") for d in rules}:
            problems.append(f"`{name}` stands twice; a dim on several axes is written `{name}:data+model`")
        else:
            rules[name] = _axes(value, name, problems)
    if problems:
        raise LayoutError("This layout cannot be read: " + "; ".join(problems) + f". {_HELP}")
    return Layout(tuple(sorted((d, a) for d, a in rules.items() if a)), tuple(places))


def _dim_name(dim: Any, place: str, problems: list[str]) -> str:
    if isinstance(dim, Dim):
        return dim.name
    if not isinstance(dim, str):
        problems.append(f"at `{place}`, {dim!r} is not a dim")
    return str(dim)


def _axes(value: Any, where: str, problems: list[str]) -> Axes:
    axes = () if value is None else tuple(value.split("+")) if isinstance(value, str) else value
    if not isinstance(axes, tuple | list) or not all(isinstance(a, str) and a for a in axes):
        problems.append(f"`{where}` is given {value!r}, which is no axis name, tuple of names or None")
        return ()
    return tuple(axes)
