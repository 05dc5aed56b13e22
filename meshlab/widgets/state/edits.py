"""The document after an edit of its mesh, its dims' names and sizes, its padding or its pins.

    RenameAxis("data", "replica")     rules, pins and the placement follow
    SplitAxis("data", 2, "pod")       batch:data becomes batch:pod+data
    MergeAxes(("pod", "data"))        and back, where every rule has them side by side
    ResizeAxis("data", 8)             the layout stays, and is refused where a dim is not divided

The placement on the machine is derived anew: constraints of axes that changed are dropped, and the slice stays if the
mesh fits it. `note_of` says what went.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...auto.request.constraints import read_constraints
from ...cost.machines.hardware import HardwareError
from ...cost.machines.meshes import slice_of
from ...engine.argument_checks import is_whole
from ...engine.errors import LayoutError, closest, listed, shown
from ...engine.programs.rename import renamed
from ...engine.programs.resize import check_sizes
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from ...engine.specs.spec import Axes
from .document import Document, Machine, MeshSizes
from .intents import (
    Edit,
    MergeAxes,
    Pad,
    Pin,
    RenameAxis,
    RenameDim,
    ResizeAxis,
    ResizeDim,
    SplitAxis,
    Unpin,
)
from .machines import CustomMachines, as_written, fit

# For one rule's axes, those after an edit.
Follow = Callable[[str, Axes], Axes]


def edited(intent: Edit, document: Document, program: Any, custom: CustomMachines) -> Document:
    match intent:
        case RenameAxis(axis, name):
            _check_axes(document.mesh, [axis])
            mesh = tuple((name if each == axis else each, size) for each, size in document.mesh)
            after = _with_mesh(document, mesh, lambda _, axes: tuple(name if each == axis else each for each in axes))
            names = {each: name if each == axis else each for each, _ in document.mesh}
            return placed(after, document.machine, names, custom)
        case SplitAxis(axis, outer, name):
            return _split(document, axis, outer, name, custom)
        case MergeAxes(axes, name):
            return _merged(document, axes, name, custom)
        case ResizeAxis(axis, size):
            _check_axes(document.mesh, [axis])
            mesh = Mesh(document.mesh).resized({axis: size}).shape
            after = _with_mesh(document, mesh, lambda _, axes: axes)
            return placed(after, document.machine, _kept(mesh, axis), custom)
        case ResizeDim(dim, size):
            return _resized(document, program, dim, size)
        case RenameDim(dim, name):
            return _renamed(document, program, dim, name)
        case Pad(pad):
            return dataclasses.replace(document, pad=pad)
        case Pin(dim, axis):
            pins = {**dict(document.pins), dim: axis}
            read_constraints(program, Mesh(document.mesh), pins, None)
            return dataclasses.replace(document, pins=tuple(sorted(pins.items())))
        case Unpin(dim):
            if dim not in dict(document.pins):
                raise LayoutError(f"`{dim}` is not pinned.{closest(dim, dict(document.pins))}")
            return dataclasses.replace(document, pins=tuple(pin for pin in document.pins if pin[0] != dim))


def note_of(before: Document, after: Document, intent: Edit) -> str:
    """Says what an edit changed beside what was asked for: placements, the slice, pins, sizes that follow."""
    notes, renamed_axes = [], {intent.axis: intent.name} if isinstance(intent, RenameAxis) else {}
    if before.machine and after.machine:
        there = dict(after.machine.along)
        dropped = [name for name, _ in before.machine.along if renamed_axes.get(name, name) not in there]
        if dropped and before.mesh != after.mesh:
            notes.append(f"The placement of {listed(dropped)} is derived anew.")
        if before.machine.on != after.machine.on and before.mesh != after.mesh:
            notes.append(f"The mesh is on `{after.machine.on}` now.")
    unpinned = [dim for dim, _ in before.pins if dim not in {name for name, _ in after.pins}]
    if unpinned and not isinstance(intent, Unpin | RenameDim):
        notes.append(f"The pin of {listed(unpinned)} is gone.")
    sizes = dict(before.dims)
    followed = [f"{dim}={n:,}" for dim, n in after.dims if sizes.get(dim, n) != n]
    if isinstance(intent, ResizeDim) and len(followed) > 1:
        notes.append(f"Resized: {listed(followed)}.")
    return " ".join(notes)


def settled(document: Document, program: Any) -> Document:
    """Returns a document with the dims of its program, without the pins that no layout of it satisfies."""
    pins: dict[str, str | None] = {}
    for dim, axis in document.pins:
        with contextlib.suppress(LayoutError):
            read_constraints(program, Mesh(document.mesh), {**pins, dim: axis}, None)
            pins[dim] = axis
    return dataclasses.replace(document, pins=tuple(pins.items()), dims=tuple(program.dims.items()))


def _check_axes(mesh: MeshSizes, axes: Any):
    known = dict(mesh)
    unknown = [axis for axis in axes if axis not in known]
    if unknown:
        near = closest(str(unknown[0]), known) or f" It has {listed(known)}."
        raise LayoutError(f"The mesh has no axis {listed(map(str, unknown))}.{near}")


def _refuse_in_time(mesh: MeshSizes, axes: Sequence[str], what: str):
    refused = next((axis for axis in axes if axis in (in_time := Mesh(mesh).in_time)), None)
    if refused:
        raise LayoutError(f"`{refused}` is {in_time[refused].noun}, which cannot be {what}; it can be resized.")


def _with_mesh(document: Document, mesh: MeshSizes, follow: Follow) -> Document:
    """Returns a document with another mesh, whose rules and pins follow; a pin for which there is no axis goes."""
    mesh = Mesh(mesh).shape
    layout, pins = document.layout, []
    rules = tuple((dim, follow(dim, axes)) for dim, axes in layout.dim_rules)
    places, scopes = (
        tuple((glob, tuple((dim, follow(f"{dim} at {glob}", axes)) for dim, axes in at)) for glob, at in by_glob)
        for by_glob in (layout.place_rules, layout.scope_rules)
    )
    layout = dataclasses.replace(layout, dim_rules=rules, place_rules=places, scope_rules=scopes)
    for dim, axis in document.pins:
        with contextlib.suppress(LayoutError):
            axes = follow(dim, (axis,)) if axis else ()
            if len(axes) < 2:
                pins.append((dim, axes[0] if axes else None))
    return dataclasses.replace(document, mesh=mesh, layout=layout, pins=tuple(pins))


def _split(document: Document, axis: str, outer: Any, name: str, custom: CustomMachines) -> Document:
    _check_axes(document.mesh, [axis])
    _refuse_in_time(document.mesh, [axis], "split")
    size = Mesh(document.mesh).axes[axis]
    if not is_whole(outer) or outer < 1 or size % outer:
        parts = listed(str(n) for n in range(2, size) if size % n == 0)
        fix = f" Its outer part can be {parts}." if parts else ""
        raise LayoutError(f"`{axis}` of {size:,} cannot be split into {shown(outer)} outer parts.{fix}")
    new: MeshSizes = ((name, outer), (axis, size // outer))
    mesh = tuple(part for each in document.mesh for part in (new if each[0] == axis else (each,)))
    after = _with_mesh(
        document, mesh, lambda _, axes: tuple(p for a in axes for p in ((name, axis) if a == axis else (a,)))
    )
    return placed(after, document.machine, _kept(mesh, axis, name), custom)


def _merged(document: Document, axes: Axes, name: str | None, custom: CustomMachines) -> Document:
    _check_axes(document.mesh, axes)
    if len(set(axes)) < 2 or len(set(axes)) < len(axes):
        raise LayoutError(f"Two different mesh axes or more can be merged, not {listed(axes)}.")
    _refuse_in_time(document.mesh, axes, "merged")
    merged, sizes = name or axes[-1], Mesh(document.mesh).axes
    whole = math.prod(sizes[axis] for axis in axes)
    left = [each for each in document.mesh if each[0] not in axes[1:]]
    mesh = tuple((merged, whole) if axis == axes[0] else (axis, size) for axis, size in left)

    def follow(rule: str, rule_axes: Axes) -> Axes:
        if not set(axes) & set(rule_axes):
            return rule_axes
        start = rule_axes.index(axes[0]) if axes[0] in rule_axes else 0
        if rule_axes[start : start + len(axes)] != axes:
            raise LayoutError(
                f"{listed(axes)} cannot be merged: `{rule}` is on `{'+'.join(rule_axes)}`, and must be on"
                f" `{'+'.join(axes)}`, side by side, or on none of them."
            )
        return (*rule_axes[:start], merged, *rule_axes[start + len(axes) :])

    # A pin is one axis; it stays with the axis that this one becomes part of.
    pins = tuple((dim, merged if axis in axes else axis) for dim, axis in document.pins)
    after = _with_mesh(dataclasses.replace(document, pins=()), mesh, follow)
    return placed(dataclasses.replace(after, pins=pins), document.machine, _kept(mesh, *axes, merged), custom)


def _kept(mesh: MeshSizes, *changed: str) -> dict[str, str]:
    """Returns the names of axes that have not changed, by themselves."""
    return {name: name for name, _ in mesh if name not in changed}


def placed(after: Document, machine: Machine | None, names: Mapping[str, str], custom: CustomMachines) -> Document:
    """Returns a document whose mesh is placed on its machine again.

    Args:
        after: the document with its new mesh.
        machine: the machine and the placements of before.
        names: for axes whose placements stay, their names now by those before.
        custom: the user's own machines, by name.
    """
    if machine is None:
        return dataclasses.replace(after, machine=None)
    along = tuple(sorted((names[name], where) for name, where in machine.along if name in names))
    name = slice_of(machine.on)[0]
    fitting = (f"{name}:{shape}" for shape in fit(name, after.mesh, custom, 1))
    for on in itertools.chain([machine.on], fitting):
        for wanted in (along, ()):
            with contextlib.suppress(HardwareError):
                return dataclasses.replace(after, machine=as_written(Machine(on, wanted), after.mesh, custom))
    mesh = Mesh(after.mesh)
    raise HardwareError(
        f"No slice of `{name}` fits the mesh {mesh} ({mesh.size:,} devices). Place it on another machine first, or on"
        " none: explorer.on(None)."
    )


def _resized(document: Document, program: Any, dim: str, size: Any) -> Document:
    """Returns a document that asks for another size; its other dims follow when the program has been traced."""
    check_sizes(program, {dim: size})
    if program.dims.get(dim) == size:
        return document
    first = [old for old, new in document.renamed if new == dim] or [dim]
    resized = {**dict(document.resized), **dict.fromkeys(first, size)}
    layout = dataclasses.replace(document.layout, sizes=())
    return dataclasses.replace(document, resized=tuple(sorted(resized.items())), layout=layout)


def _renamed(document: Document, program: Any, dim: str, name: str) -> Document:
    """Returns a document in which a dim is called otherwise, in its rules and pins as well."""
    after = renamed(program, {dim: name}, {})
    names = {old: name if new == dim else new for old, new in document.renamed}
    if dim not in dict(document.renamed).values():
        names[dim] = name
    names = {old: new for old, new in names.items() if old != new}

    def follow(written: str) -> str:
        return written.replace(dim, name, 1) if written.removesuffix("?") == dim else written

    layout = document.layout
    rules = tuple(sorted((follow(each), axes) for each, axes in layout.dim_rules))
    places, scopes = (
        tuple((glob, tuple(sorted((follow(each), axes) for each, axes in at))) for glob, at in by_glob)
        for by_glob in (layout.place_rules, layout.scope_rules)
    )
    changed = Layout(rules, places, scopes, whole=tuple(map(follow, layout.whole)))
    pins = tuple(sorted((follow(each), axis) for each, axis in document.pins))
    return dataclasses.replace(
        document, layout=changed, pins=pins, renamed=tuple(sorted(names.items())), dims=tuple(after.dims.items())
    )
