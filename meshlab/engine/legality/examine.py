"""Legality decides on dims alone, before anything is planned, whether a layout may be used.

1. Every dim, mesh axis, place and scope that a layout names exists (`named_rules.py`).
2. A mesh axis splits at most one dim of any one operation, and of any one value where it is stored. An operation is
   judged under the rules of its scope, storage under the rules without one.
3. The product of the axes that split a dim divides its size; of a merged axis that is only stored, the axis's size.
4. The dim of a scan is computed step by step: sharding it needs a pipeline schedule.

All problems of a layout are found and raised at once. The same tests answer for every dim and mesh axis whether the dim
may go there, fast enough to colour the zones of a drag before it begins.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..code.operations import Operation
from ..errors import MeshlabError, shown
from ..programs.axis_conflicts import Conflicts
from ..programs.program import Program
from ..programs.scoped import scoped as as_scoped
from ..specs.layout import Layout, LayoutLike
from ..specs.mesh import Mesh
from ..specs.scopes import path
from ..specs.spec import Axes, AxesByDim, Padded
from .asked import as_asked, under
from .legal_rules import LegalRules
from .named_rules import as_written, matched_places, matched_scopes, named_rules
from .part_rules import part_rules
from .refusal import Refusal, refuse
from .scan_legality import scanned_problems
from .scope_legality import Meeting, ScopedRules, judged
from .size_legality import merged_sizes, size_problems, stored_by_dim, stored_problems
from .stage_legality import as_run, on_stages, stage_problems
from .time_legality import cut_behind, storage_in_time, time_problems, whole_problems
from .zigzag_legality import zigzag_problems


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What legality finds of a layout.

    Attributes:
        rules: the layout as it applies; None where its problems leave nothing to plan.
        problems: why it is refused; none where it is legal.
        whole: the operations that need all of a dim on an axis in time at once. They are among the problems, but a plan
            can be made, to find what else is wrong.
    """

    rules: LegalRules | None
    problems: tuple[Refusal, ...]
    whole: frozenset[Operation]


def resolve(program: Program, mesh: Mesh, layout: LayoutLike, pad: bool | None = None) -> LegalRules:
    """Returns the rules of a layout for a program on a mesh; refuses one that is not legal, with all its problems.

    With `pad` a dim that its axes do not divide is padded, not refused; None, where the caller cannot pad, leaves
    pad=True out of the remedies.
    """
    verdict = examine(program, mesh, layout, pad)
    refuse(mesh, Layout.of(layout), verdict.problems)
    assert verdict.rules is not None
    return verdict.rules


def examine(program: Program, mesh: Mesh, layout: LayoutLike, pad: bool | None = None) -> Verdict:
    """Finds all problems of a layout that dims alone tell; refuses one that it cannot read. For `pad` see `resolve`."""
    layout = _asked("plan", mesh, layout)
    program = as_scoped(as_asked(program, mesh, layout), mesh, layout)
    compute, problems = named_rules(program, mesh, layout)
    scoped = matched_scopes(program, mesh, layout, problems)
    matched = matched_places(program, mesh, layout, problems)
    problems += [*size_problems(program, mesh, compute, "", pad), *zigzag_problems(program, mesh, layout, matched)]
    for glob, rules in scoped:
        problems += size_problems(program, mesh, rules, f"In `{glob}`: ", pad)
    everywhere = judged(program, compute, scoped)
    for rules, meeting in everywhere:
        problems += [*_conflicts(rules, meeting.conflicts), *scanned_problems(program, mesh, rules, meeting.scans)]
        problems += stage_problems(program, mesh, rules, meeting.scans, matched=matched, pad=pad)
    problems += stored_problems(program, mesh, matched, pad)
    for place, place_rules, _ in _different_storage(program, matched):
        problems += _storage_problems(program, compute, place, place_rules)
    written = as_written(program, layout, matched) if mesh.in_time else {}
    carried = _with_carries(program, matched)
    for place, place_rules, _ in _different_storage(program, {p: r for p, r in carried.items() if p not in matched}):
        problems += _carried_problems(program, compute, place, place_rules)
    whole: list[tuple[Operation, Refusal]] = []
    for rules, meeting in everywhere:
        problems += time_problems(mesh, rules, written)
        whole += whole_problems(program, mesh, rules, meeting.scopes)
    legal = None
    if not problems:
        legal = _legal_rules(program, mesh, compute, scoped=scoped, everywhere=everywhere, matched=carried, pad=pad)
    every = (*problems, *(problem for _, problem in whole))
    return Verdict(legal, every, frozenset(operation for operation, _ in whole))


