"""A layout shards dims over mesh axes, from outside the model.

    "batch:data hidden:model"                        Mesh TensorFlow's notation
    {"batch": "data", "vocab": ("data", "model")}    the same as a dict; several axes, major first
    {"params/*": {"embed": "data"}}                  how values *at a place* are stored, whatever is computed
    {"@core": {"heads": "model", "seq": None}}       how values *in a scope* are computed (`jax.named_scope`)
    {"seq": "zigzag(cp)", "kv": "zigzag(cp)"}        positions inside of causal attention in zig-zag order (`zigzag`)
    "params/*: embed:data · @core: seq:whole"        both of them as one line of text, as `str(layout)` prints it

Rules for a dim say how values are computed; rules at a place (a glob over arguments, outputs `out/*` and tags) say how
the value there is stored, and replace the compute rules for the dims that they name; `None` leaves a dim unsharded
there. Of several globs that match one place the last one counts. A dim whose name ends in `?` is optional: where the
program has no such dim, the rule is left out instead of refused, axes and all, so that one layout serves several
programs and their meshes (`ensemble?:ensemble`); where it has the dim, the mesh must have the axes. In a place `?` is
first of all the glob's own: one character, as in `ml.named`. `params/w?` is where `params/w1` and `params/w2` are
stored; only where it matches nothing so, `params/w` is meant, if there is one.

A key that begins with `@` is a glob over scopes: the names that `jax.named_scope` gives, and Flax to its modules. Its
rules replace the compute rules for the dims that they name, in all scopes that it matches and whatever is inside them,
forward and backward; storage has no scope (`scopes`). Of several globs with a rule for a dim the last one counts.

`one & other` combines two layouts, or names what they disagree about (`combination`).

A layout knows no program. Whether it is legal for one is decided in `legality`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..argument_checks import is_whole
from ..errors import LayoutError, numbered, shown
from ..tensors.dims import Dim, is_name
from .combination import combined, in_both_scopes
from .flax_rules import written_rules
from .layout_text import Problem, cannot_be_read, parts_of, text_of
from .mesh import Mesh
from .mesh_tf_string import mesh_tf_string
from .spec import Axes
from .zigzag import Zigzag, as_data, split

DimRules = tuple[tuple[str, Axes], ...]

# A message lists at most so many problems.
_MOST = 20
_MAKE = 'Make layouts with ml.Layout.of({"batch": "data"}).'
_HELP = 'Write "batch:data hidden:model", "vocab:data+model" for several axes, or a dict.'


@dataclasses.dataclass(frozen=True)
class Layout:
    """Dims → mesh axes, with rules at places. Make one with `Layout.of`.

    Attributes:
        dim_rules: (dim, axes) pairs, sorted by dim; a trailing `?` marks a dim that may be missing.
        place_rules: (glob, rules) pairs in the order given.
        scope_rules: the same, of globs over scopes, each with its `@`.
        whole: dims that were given no axes: no rule comes of them, but their names are checked as others are.
        sizes: (place or scope, dim, size) of dims that were given as `ml.Dim`; the place is "" for compute rules.
        in_time: mesh axes that are known to be in time, and so come last in a dim's axes where layouts are combined.
    """

    dim_rules: DimRules = ()
    place_rules: tuple[tuple[str, DimRules], ...] = ()
    scope_rules: tuple[tuple[str, DimRules], ...] = ()
    whole: tuple[str, ...] = dataclasses.field(default=(), compare=False, repr=False, kw_only=True)
    sizes: tuple[tuple[str, str, int], ...] = dataclasses.field(default=(), compare=False, repr=False, kw_only=True)
    in_time: Axes = dataclasses.field(default=(), compare=False, repr=False, kw_only=True)

    def __post_init__(self):
        places, scopes = self.place_rules, self.scope_rules
        if not (_are_rules(self.dim_rules) and _are_by_glob(places) and _are_by_glob(scopes)):
            given = f"dim_rules={shown(self.dim_rules)}, place_rules={shown(places)} and scope_rules={shown(scopes)}"
            raise LayoutError(f"Layout was given {given}. {_MAKE} {_HELP}")
        if not _are_names(self.whole) or not _are_sizes(self.sizes):
            given = f"whole={shown(self.whole)} and sizes={shown(self.sizes)}"
            raise LayoutError(
                f"Layout was given {given}; they are names of dims, and (place, dim, size) of each: use"
                f" Layout.of. {_MAKE}"
            )
        twice = _twice([dim.removesuffix("?") for dim, _ in self.dim_rules])
        twice += [
            f"at `{glob}`, {text}"
            for glob, rules in (*places, *scopes)
            for text in _twice([d.removesuffix("?") for d, _ in rules])
        ]
        _refuse("Layout was given invalid rules", twice)

    @staticmethod
    def of(given: LayoutLike) -> Layout:
        """Makes a layout from a string, a dict, another layout, or None (nothing is sharded).

        `Layout.of(str(layout)) == layout`, with rules at places and in scopes too.

        Raises:
            LayoutError: it cannot be read; every problem is listed.
        """
        if given is None:
            return Layout()
        if isinstance(given, Layout):
            return given
        if isinstance(given, str):
            if given.lstrip().startswith("{"):
                raise LayoutError(
                    f"The layout {shown(given)} is JSON, or a dict in a text: give json.loads(text). {_HELP}"
                )
            return _from_text(given)
        if isinstance(given, Mapping):
            return _from_pairs(list(given.items()))
        raise LayoutError(f"A layout was given as {type(given).__name__}: {shown(given)}. {_HELP}")

    @property
    def rules(self) -> Mapping[str, Axes]:
        """Mesh axes by dim."""
        return MappingProxyType(dict(self.dim_rules))

    @property
    def places(self) -> Mapping[str, Mapping[str, Axes]]:
        """Rules by place; empty axes mean unsharded there."""
        return MappingProxyType({glob: MappingProxyType(dict(rules)) for glob, rules in self.place_rules})

    @property
    def scopes(self) -> Mapping[str, Mapping[str, Axes]]:
        """Rules by glob over scopes; empty axes mean unsharded there."""
        return MappingProxyType({glob: MappingProxyType(dict(rules)) for glob, rules in self.scope_rules})

    def with_rule(self, dim: str | Dim, axes: str | Axes | None) -> Layout:
        """Returns this layout with `dim` on `axes`, instead of where it was; no axes take it off the mesh."""
        added = Layout.of({dim: tuple(axes) if isinstance(axes, list) else axes})
        names = {name.removesuffix("?") for name in (*(d for d, _ in added.dim_rules), *added.whole)}
        if added.place_rules or added.scope_rules or any("*" in name or "/" in name for name in names):
            given = f"{shown(dim)} on {shown(axes)}"
            raise LayoutError(f"with_rule() was given {given}, which is not a dim on mesh axes. {_HELP}")
        rules = tuple(rule for rule in self.dim_rules if rule[0].removesuffix("?") not in names)
        sizes = tuple(size for size in self.sizes if size[0] or size[1] not in names)
        whole = tuple(name for name in self.whole if name not in names)
        return dataclasses.replace(
            self, dim_rules=tuple(sorted((*rules, *added.dim_rules))), whole=whole, sizes=(*sizes, *added.sizes)
        )

    def __and__(self, other: LayoutLike) -> Layout:
        """Combines two layouts: what comes out demands what both demand (`combination`).

        Raises:
            LayoutError: they conflict, or one cannot be read; every conflict is listed.
        """
        second = Layout.of(other)
        in_time = tuple(dict.fromkeys((*self.in_time, *second.in_time)))
        both = (self.dim_rules, self.place_rules), (second.dim_rules, second.place_rules)
        rules, places, conflicts = combined(*both, frozenset(in_time))
        scopes = in_both_scopes(self.scope_rules, second.scope_rules, conflicts)
        conflicts += _taken_off(self, second) + _taken_off(second, self)
        if conflicts:
            pair = f"{shown(str(self))} and {shown(str(second))}"
            fix = "Leave one of them out, or give it other axes or dims."
            raise LayoutError(f"The layouts {pair} conflict:\n{numbered(conflicts)}\n{fix}", tuple(conflicts))
        whole = tuple(dict.fromkeys((*self.whole, *second.whole)))
        sizes = tuple(dict.fromkeys((*self.sizes, *second.sizes)))
        return Layout(rules, places, scopes, whole=whole, sizes=sizes, in_time=in_time)

    def __rand__(self, other: LayoutLike) -> Layout:
        """Combines a string or dict with a layout."""
        return Layout.of(other) & self

    def to_dict(self) -> dict[str, Any]:
        """Returns the layout as sorted, JSON-able data that `Layout.of` reads back."""

        def dim_rules(rules: DimRules) -> dict[str, Any]:
            return {dim: as_data(axes) for dim, axes in sorted(rules)}

        def stored(rules: DimRules) -> dict[str, Any]:
            return {dim: (axes or None) for dim, axes in dim_rules(rules).items()}

        # Places and scopes keep their order, since the last match counts.
        by_glob = (*self.place_rules, *self.scope_rules)
        return dim_rules(self.dim_rules) | {glob: stored(rules) for glob, rules in by_glob}

    def to_string(self) -> str:
        """Returns the layout as Mesh TensorFlow writes it: `"batch:data;hidden:model"`, which `Layout.of` reads back.

        Raises:
            LayoutError: it says what that form cannot: rules at places or in scopes, several axes for a dim, axes in
                time, optional dims; all of it is listed.
        """
        return mesh_tf_string(self)

    def to_axis_rules(self) -> list[tuple[str, str | Axes | None]]:
        """Returns the layout as logical axis rules, `[("batch", "data")]`, as Flax, T5X and MaxText take them.

        `ml.layouts.from_axis_rules` reads them back.

        Raises:
            LayoutError: it says what such rules cannot: rules at places or in scopes, axes in time, optional dims; all
                of it is listed. Only a mesh knows which axes are in time; so `plan.layout` does, and a preset's.
        """
        return written_rules(self)

    def __str__(self):
        return text_of(self.dim_rules, (*self.place_rules, *self.scope_rules))


def on_mesh(layout: Layout, mesh: Mesh) -> Layout:
    """Returns a layout that knows which of its axes are in time on a mesh."""
    used = {axis for _, axes in layout.dim_rules for axis in axes}
    in_time = tuple(dict.fromkeys((*layout.in_time, *(axis for axis in mesh.in_time if axis in used))))
    return layout if in_time == layout.in_time else dataclasses.replace(layout, in_time=in_time)


def _taken_off(one: Layout, other: Layout) -> list[str]:
    """Returns a text for each dim that one layout takes off the mesh, and the other puts on it."""
    off = {dim.removesuffix("?") for dim in one.whole}
    rules = ((dim.removesuffix("?"), axes) for dim, axes in other.dim_rules)
    return [f"`{dim}` is replicated in one and on `{'+'.join(axes)}` in the other" for dim, axes in rules if dim in off]


LayoutLike = Layout | str | Mapping[Any, Any] | None


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, tuple) and len(pair) == 2


def _are_rules(rules: Any) -> bool:
    """Says whether something is (dim, axes) pairs, axes being a tuple of names."""
    return isinstance(rules, tuple) and all(
        _is_pair(rule)
        and isinstance(rule[0], str)
        and isinstance(rule[1], tuple)
        and all(isinstance(axis, str) for axis in rule[1])
        for rule in rules
    )


def _are_by_glob(rules: Any) -> bool:
    """Says whether something is (glob, rules) pairs."""
    return isinstance(rules, tuple) and all(_is_pair(p) and isinstance(p[0], str) and _are_rules(p[1]) for p in rules)


def _refuse(text: str, problems: list[str], between: str = "; "):
    if problems:
        more = f" and {len(problems) - _MOST:,} more" if len(problems) > _MOST else ""
        raise LayoutError(f"{text}: {between.join(problems[:_MOST])}{more}. {_HELP}")


def _are_names(whole: Any) -> bool:
    return isinstance(whole, tuple | list) and all(isinstance(name, str) for name in whole)


def _are_sizes(sizes: Any) -> bool:
    """Says whether something is (place, dim, size) triples."""
    return isinstance(sizes, tuple | list) and all(
        isinstance(size, tuple | list) and len(size) == 3 and _are_names(size[:2]) and is_whole(size[2])
        for size in sizes
    )


def _twice(dims: list[str]) -> list[str]:
    """Returns a problem for each dim that appears twice."""
    if len(set(dims)) == len(dims):
        return []
    return [_stands_twice(dim, dim) for dim, count in Counter(dims).items() if count > 1]


def _stands_twice(name: str, dim: str) -> str:
    return f"`{name}` appears twice; write a dim on several axes as `{dim}:data+model`"


class _Reading:
    """Collects the rules of one place or scope, or the compute rules, and their problems.

    Attributes:
        place: the place or scope; "" for compute rules.
        rules: axes by name.
        sizes: of those that were given as dims.
        problems: the reasons why rules are invalid.
    """

    def __init__(self, place: str = ""):
        self.place = place
        self.rules: dict[str, Axes] = {}
        self.sizes: list[tuple[str, str, int]] = []
        self.problems: list[str] = []
        self._names: set[str] = set()

    def enter(self, dim: Any, value: Any):
        """Adds a rule, or a problem."""
        where = f"at `{self.place}`, " if self.place else ""
        name = dim.name if isinstance(dim, Dim) else dim
        if not isinstance(name, str) or not name.strip() or "?" in (name.strip().removesuffix("?") or "?"):
            self.problems.append(f"{where}{shown(dim)} is {'not a dim' if self.place else 'neither a dim nor a place'}")
            return
        if name.removesuffix("?") in self._names:
            self.problems.append(where + _stands_twice(name, name.removesuffix("?")))
            return
        self._names.add(name.removesuffix("?"))
        if isinstance(dim, Dim):
            self.sizes.append((self.place, dim.name, dim.size))
        self.rules[name] = self._axes(value, f"{where}`{name}` is given {shown(value)}")

    def _axes(self, value: Any, given: str) -> Axes:
        if isinstance(value, Mapping) and self.place:
            self.problems.append(f"{given}; {_unnested(self.place, given.split('`')[-2])}")
            return ()
        axes = () if value is None else split(value) if isinstance(value, str) else value
        if not isinstance(axes, tuple | list) or not all(isinstance(a, str) and a for a in axes):
            self.problems.append(f"{given}, which is not an axis name, tuple of names or None")
        elif any(axis.endswith("?") for axis in axes):
            self.problems.append(f"{given}; put the `?` after the optional dim, never after an axis")
        elif not all(map(is_name, axes)):
            self.problems.append(f'{given}, which names no mesh axis; write several as "data+model"')
        else:
            return axes if isinstance(axes, Zigzag) else tuple(axes)
        return ()


def _unnested(place: str, name: str) -> str:
    """Says how rules that were given inside the rules of a place or scope are written."""
    if place.startswith("@") and not name.startswith("@") and ("*" in name or "/" in name):
        path = f'; or, if scopes are meant, "{place}/{name}"' if "*" not in name else ""
        return f'storage has no scope: write "{name}" beside "{place}", not inside it{path}'
    if name.startswith("@") and not place.startswith("@"):
        return f'storage has no scope: write "{name}" beside "{place}", not inside it'
    word = "scope" if place.startswith("@") else "place"
    return f'a {word} is a path in one text: "{place}/{name.removeprefix("@")}"'


def _from_text(text: str) -> Layout:
    """Reads a text; a problem says at which character it is."""
    parts, wrong = parts_of(text)
    pairs: dict[str, Any] = {}
    compute, wrong = _Reading(), [*wrong]
    for part in parts:
        glob = part[0] if part[0].axes is None else None
        reading = _Reading(glob.name) if glob else compute
        if glob and glob.name in pairs:
            wrong.append((glob.at, f"`{glob.name}` appears twice; write its rules once"))
        wrong += [(glob.at, problem) for problem in _no_scope(glob.name)] if glob else []
        for rule in part[1:] if glob else part:
            if glob is None and _is_glob(rule.name):
                fix = f"write its rules after a colon and a space: `{rule.name}: embed:data`"
                wrong.append((rule.at, f"`{rule.name}` is a place or a scope; {fix}, say"))
                continue
            reading.enter(rule.name, rule.axes)
            wrong += _problems_at(rule.at, reading)
        if glob:
            pairs[glob.name] = reading.rules
    if wrong:
        raise LayoutError(*cannot_be_read(text, sorted(wrong), _HELP))
    return _from_pairs([*compute.rules.items(), *pairs.items()])


def _problems_at(at: int, reading: _Reading) -> list[Problem]:
    """Takes the problems of a reading, which are of the rule at a character."""
    problems, reading.problems = reading.problems, []
    return [(at, problem) for problem in problems]


def _is_glob(key: str) -> bool:
    """Says whether a key can only be a glob over places or scopes."""
    return key.startswith("@") or "*" in key or "/" in key


def _no_scope(key: str) -> list[str]:
    """Returns the problem of a scope without a name, if a key is one."""
    if not key.startswith("@") or key.strip("@/ "):
        return []
    return [f"`{key}` names no scope: write a name, such as `@core`; plain rules apply outside all scopes"]


def _from_pairs(pairs: list[tuple[Any, Any]]) -> Layout:
    compute, places, scopes, sizes, problems = _Reading(), [], [], [], []
    for key, value in pairs:
        if isinstance(value, Mapping) and isinstance(key, str) and key.strip():
            place = _Reading(key)
            for dim, axes in value.items():
                place.enter(dim, axes)
            problems += _no_scope(key)
            (scopes if key.startswith("@") else places).append((key, tuple(sorted(place.rules.items()))))
            sizes += place.sizes
            problems += place.problems
        elif isinstance(key, str) and key.startswith("@"):
            problems.append(f'`{key}` is a scope, whose rules are a dict: {{"{key}": {{"heads": "model"}}}}, say')
        elif isinstance(key, str) and _is_glob(key):
            problems.append(f'`{key}` is a place, whose rules are a dict: {{"{key}": {{"embed": "data"}}}}, say')
        else:
            compute.enter(key, value)
    _refuse("Invalid layout", compute.problems + problems)
    rules = compute.rules.items()
    return Layout(
        tuple(sorted((d, a) for d, a in rules if a)),
        tuple(places),
        tuple(scopes),
        whole=tuple(d for d, a in rules if not a),
        sizes=(*compute.sizes, *sizes),
    )
