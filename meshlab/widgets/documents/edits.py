"""The document after an edit of its mesh, its dims' names and sizes, its padding, or its model.

    RenameAxis("data", "replica")     rules, what searches keep to, and the placement follow
    SplitAxis("data", 2, "pod")       batch:data becomes batch:pod+data
    MergeAxes(("pod", "data"))        and back, where every rule has them side by side
    ResizeAxis("data", 8)             the layout stays, and is refused where a dim is not divided

The placement on the machine is derived anew: constraints of axes that changed are dropped, and the slice stays if the
mesh fits it. Notes say what went.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...cost.machines.hardware import HardwareError
from ...cost.machines.meshes import slice_of
from ...cost.machines.placed import AxisPlacement
from ...engine.argument_checks import is_whole
from ...engine.errors import LayoutError, MeshError, closest, listed, shown
from ...engine.legality.examine import resolve
from ...engine.programs.rename import renamed
from ...engine.programs.resize import check_sizes
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from ...engine.specs.spec import Axes
from ...engine.specs.zigzag import ordered_as
from ...layouts.carried import carried, ruled
from ..background.models import Model
from ..presets.buttons import Preset
from .document import Document, Machine, MeshSizes
from .documents import Documents
from .intents import (
    Intent,
    MergeAxes,
    Open,
    Pad,
    Refused,
    RenameAxis,
    RenameDim,
    ResizeAxis,
    ResizeDim,
    SplitAxis,
    refused,
)
from .machines import CustomMachines, as_written, fit
from .model_sizes import sizes_for

# For one rule's axes, those after an edit.
Follow = Callable[[str, Axes], Axes]
# What mesh axes are called after an edit, those that it changes: two names of one that is split.
Names = Mapping[str, tuple[str, ...]]


def names_after(intent: Intent) -> Names:
    """Returns what mesh axes are called after an intent, those that it changes."""
    match intent:
        case RenameAxis():
            return {intent.axis: (intent.name,)}
        case SplitAxis():
            return {intent.axis: (intent.name, intent.axis)}
        case MergeAxes():
            return dict.fromkeys(intent.axes, (intent.name or intent.axes[-1],))
    return {}


def rename_axis(documents: Documents, intent: RenameAxis) -> Document:
    document, axis, name = documents.present, intent.axis, intent.name
    _check_axes(document.mesh, [axis])
    mesh = tuple((name if each == axis else each, size) for each, size in document.mesh)
    after = _with_mesh(document, mesh, lambda _, axes: tuple(name if each == axis else each for each in axes))
    after = _followed(after, names_after(intent))
    names = {each: name if each == axis else each for each, _ in document.mesh}
    return placed(after, document.machine, names, documents.machines)


def split_axis(documents: Documents, intent: SplitAxis) -> Document:
    document, axis, outer, name = documents.present, intent.axis, intent.outer, intent.name
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
    after = _followed(after, names_after(intent))
    return placed(after, document.machine, _kept(mesh, axis, name), documents.machines)


def merge_axes(documents: Documents, intent: MergeAxes) -> Document:
    document, axes = documents.present, intent.axes
    _check_axes(document.mesh, axes)
    if len(set(axes)) < 2 or len(set(axes)) < len(axes):
        raise LayoutError(f"Two or more different mesh axes can be merged, not {listed(axes)}.")
    _refuse_in_time(document.mesh, axes, "merged")
    merged, sizes = intent.name or axes[-1], Mesh(document.mesh).axes
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

    after = _followed(_with_mesh(document, mesh, follow), names_after(intent))
    return placed(after, document.machine, _kept(mesh, *axes, merged), documents.machines)


def resize_axis(documents: Documents, intent: ResizeAxis) -> Document:
    document, axis = documents.present, intent.axis
    _check_axes(document.mesh, [axis])
    mesh = Mesh(document.mesh).resized({axis: intent.size}).shape
    after = _with_mesh(dataclasses.replace(document, pad=document.pad or intent.pad), mesh, lambda _, axes: axes)
    return placed(after, document.machine, _kept(mesh, axis), documents.machines)


def resize_dim(documents: Documents, intent: ResizeDim) -> Document:
    """Returns a document that asks for another size; its other dims follow when the program has been traced."""
    document, program, dim, size = documents.present, documents.program, intent.dim, intent.size
    check_sizes(program, {dim: size})
    if program.dims.get(dim) == size:
        return document
    first = [old for old, new in document.renamed if new == dim] or [dim]
    resized = {**dict(document.resized), **dict.fromkeys(first, size)}
    layout = dataclasses.replace(document.layout, sizes=())
    return dataclasses.replace(document, resized=tuple(sorted(resized.items())), layout=layout)


def open_model(documents: Documents, intent: Open) -> Document:
    """Returns the document with another model; with the layout of before where that has to be traced first."""
    present = documents.present
    if present.model is not None and present.model.name == intent.model and not intent.sizes:
        return present
    sizes = intent.sizes or sizes_for(documents, intent.model)
    model = Model(intent.model, tuple(sorted(sizes.items())))
    document = dataclasses.replace(present, model=model, resized=(), renamed=())
    if document == present or not documents.programs.known(document):
        return document
    program, layout = documents.programs.at(document), present.layout
    pins = tuple((dim, axis) for dim, axis in present.pins if dim in program.dims)
    document = dataclasses.replace(document, dims=tuple(program.dims.items()), pins=pins)
    here = next((each.name for each in documents.presets if each.layout == layout), "") if ruled(layout) else ""
    for other in carried(layout, here, program, documents.mesh):
        with contextlib.suppress(LayoutError):
            documents.plan_at(dataclasses.replace(document, layout=other))
            return dataclasses.replace(document, layout=other)
    return document


def rename_dim(documents: Documents, intent: RenameDim) -> Document:
    """Returns a document in which a dim is called otherwise, in its rules and pins as well."""
    document, dim, name = documents.present, intent.dim, intent.name
    after = renamed(documents.program, {dim: name}, {})
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
    return dataclasses.replace(
        document,
        layout=changed,
        pins=tuple(sorted((follow(each), axis) for each, axis in document.pins)),
        forbidden=tuple(sorted((follow(each), axis) for each, axis in document.forbidden)),
        renamed=tuple(sorted(names.items())),
        dims=tuple(after.dims.items()),
    )


def pad(documents: Documents, intent: Pad) -> Document:
    return dataclasses.replace(documents.present, pad=intent.pad)


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
    """Returns a document with another mesh, whose rules follow."""
    mesh, layout = Mesh(mesh).shape, document.layout
    rules = tuple((dim, ordered_as(axes, follow(dim, axes))) for dim, axes in layout.dim_rules)
    places, scopes = (
        tuple(
            (glob, tuple((dim, ordered_as(axes, follow(f"{dim} at {glob}", axes))) for dim, axes in at))
            for glob, at in by_glob
        )
        for by_glob in (layout.place_rules, layout.scope_rules)
    )
    layout = dataclasses.replace(layout, dim_rules=rules, place_rules=places, scope_rules=scopes)
    return dataclasses.replace(document, mesh=mesh, layout=layout)


def _followed(document: Document, names: Names) -> Document:
    """Returns a document in which what searches keep to is on the mesh axes of now; a pin is on one, or goes."""
    pins = tuple((dim, axis and names.get(axis, (axis,))[0]) for dim, axis in document.pins if _is_one(axis, names))
    forbidden = {(dim, axis) for dim, old in document.forbidden for axis in names.get(old, (old,))}
    silent = {axis for old in document.silent for axis in names.get(old, (old,))}
    return dataclasses.replace(document, pins=pins, forbidden=tuple(sorted(forbidden)), silent=tuple(sorted(silent)))


def _is_one(axis: str | None, names: Names) -> bool:
    return axis is None or len(names.get(axis, (axis,))) == 1


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
    along: tuple[tuple[str, AxisPlacement], ...] = tuple(
        sorted((names[name], where) for name, where in machine.along if name in names)
    )
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


# An axis whose size does not divide the dims that are on it.

# So many sizes are said, the nearest ones, and so many of them are buttons.
_SAID, _BUTTONS = 8, 4


def refused_size(documents: Documents, intent: ResizeAxis, error: LayoutError) -> Refused:
    """Returns why an axis cannot have a size: the dims that it does not divide, and the sizes that do."""
    answer = refused(error)
    if any(getattr(problem, "code", "") != "not_divisible" for problem in error.problems):
        return answer
    axis, size = intent.axis, intent.size
    rests = _rests(documents, axis)
    uneven = [f"`{dim}` {documents.program.dims[dim]:,}" for dim, rest in rests.items() if rest % size]
    if not uneven:  # what stands in an axis that is stored merged
        return answer
    whole = math.gcd(*rests.values())
    divisors = sorted((n for n in range(1, whole + 1) if whole % n == 0), key=lambda n: abs(math.log(n / size)))
    near = list(itertools.islice((n for n in divisors if _is_placed(documents, ResizeAxis(axis, n))), _SAID))
    fix = f"Sizes of `{axis}` that do: {', '.join(f'{n:,}' for n in sorted(near))}." if near else ""
    others = [n for n in near if n != documents.mesh.axes[axis]][:_BUTTONS]
    instead = [(f"{axis} {n:,}", ResizeAxis(axis, n)) for n in sorted(others)]
    if not documents.present.pad and _is_padded(documents, intent):
        instead.append((f"Pad, with {axis} {size:,}", ResizeAxis(axis, size, pad=True)))
        fix = f"{fix} Or pad the dims.".strip()
    brief = f"{size:,} does not divide {', '.join(uneven)}.", fix
    return dataclasses.replace(answer, brief=brief, instead=tuple(instead))


def _rests(documents: Documents, axis: str) -> dict[str, int]:
    """Returns for each dim that is on an axis its size on a device without it; of several such rules the least."""
    document, sizes = documents.present, documents.mesh.axes
    layout, rests = document.layout, dict[str, int]()
    for rules in (layout.dim_rules, *(own for _, own in (*layout.place_rules, *layout.scope_rules))):
        for written, axes in rules:
            dim = written.removesuffix("?")
            if axis in axes and dim in documents.program.dims:
                rest = documents.program.dims[dim] // math.prod(sizes[each] for each in axes if each != axis)
                rests[dim] = math.gcd(rests[dim], rest) if dim in rests else rest
    return rests


def _is_placed(documents: Documents, intent: ResizeAxis) -> bool:
    with contextlib.suppress(HardwareError, MeshError):
        return bool(resize_axis(documents, intent))
    return False


def _is_padded(documents: Documents, intent: ResizeAxis) -> bool:
    """Says whether an axis could have a size if dims were padded."""
    with contextlib.suppress(LayoutError, HardwareError, MeshError):
        after = resize_axis(documents, intent)
        return bool(resolve(documents.program, Mesh(after.mesh), after.layout, True))
    return False


# What an edit changed beside what was asked for.


def mesh_note(before: Document, after: Document, intent: Intent) -> str:
    """Says what went with an edit of the mesh, placements of its axes as well, and on which slice it is now."""
    rest = " ".join(filter(None, (_layers_note(before, after), kept_note(before, after, intent))))
    if before.machine is None or after.machine is None or before.mesh == after.mesh:
        return rest
    there, names = dict(after.machine.along), names_after(intent)
    dropped = [name for name, _ in before.machine.along if not there.keys() & names.get(name, (name,))]
    notes = [f"The placement of {listed(dropped)} is chosen again."] if dropped else []
    if before.machine.on != after.machine.on:
        notes.append(f"The mesh is now on `{after.machine.on}`.")
    return " ".join(filter(None, (*notes, rest)))


def _layers_note(before: Document, after: Document) -> str:
    """Says which stages have lost the numbers of layers that they were given: so many do not fit another number."""
    stages = Mesh(after.mesh).stages
    lost = [(name, axis) for name, axis in Mesh(before.mesh).stages.items() if axis.uneven and name in stages]
    return " ".join(
        f"The {axis.counts} of `{name}` do not fit {stages[name].size} stages; all stages now have equally many layers."
        for name, axis in lost
        if not stages[name].layers
    )


def kept_note(before: Document, after: Document, intent: Intent) -> str:
    """Says what searches need not keep to any more after a change: pins, forbidden pairs, silent mesh axes."""
    names = names_after(intent)
    pinned = [dim for dim, _ in before.pins if dim not in dict(after.pins)]
    forbidden = [
        f"`{dim}` off `{axis}`"
        for dim, axis in before.forbidden
        if not {(dim, each) for each in names.get(axis, (axis,))} & {*after.forbidden}
    ]
    silent = [axis for axis in before.silent if not {*names.get(axis, (axis,))} & {*after.silent}]
    notes = (
        f"The pin of {listed(pinned)} is gone." if pinned else "",
        f"Nothing keeps {', '.join(forbidden)} any more." if forbidden else "",
        f"{listed(silent)} need not be silent any more." if silent else "",
    )
    return " ".join(filter(None, notes))


def sizes_note(before: Document, after: Document, intent: Intent) -> str:
    """Says what went with a dim that is resized, and which other dims follow it."""
    sizes = dict(before.dims)
    followed = [f"{dim}={n:,}" for dim, n in after.dims if sizes.get(dim, n) != n]
    resized = f"Resized: {listed(followed)}." if len(followed) > 1 else ""
    return " ".join(filter(None, (kept_note(before, after, intent), resized)))


def opened_note(before: Document, after: Document, intent: Open, presets: Sequence[Preset]) -> str:
    """Says what became of the layout when another model was opened, and of what searches keep to."""
    return " ".join(filter(None, (_carried_note(before, after, presets), kept_note(before, after, intent))))


def _carried_note(before: Document, after: Document, presets: Sequence[Preset]) -> str:
    had, has = ruled(before.layout), ruled(after.layout)
    if not had:
        return ""
    if before.layout == after.layout:
        return "The layout stays."
    if not has:
        return "No rule of the layout fits this model: nothing is sharded."
    label = next((each.label for each in presets if each.layout == after.layout), "")
    if label:
        return f"The layout is this model's {label}."
    gone = dict.fromkeys(dim.removesuffix("?") for _, dim in sorted(had - has))
    return f"The layout is kept, except for {listed(gone)}, which this model does not have."