def _legal_rules(
    program: Program,
    mesh: Mesh,
    compute: AxesByDim,
    *,
    scoped: ScopedRules,
    everywhere: list[tuple[AxesByDim, Meeting]],
    matched: Mapping[str, AxesByDim],
    pad: bool | None,
) -> LegalRules:
    """Returns the rules of a layout without problems: those of dims, by scope and place, without axes of size 1."""

    def split(rules: AxesByDim) -> dict[str, Axes]:
        return {d: tuple(a for a in axes if mesh.axes[a] > 1) for d, axes in rules.items()}

    def real(rules: AxesByDim, most: Mapping[str, int] = MappingProxyType({})) -> dict[str, Axes]:
        own = split(rules)
        return own | part_rules(program, mesh, own, split(compute) if most else {}, most)

    sizes = merged_sizes(program)
    uneven_places = [stored_by_dim(program, mesh, place, rules) for place, rules in matched.items()] if pad else []
    padded = _padding(program, mesh, (*(rules for rules, _ in everywhere), *uneven_places)) if pad else {}
    stored = {key: real(rules, sizes) for key, rules in {id(rules): rules for rules in matched.values()}.items()}
    storage: Mapping[str, AxesByDim] = {place: stored[id(rules)] for place, rules in matched.items()}
    different = [(real(rules), meeting.scopes) for rules, meeting in everywhere if rules != compute]
    by_scope = {scope: rules for rules, those in different for scope in those}
    used = {a for rules in (real(compute), *by_scope.values()) for axes in rules.values() for a in axes}
    in_time = {axis: mesh.in_time[axis] for axis in mesh.in_time if axis in used}
    if in_time:
        storage = storage_in_time(program, frozenset(in_time), real(compute), storage)
    fronts = {} if padded else cut_behind(program, frozenset(in_time), (real(compute), *by_scope.values()))
    globs = tuple((glob, real(rules)) for glob, rules in scoped)
    layers = [dim for dim, axes in real(compute).items() if on_stages(mesh, axes)]
    staged = {axis: as_run(program, mesh.stages[axis], layers) for axis in mesh.stages if axis in used}
    return LegalRules(real(compute), storage, padded, by_scope, globs, in_time, fronts, staged)


def _asked(what: str, mesh: Any, layout: LayoutLike) -> Layout:
    """Refuses what is no mesh or no layout; returns the layout."""
    if not isinstance(mesh, Mesh):
        turned = " The mesh comes first." if isinstance(layout, Mesh) else ""
        raise MeshlabError(
            f"{what}() was given {shown(mesh)} for its mesh; write program.{what}(ml.mesh(data=2), layout).{turned}"
        )
    return Layout.of(layout)


def _padding(program: Program, mesh: Mesh, rules: Sequence[AxesByDim]) -> Padded:
    """Pads each size that some rule shards unevenly to a multiple of all numbers of parts that it has.

    What an axis in time alone splits is another dim, or meets the parts of devices only where it is whole: its
    blocks are no larger than they must be.
    """
    splits: dict[int, dict[Axes, None]] = {}
    for each in rules:
        for dim, axes in each.items():
            split = tuple(axis for axis in axes if mesh.axes[axis] > 1)
            if any(axis in mesh.stages for axis in split):  # layers are not padded
                continue
            splits.setdefault(program.dims[dim], {})[split] = None
    padded: dict[int | tuple[int, str], int] = {}
    for size, those in splits.items():
        counts = {split: math.prod(mesh.axes[a] for a in split) for split in those if split}
        if any(size % count for count in counts.values()):
            in_space = [count for split, count in counts.items() if split[0] not in mesh.in_time]
            padded[size] = _up(size, math.lcm(*(in_space or counts.values())))
            in_time = {split[-1] for split in counts if split[-1] in mesh.in_time}
            own = {axis: _up(size, mesh.axes[axis]) for axis in in_time}
            padded |= {(size, axis): least for axis, least in own.items() if least != padded[size]}
    # Layers on stages are not padded, whatever else is as long as they are.
    staged = {(program.dims[dim], axes[0]) for each in rules for dim, axes in each.items() if {*axes} & {*mesh.stages}}
    padded |= {(size, axis): size for size, axis in staged if size in padded}
    return padded


