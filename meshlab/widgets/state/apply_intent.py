"""The document that an intent asks for, and the answer where that is refused.

    CHANGES[Place].after(documents, Place("hidden", ("model",)))      `batch:data` becomes `batch:data hidden:model`
    CHANGES[On].after(documents, On("v5e"))                           the mesh on another machine, the layout as it is

Each intent that changes the document is one entry of `CHANGES`: a pure function of what there is. The engine checks
that the program can be planned so, the cost model that the mesh fits the machine; their errors become answers.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ...cost.machines.hardware import Hardware, HardwareError
from ...cost.machines.meshes import slice_of
from ...engine.errors import DimError, LayoutError, MeshError, TraceError, closest, listed, shown
from ...engine.plans.remedies import Remedy
from ...engine.specs.layout import Layout
from ...layouts.by_name import SHORT
from ..documents import edits, kept, presets
from ..documents.document import UNASKED, Document, ExplorerError, Machine
from ..documents.documents import Documents, settled
from ..documents.history import History
from ..documents.intents import (
    Allow,
    Assume,
    Forbid,
    Intent,
    Lay,
    LimitAuto,
    Load,
    MergeAxes,
    On,
    Open,
    OpenSaved,
    Pad,
    Pin,
    Place,
    Redo,
    Refused,
    Remove,
    RenameAxis,
    RenameDim,
    Reset,
    ResizeAxis,
    ResizeDim,
    Restore,
    Silence,
    SplitAxis,
    TakePreset,
    TakeRemedy,
    TogglePreset,
    Undo,
    Unpin,
    refused,
)
from ..documents.machines import as_written, fit, mesh_on, named, placement_with
from ..documents.placing import refused_place, with_placed, without
from .selection import Selection, following

# What an intent asks for: a document, or a step in the history; or why not.
After = Callable[[Documents, Any], Document | History | Refused]


def after(documents: Documents, intent: Intent) -> History | Refused | Document:
    """Returns the history after an intent, a document whose program must be traced first, or why it is refused."""
    change = CHANGES.get(type(intent))
    if change is None:
        raise ExplorerError(
            f"{type(intent).__name__} does not change the document; `what_if` takes an intent that does."
            if isinstance(intent, Intent)
            else invalid_intent(intent)
        )
    try:
        asked = change.after(documents, intent)
        if not isinstance(asked, Document):
            return asked
        document = documents.programs.normal(asked)
        if not documents.programs.known(document):
            return document
        document = settled(document, documents.programs.at(document))
        documents.plan_at(document)
    except LayoutError as error:
        return change.refuse(documents, intent, error)
    except (DimError, MeshError, TraceError) as error:
        return Refused(str(error), code="invalid")
    except HardwareError as error:
        return Refused(str(error), code="machine")
    history = documents.history
    return history if document == history.present else history.commit(document)


def invalid_intent(value: Any) -> str:
    """Returns the error text for a value that must be an intent."""
    if isinstance(value, type) and issubclass(value, Intent):
        needed = [field.name for field in msgspec.structs.fields(value) if field.required]
        write = f"explorer.apply({value.__name__}({', '.join(needed)}))"
        return f"explorer.apply() was given the class {value.__name__} for an intent; write {write}."
    return (
        f"The Explorer was given {shown(value)} for an intent; write explorer.place(dim, axes), explorer.load(layout)"
        " for a whole layout, or explorer.apply(Place(dim, axes))."
    )


# The history


def undo(documents: Documents, intent: Undo) -> History | Refused:
    history = documents.history
    return history.undo() if history.past else Refused("There is nothing to undo.", code="nothing")


def redo(documents: Documents, intent: Redo) -> History | Refused:
    history = documents.history
    return history.redo() if history.future else Refused("There is nothing to redo.", code="nothing")


def restore(documents: Documents, intent: Restore | OpenSaved) -> Document:
    try:
        return documents.programs.read(intent.document)
    except ExplorerError as error:
        raise LayoutError(str(error)) from None


def reset(documents: Documents, intent: Reset) -> Document:
    document = documents.present
    asked = {name: getattr(document, name) for name in UNASKED}
    opened = dataclasses.replace(documents.opened, options=document.options, **asked)
    if opened.mesh == document.mesh:
        return dataclasses.replace(opened, machine=document.machine)
    return edits.placed(opened, document.machine, {}, documents.machines)


# The machine


def on(documents: Documents, intent: On) -> Document | Refused:
    document, asked = documents.present, intent.machine
    if asked is None or asked == "":
        _check_released(intent.along)
        return dataclasses.replace(document, machine=None)
    try:
        if isinstance(asked, Hardware):
            raise HardwareError(f"On was given {asked} itself; it must be a name. Write explorer.on(machine).")
        slice_of(asked)  # which checks that it is a text
        machine = Machine(str(asked), tuple(sorted(_requested(intent.along).items())))
        return dataclasses.replace(document, machine=as_written(machine, document.mesh, documents.machines))
    except HardwareError as error:
        return Refused(str(error), _slice_that_fits(documents, intent), "machine")


def lay(documents: Documents, intent: Lay) -> Document | Refused:
    document = documents.present
    if document.machine is None:
        raise HardwareError('The mesh is placed on no machine yet; explorer.on("v5e") places it on one.')
    try:
        changes, axes = _requested(intent.along), dict(document.mesh)
        unknown = [name for name, where in changes.items() if where is None and name not in axes]
        if unknown:
            raise HardwareError(
                f"The mesh has no axis {listed(unknown)}.{closest(unknown[0], axes)} It has {listed(axes)}."
            )
        along = dict(document.machine.along) | changes
        requested = tuple((name, where) for name, where in along.items() if where is not None)
        wanted = dataclasses.replace(document.machine, along=requested)
        return dataclasses.replace(document, machine=as_written(wanted, document.mesh, documents.machines))
    except HardwareError as error:
        return Refused(str(error), _requests_that_fit(documents, intent), "machine")


def assume(documents: Documents, intent: Assume) -> Document:
    options = {name: value for name, value in msgspec.structs.asdict(intent).items() if value is not None}
    document = documents.present
    return dataclasses.replace(document, options=dataclasses.replace(document.options, **options))


def _requested(along: Any) -> dict[str, Any]:
    """Returns the placements that are asked for, by mesh axis."""
    try:
        return dict(along)
    except (TypeError, ValueError):
        raise HardwareError(
            f'Invalid placements of mesh axes: {shown(along)}; they must be placements by mesh axis: {{"model": 0}}.'
        ) from None


def _check_released(along: Any):
    """Refuses placements that are asked for without a machine."""
    if requested := _requested(along):
        raise HardwareError(
            f"A placement of {listed(requested)} was asked for, and no machine. Name one, as in"
            ' explorer.on("v5e", model=0), or write explorer.on(None).'
        )


def _slice_that_fits(documents: Documents, intent: On) -> str:
    """Names the first slice of the machine on which the mesh can be placed as it was asked to."""
    mesh, machines = documents.present.mesh, documents.machines
    if not isinstance(intent.machine, str):
        return ""
    with contextlib.suppress(HardwareError):
        name, _ = named(slice_of(intent.machine)[0], machines)
        requested = tuple(_requested(intent.along).items())
        for shape in fit(name, mesh, machines):
            with contextlib.suppress(HardwareError):
                mesh_on(Machine(f"{name}:{shape}", requested), mesh, machines)
                return f"Take `{name}:{shape}`."
    return ""


def _requests_that_fit(documents: Documents, intent: Lay) -> str:
    mesh = documents.plan.mesh
    try:
        changes = {name: None for name in mesh.on.requested} | _requested(intent.along)
    except HardwareError:
        return ""
    if not changes.keys() <= mesh.axes.keys() or placement_with(mesh, changes) is None:
        return ""
    arguments = ", ".join(f"{name}={where!r}" for name, where in changes.items())
    return f"Release the other axes: `explorer.lay({arguments})`."


# The layout


def load(documents: Documents, intent: Load) -> Document:
    return dataclasses.replace(documents.present, layout=Layout.of(intent.layout))


def remedy(documents: Documents, intent: TakeRemedy) -> Document:
    document = documents.present
    return dataclasses.replace(document, layout=Remedy("", intent.changes).applied(document.layout))


def place(documents: Documents, intent: Place) -> Document:
    document = documents.present
    layout = with_placed(document.layout, documents.program, intent)
    return dataclasses.replace(document, layout=layout, pad=document.pad or intent.pad)


def remove(documents: Documents, intent: Remove) -> Document:
    document = documents.present
    return dataclasses.replace(document, layout=without(document.layout, documents.program, intent.dim, intent.at))


# The table


def _nothing(*_: Any) -> str:
    return ""


def _refused(documents: Documents, intent: Intent, error: LayoutError) -> Refused:
    return refused(error)


def _stays(selection: Selection, intent: Intent, plan: Any) -> Selection:
    return selection


@dataclasses.dataclass(frozen=True)
class Change:
    """What an intent does to the document.

    Attributes:
        op: its name, in a message of the page and as a method of the Explorer.
        after: what it asks for.
        note: of the documents before and after and the intent: what else has changed.
        name: of the intent, the documents and the one after it: what that layout is called; "" for its number.
        refuse: of the documents, the intent and the error: why a layout is refused, and what would be carried out.
        follow: of the selection, the intent and the plan after it: what is selected then.
    """

    op: str
    after: After
    note: Callable[[Document, Document, Any], str] = _nothing
    name: Callable[[Any, Documents, Document], str] = _nothing
    refuse: Callable[[Documents, Any, LayoutError], Refused] = _refused
    follow: Callable[[Selection, Any, Any], Selection] = _stays


CHANGES: Mapping[type, Change] = {
    Place: Change("place", place, refuse=refused_place, follow=following),
    Remove: Change("remove", remove),
    Load: Change("load", load, name=lambda intent, *_: intent.name),
    TakePreset: Change("preset", presets.preset, name=lambda intent, *_: "" if intent.combine else SHORT[intent.name]),
    TogglePreset: Change(
        "toggle",
        presets.toggle,
        name=lambda _, documents, after: presets.short_name(documents.name_of(after)),
        refuse=presets.refused_beside,
    ),
    TakeRemedy: Change("remedy", remedy),
    Reset: Change("reset", reset),
    Restore: Change("restore", restore),
    OpenSaved: Change("open_saved", restore),
    Undo: Change("undo", undo),
    Redo: Change("redo", redo),
    On: Change("on", on),
    Lay: Change("lay", lay),
    Assume: Change("assume", assume),
    RenameAxis: Change("rename_axis", edits.rename_axis, edits.mesh_note),
    SplitAxis: Change("split_axis", edits.split_axis, edits.mesh_note),
    MergeAxes: Change("merge_axes", edits.merge_axes, edits.mesh_note),
    ResizeAxis: Change("resize_axis", edits.resize_axis, edits.mesh_note, refuse=edits.refused_size),
    ResizeDim: Change("resize_dim", edits.resize_dim, edits.sizes_note),
    Open: Change("open", edits.open_model, name=lambda intent, *_: intent.model),
    RenameDim: Change("rename_dim", edits.rename_dim),
    Pad: Change("pad", edits.pad, edits.kept_note),
    Pin: Change("pin", kept.pin, edits.kept_note),
    Unpin: Change("unpin", kept.unpin),
    Forbid: Change("forbid", kept.forbid),
    Allow: Change("allow", kept.allow),
    Silence: Change("silence", kept.silence),
    LimitAuto: Change("limit_auto", kept.limit),
}
