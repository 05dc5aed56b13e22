"""Legality decides on dims alone, before anything is planned, whether a layout may be used.

1. Every dim, mesh axis and place that a layout names exists. A dim or place whose name ends in `?` may be missing, and
   its rule is left out; in a place `?` stands for one character first.
2. A mesh axis splits at most one dim of any one operation, and of any one value where it is stored.
3. The product of the axes that split a dim divides its size.
4. The dim of a scan is computed step by step: sharding it needs a pipeline schedule.

All problems of a layout are found and raised at once. The same tests answer for every dim and mesh axis whether the dim
may go there, fast enough to colour the zones of a drag before it begins.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..code.operations import Operation
from ..errors import MeshlabError, closest, listed, shown, some
from ..programs.axis_conflicts import axis_conflicts, scanned_dims
from ..programs.data import Program
from ..programs.rename import made_up
from ..specs.layout import Layout, LayoutLike
from ..specs.mesh import Mesh
from ..specs.serial import Serial
from ..specs.spec import Axes, Spec
from .operation_specs import fitting
from .refusal import Refusal, refuse
from .serial_legality import serial_problems, serial_storage

AxesByDim = Mapping[str, Axes]


@dataclasses.dataclass(frozen=True)
class LegalRules:
    """The rules of a layout that is legal for one program and mesh; mesh axes of size 1 are left out.

    Attributes:
        compute: the compute rules, mesh axes by dim.
        storage: for each place with rules of its own, the storage rules, which replace the compute rules.
        padded: for sizes that the axes do not divide, what they are padded to; empty unless padding was asked for.
        serial: the serial axes that split some dim; arguments and outputs are not stored split over them.
    """

    compute: AxesByDim
    storage: Mapping[str, AxesByDim]
    padded: Mapping[int, int] = dataclasses.field(default_factory=dict)
    serial: Mapping[str, Serial] = dataclasses.field(default_factory=dict)

    def spec(self, names: tuple[str | None, ...], place: str | None = None) -> Spec:
        """How a value with these dim names is computed or, at a place, stored."""
        place_rules = self.storage.get(place, {}) if place else {}
        key = (names, id(place_rules) if place_rules else 0)
        known = self._specs.get(key)
        if known is None:
            rules = {**self.compute, **place_rules}
            known = self._specs[key] = Spec(tuple(rules.get(n, ()) if n else () for n in names))
        return known

    @functools.cached_property
    def _specs(self) -> dict[tuple, Spec]:
        return {}


def resolve(program: Program, mesh: Mesh, layout: LayoutLike, pad: bool | None = None) -> LegalRules:
    """Checks a layout against a program and a mesh.

    Args:
        program: the program.
        mesh: the mesh.
        layout: the layout.
        pad: whether a dim that its axes do not divide is padded, not refused; None, where the caller
            cannot pad, leaves pad=True out of the remedies.

    Returns:
        Its `LegalRules`.

    Raises:
        LayoutError: it is not legal; all problems are listed.
        MeshlabError: `mesh` is no mesh.
    """
    layout = _asked("plan", mesh, layout)
    compute, problems = named_rules(program, mesh, layout)
    matched = _matched_places(program, mesh, layout, problems)
    problems += _size_problems(program, mesh, compute, "", pad)
    problems += _conflicts(program, compute)
    problems += _scanned(program, compute)
    for place, place_rules, _ in _different_storage(program, matched):
        problems += _size_problems(program, mesh, place_rules, f"At `{place}`: ", pad)
        problems += _storage_problems(program, compute, place, place_rules)
    carried = _with_carries(program, matched)
    for place, place_rules, _ in _different_storage(program, {p: r for p, r in carried.items() if p not in matched}):
        problems += _carried_problems(program, compute, place, place_rules)
    matched = carried
    problems += serial_problems(program, mesh, compute, matched)
    refuse(mesh, layout, problems)

    def real(rules: AxesByDim) -> dict[str, Axes]:
        split = {d: tuple(a for a in axes if mesh.axes[a] > 1) for d, axes in rules.items()}
        majors = program.majors.items()
        return split | {n: fitting(split[d], most, mesh.axes) for n, (d, most) in majors if d in split}

    padded = _padding(program, mesh, (compute, *matched.values())) if pad else {}
    stored = {key: real(rules) for key, rules in {id(rules): rules for rules in matched.values()}.items()}
    storage: Mapping[str, AxesByDim] = {place: stored[id(rules)] for place, rules in matched.items()}
    serial = {a: mesh.serial[a] for axes in real(compute).values() for a in axes if a in mesh.serial}
    if serial:
        storage = serial_storage(program, frozenset(serial), real(compute), storage)
    return LegalRules(real(compute), storage, padded, serial)


def _asked(what: str, mesh: Any, layout: LayoutLike) -> Layout:
    """Returns the layout, if it is one and the mesh is one."""
    if not isinstance(mesh, Mesh):
        turned = " The mesh comes first." if isinstance(layout, Mesh) else ""
        raise MeshlabError(
            f"{what}() was given {shown(mesh)} for its mesh; write program.{what}(ml.mesh(data=2), layout).{turned}"
        )
    return Layout.of(layout)


def _padding(program: Program, mesh: Mesh, rules: Iterable[AxesByDim]) -> dict[int, int]:
    """Pads each size that some rule shards unevenly to a multiple of all numbers of parts that it has."""
    counts: dict[int, set[int]] = {}
    for each in rules:
        for dim, axes in each.items():
            counts.setdefault(program.dims[dim], set()).add(math.prod(mesh.axes[a] for a in axes))
    uneven = {size: math.lcm(*parts) for size, parts in counts.items() if any(size % n for n in parts)}
    return {size: -(-size // least) * least for size, least in uneven.items()}


def refusals(
    program: Program, mesh: Mesh, layout: LayoutLike, pad: bool = False
) -> dict[str, dict[str, Refusal | None]]:
    """Returns for every dim and mesh axis the refusal if the dim were moved there, or None; with padding if `pad`.

    Raises:
        LayoutError: the layout itself names what is not there.
        MeshlabError: `mesh` is no mesh.
    """
    layout = _asked("refusals", mesh, layout)
    compute, problems = named_rules(program, mesh, layout)
    stored = _different_storage(program, _with_carries(program, _matched_places(program, mesh, layout, problems)))
    refuse(mesh, layout, problems)
    table: dict[str, dict[str, Refusal | None]] = {}
    for dim in program.dims:
        table[dim] = {}
        # Where a place has a rule of its own for the dim, the compute rule does not count.
        places = [(place, rules) for place, rules, names in stored if dim in names and dim not in rules]
        for axis in mesh.axes:
            moved = compute | {dim: (axis,)}
            reasons = [
                *_size_problems(program, mesh, {dim: (axis,)}, "", pad or None),
                *_scanned(program, {dim: (axis,)}),
                *_conflicts(program, moved, about=dim),
                *serial_problems(program, mesh, {dim: (axis,)}, {}),
                *(p for place, rules in places for p in _storage_problems(program, moved, place, rules)),
            ]
            table[dim][axis] = reasons[0] if reasons else None
    return table


def named_rules(program: Program, mesh: Mesh, layout: Layout) -> tuple[dict[str, Axes], list[Refusal]]:
    """Returns the compute rules of a layout whose names exist, and what is wrong with its names and sizes."""
    problems = _said_problems(program, layout)
    return _known_rules(program, mesh, layout.rules, "", problems), problems


def _said_problems(program: Program, layout: Layout) -> list[Refusal]:
    """Returns the problems of dims that are named and get no axes, and of sizes that are named."""
    unknown = (dim for dim in layout.whole if not dim.endswith("?") and dim not in program.dims)
    problems = [_unknown_dim(program, dim, "") for dim in unknown]
    for place, dim, size in layout.sizes:
        actual = program.dims.get(dim, size)
        if actual != size:
            where = f"At `{place}`: " if place else ""
            text = f"{where}`{dim}` has size {actual:,} in this program, and was given as a dim of size {size:,}."
            problems.append(Refusal("another_size", text, f'Name it "{dim}", or trace the program at that size.'))
    return problems


def _known_rules(
    program: Program, mesh: Mesh, rules: AxesByDim, where: str, problems: list[Refusal]
) -> dict[str, Axes]:
    """Returns the rules whose names exist; the others are problems, or left out where they are optional."""
    known: dict[str, Axes] = {}
    for written, axes in rules.items():
        dim, optional = written.removesuffix("?"), written.endswith("?")
        missing = [a for a in axes if a not in mesh.axes]
        if missing and dim in mesh.axes and dim not in program.dims and all(a in program.dims for a in axes):
            text = f"{where}`{dim}:{'+'.join(axes)}` has the mesh axis in front."
            problems.append(Refusal("unknown_dim", text, f"Write `{axes[0]}:{dim}`: the dim first."))
            continue
        if dim not in program.dims and not optional:
            problems.append(_unknown_dim(program, dim, where))
        if dim in program.dims or not optional:  # the `?` of a dim that is there excuses no mesh axis
            for axis in missing:
                fix = closest(axis, mesh.axes).strip() or f"Its axes are {listed(mesh.axes)}."
                problems.append(Refusal("unknown_axis", f"{where}`{dim}:{axis}`: the mesh has no axis `{axis}`.", fix))
        if len(set(axes)) < len(axes):
            text = f"{where}`{dim}:{'+'.join(axes)}` names one axis twice."
            problems.append(Refusal("repeated_axis", text, "Name each axis once."))
        elif dim in program.dims and not missing:
            known[dim] = axes
    return known


def _unknown_dim(program: Program, dim: str, where: str) -> Refusal:
    if dim in made_up(program):
        text = f"{where}`{dim}` is a name that meshlab made up, which layouts cannot address."
        new = re.sub(r"\W", "", dim) or "kv"
        new = f"{new}_2" if new in program.dims or not new.isidentifier() else new
        return Refusal("unknown_dim", text, f'Give it one of yours: program.rename({{"{dim}": "{new}"}}).')
    if dim in program.places:
        fix = f'It is a place, whose rules are a dict: {{"{dim}": {{"embed": "data"}}}}, say.'
    else:
        near = closest(dim, (*program.dims, *{place.split("/")[0] + "/*" for place in program.places if "/" in place}))
        fix = near.strip() or f"Its dims are {listed(program.dims)}."
    return Refusal("unknown_dim", f"{where}`{dim}` is no dim of this program.", fix)


def _matched_places(
    program: Program, mesh: Mesh, layout: Layout, problems: list[Refusal]
) -> dict[str, dict[str, Axes]]:
    """Returns the rules of each place that some glob matches; of several globs the last one counts."""
    matched: dict[str, dict[str, Axes]] = {}
    for written, rules in layout.places.items():
        # `?` stands for one character, as everywhere in globs; only where nothing matches so is it read as optional.
        glob, optional = written, written.endswith("?")
        if optional and not program.matching(glob):
            glob = written.removesuffix("?")
        places = program.matching(glob)
        known = _known_rules(program, mesh, rules, f"At `{glob}`: ", problems)
        if not places and not optional:
            empty = [p for p in program.parameters if not program.matching(f"{p}/*") and p not in program.places]
            globs = [f"{p}/*" for p in program.parameters if p not in program.places and p not in empty]
            near = globs if "*" in glob else program.places
            fix = closest(glob, near).strip() or f"Its places are {some(program.places, 12)}."
            fix = f"Argument `{owner}` holds no arrays." if (owner := glob.split("/")[0]) in empty else fix
            problems.append(Refusal("unknown_place", f"`{glob}` matches no place of this program.", fix))
        dims = frozenset[str]().union(*(program.place_dims[p] for p in places))
        for dim in known:
            if places and dim not in dims:
                named = "" if glob in places else f" ({some(places, 4)})"
                text = f"At `{glob}`: no value there has the dim `{dim}`{named}."
                problems.append(Refusal("unused_dim", text, f"They have {listed(sorted(dims))}."))
        for place in places:
            matched[place] = known
    return matched


def _with_carries(program: Program, matched: dict[str, dict[str, Axes]]) -> dict[str, dict[str, Axes]]:
    """Gives an output that is the next call's argument that argument's rules, unless it has its own."""
    carried = {}
    for carry in program.carries:
        for place in program.outputs:
            if place == carry.place or place.startswith(carry.place + "/"):
                source = carry.parameter + place[len(carry.place) :]
                if source in matched:
                    carried[place] = matched[source]
    return carried | matched


def _different_storage(
    program: Program, matched: Mapping[str, AxesByDim]
) -> list[tuple[str, AxesByDim, frozenset[str]]]:
    """Returns of the places with rules of their own one for each different set of rules and dims, with those dims."""
    different = {}
    for place, rules in matched.items():
        names = program.place_dims[place]
        different.setdefault((id(rules), names), (place, rules, names))
    return list(different.values())


def _size_problems(
    program: Program, mesh: Mesh, rules: AxesByDim, where: str, pad: bool | None = None
) -> list[Refusal]:
    """Returns the problems of dims that their axes do not divide, but for those that padding mends."""
    problems = []
    for dim, axes in rules.items():
        size, count = program.dims[dim], math.prod(mesh.axes[a] for a in axes)
        if size == 0 and count > 1:
            text = f"{where}`{dim}` has size 0: there is nothing to shard."
            problems.append(Refusal("not_divisible", text, "Leave it replicated."))
        elif size % count and not pad:
            instead = "" if pad is None else "; or plan with pad=True"
            problems.append(uneven(f"{where}`{dim}`", size, axes, mesh, instead))
    return problems


def uneven(dim: str, size: int, axes: Axes, mesh: Mesh, instead: str = "") -> Refusal:
    """Refuses a dim whose size its axes do not divide, with the sizes that they would."""
    count = math.prod(mesh.axes[a] for a in axes)
    down, up = size // count * count, -(-size // count) * count
    fitting = f"{down} or {up}" if down else str(up)
    text = f"{dim} has size {size}, which {count} ({'+'.join(f'`{a}`' for a in axes)}) does not divide."
    return Refusal("not_divisible", text, f"Sizes that fit: {fitting}{instead}.")


def _scanned(program: Program, rules: AxesByDim) -> list[Refusal]:
    return [
        Refusal(
            "pipeline",
            f"`{dim}` is the dim of a scan, whose steps run one after another: sharding it needs a pipeline schedule.",
            _stored_instead(program, dim, axes[0]),
            scan.source,
        )
        for dim, axes in rules.items()
        if axes and (scan := scanned_dims(program).get(dim))
    ]


def _stored_instead(program: Program, dim: str, axis: str) -> str:
    """Writes the rule for a dim that may only be stored sharded: where it is stored first, and its like."""
    places = [place for place in program.places if dim in program.place_dims[place]]
    if not places:
        return ""
    alike = [place for place in places if place.split("/")[0] == places[0].split("/")[0]]
    glob = os.path.commonpath(alike) + "/*" if len(alike) > 1 else places[0]
    return f'To store it sharded, write {{"{glob}": {{"{dim}": "{axis}"}}}}.'


def _conflicts(program: Program, rules: AxesByDim, about: str | None = None) -> list[Refusal]:
    """Returns the problems of pairs of dims that share an axis and are in one operation or value."""
    problems = []
    names = list(rules)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            if about is not None and about not in (a, b):
                continue
            shared = [x for x in rules[a] if x in rules[b]]
            first = axis_conflicts(program).get(frozenset((a, b))) if shared else None
            if first is not None:
                problems.append(_conflict(a, b, shared[0], first))
    return problems


def _conflict(a: str, b: str, axis: str, first: Operation | str) -> Refusal:
    if isinstance(first, str):
        where, source = f"`{first}`", None
    else:
        source = first.source
        where = f"`{first.name}` at {source}" if source else f"`{first.name}`"
    text = f"`{a}` and `{b}` cannot both be on `{axis}`: both are dims of {where}."
    return Refusal("conflict", text, "Put one of them on another axis, or leave it replicated.", source)


def _storage_problems(program: Program, compute: AxesByDim, place: str, place_rules: AxesByDim) -> list[Refusal]:
    problems = []
    rules = dict(compute) | dict(place_rules)
    values = [op.outputs[0] for op in program.tags.get(place, ())] or [program.places_values.get(place)]
    for value in values:
        names = [n for n in (program.dims_of(value) if value is not None else ()) if n in rules]
        for i, a in enumerate(names):
            for b in names[i + 1 :]:
                shared = [x for x in rules[a] if x in rules[b]]
                if shared and (a in place_rules or b in place_rules):
                    text = f"At `{place}`: `{a}` and `{b}` are both on `{shared[0]}`."
                    problems.append(Refusal("conflict", text, "A mesh axis shards one dim of a value."))
    return problems


def _carried_problems(program: Program, compute: AxesByDim, place: str, place_rules: AxesByDim) -> list[Refusal]:
    """Returns the problems of an output under the rules of the argument that it is the next value of."""
    carry = next(c for c in program.carries if place == c.place or place.startswith(c.place + "/"))
    source = carry.parameter + place[len(carry.place) :]
    return [
        dataclasses.replace(
            problem,
            text=f"{problem.text} It is the next `{source}`, and has its rules.",
            fix=f"Give `{place}` rules of its own, or trace with a `carry` that leaves `{carry.parameter}` out.",
        )
        for problem in _storage_problems(program, compute, place, place_rules)
    ]