def _up(size: int, count: int) -> int:
    return -(-size // count) * count


def refusals(
    program: Program, mesh: Mesh, layout: LayoutLike, pad: bool = False
) -> dict[str, dict[str, Refusal | None]]:
    """Returns for every dim and mesh axis the refusal if the dim were moved there, or None; with padding if `pad`."""
    layout = _asked("refusals", mesh, layout)
    program = as_scoped(as_asked(program, mesh, layout), mesh, layout)
    compute, problems = named_rules(program, mesh, layout)
    scoped = matched_scopes(program, mesh, layout, problems)
    stored = _different_storage(program, _with_carries(program, matched_places(program, mesh, layout, problems)))
    refuse(mesh, layout, problems)
    table: dict[str, dict[str, Refusal | None]] = {}
    for dim in program.dims:
        table[dim] = {}
        # Where a place has a rule of its own for the dim, the compute rule does not count.
        places = [(place, rules) for place, rules, names in stored if dim in names and dim not in rules]
        for axis in mesh.axes:
            moved = compute | {dim: (axis,)}
            reasons = [
                *size_problems(program, mesh, {dim: (axis,)}, "", pad or None),
                *_moved_problems(program, mesh, moved, scoped, dim),
                *(p for place, rules in places for p in _storage_problems(program, moved, place, rules)),
            ]
            table[dim][axis] = reasons[0] if reasons else None
    return table


def _moved_problems(program: Program, mesh: Mesh, moved: AxesByDim, scoped: ScopedRules, dim: str) -> Iterable[Refusal]:
    """Yields the problems of a dim that was moved, in all scopes."""
    program = under(program, mesh, moved, scoped)
    for rules, meeting in judged(program, moved, scoped):
        yield from scanned_problems(program, mesh, {dim: rules[dim]}, meeting.scans)
        yield from stage_problems(program, mesh, rules, meeting.scans) if on_stages(mesh, rules[dim]) else ()
        yield from _conflicts(rules, meeting.conflicts, about=dim)
        yield from time_problems(mesh, {dim: rules[dim]}, {})
        yield from (problem for _, problem in whole_problems(program, mesh, rules, meeting.scopes, about=dim))


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
    """Returns one of the places with rules of their own for each different set of rules and dims, with those dims."""
    different = {}
    for place, rules in matched.items():
        names = program.place_dims[place]
        different.setdefault((id(rules), names), (place, rules, names))
    return list(different.values())


def _conflicts(rules: AxesByDim, conflicts: Conflicts, about: str | None = None) -> list[Refusal]:
    """Returns the problems of pairs of dims that share an axis and are in one operation or value."""
    problems = []
    names = list(rules)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            if about is not None and about not in (a, b):
                continue
            shared = [x for x in rules[a] if x in rules[b]]
            first = conflicts.get(frozenset((a, b))) if shared else None
            if first is not None:
                problems.append(_conflict(a, b, shared[0], first))
    return problems


def _conflict(a: str, b: str, axis: str, first: Operation | str) -> Refusal:
    if isinstance(first, str):
        where, source, scope = f"`{first}`", None, ()
    else:
        source, scope = first.source, first.scope
        where = f"`{first.name}`" + (f" at {source}" if source else "") + (f" in `@{path(scope)}`" if scope else "")
    text = f"`{a}` and `{b}` cannot both be on `{axis}`: both are dims of {where}."
    there = f', only there with {{"@{scope[-1]}": {{"{b}": None}}}}' if scope else ""
    return Refusal("conflict", text, f"Put one of them on another axis, or leave it replicated{there}.", source)


def _storage_problems(program: Program, compute: AxesByDim, place: str, place_rules: AxesByDim) -> list[Refusal]:
    problems = []
    rules = dict(compute) | dict(place_rules)
    values = [op.outputs[0] for op in program.marks.get(place, ())] or [program.places_values.get(place)]
    for value in values:
        names = [n for n in (program.dims_of(value) if value is not None else ()) if n in rules]
        for i, a in enumerate(names):
            for b in names[i + 1 :]:
                shared = [x for x in rules[a] if x in rules[b]]
                if shared and (a in place_rules or b in place_rules):
                    text = f"At `{place}`: `{a}` and `{b}` cannot both be on `{shared[0]}`: both are dims of it."
                    problems.append(Refusal("conflict", text, "Put one of them on another axis."))
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
