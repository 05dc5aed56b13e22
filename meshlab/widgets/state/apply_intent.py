"""The document that an intent asks for, and the answer where that is refused.

Pure functions, apart from the Explorer that keeps the state: `Place("hidden", ("model",))` turns `batch:data` into
`batch:data hidden:model`, `On("v5e")` places the mesh on another machine and leaves the layout alone. The engine checks
that the program can be planned so, the cost model that the mesh fits the machine; `refused` turns their errors into
answers.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from ...cost.machines.hardware import Hardware, HardwareError
from ...cost.machines.meshes import slice_of
from ...engine.errors import LayoutError, closest, listed, shown, some
from ...engine.plans.remedies import Remedy
from ...engine.programs.axis_conflicts import conflicts_by_scope
from ...engine.specs.layout import Layout
from ...engine.specs.scopes import matches
from .document import Document, ExplorerError, Machine, document_of
from .edits import edited, placed
from .intents import Assume, Edit, Intent, Lay, Load, On, Place, Refused, Remove, Reset, Restore, TakeRemedy
from .machines import CustomMachines, as_written, fit, mesh_on, named, placement_with
from .retraced import Programs


def document_after(
    intent: Intent, document: Document, initial: Document, programs: Programs, custom: CustomMachines
) -> Document:
    """Returns the document that an intent asks for.

    Args:
        intent: what is asked.
        document: the present document.
        initial: the document that the Explorer was opened with.
        programs: the programs of its documents.
        custom: the user's own machines, by name.
    """
    match intent:
        case Restore(text):
            try:
                return document_of(text, programs.traced)
            except ExplorerError as error:
                raise LayoutError(str(error)) from None
        case Reset():
            after = dataclasses.replace(initial, options=document.options, pins=document.pins)
            if after.mesh == document.mesh:
                return dataclasses.replace(after, machine=document.machine)
            return placed(after, document.machine, {}, custom)
        case On(None, along):
            _check_released(along)
            return dataclasses.replace(document, machine=None)
        case On(on, along):
            if isinstance(on, Hardware):
                raise HardwareError(f"On was given {on} itself; it must be a name. Write explorer.on(machine).")
            slice_of(on)  # which checks that it is a text
            machine = Machine(str(on), tuple(_requested(along).items()))
            return dataclasses.replace(document, machine=as_written(machine, document.mesh, custom))
        case Lay(along):
            machine = document.machine
            if machine is None:
                raise HardwareError('The mesh is placed on no machine yet; explorer.on("v5e") places it on one.')
            changes, axes = _requested(along), dict(document.mesh)
            unknown = [name for name, where in changes.items() if where is None and name not in axes]
            if unknown:
                raise HardwareError(
                    f"The mesh has no axis {listed(unknown)}.{closest(unknown[0], axes)} It has {listed(axes)}."
                )
            requested = {name: where for name, where in (dict(machine.along) | changes).items() if where is not None}
            wanted = dataclasses.replace(machine, along=tuple(requested.items()))
            return dataclasses.replace(document, machine=as_written(wanted, document.mesh, custom))
        case Assume(attention, prefetch):
            options = {"attention": attention, "prefetch": prefetch}
            options = {name: value for name, value in options.items() if value is not None}
            return dataclasses.replace(document, options=dataclasses.replace(document.options, **options))
    program = programs.at(document)
    if isinstance(intent, Edit):
        return edited(intent, document, program, custom)
    return dataclasses.replace(document, layout=layout_after(intent, document.layout, program))


def _requested(along: Any) -> dict[str, Any]:
    """Returns the placements that are asked for, by mesh axis."""
    try:
        return dict(along)
    except (TypeError, ValueError):
        raise HardwareError(
            f"Invalid placements of mesh axes: {shown(along)}; they must be pairs of a mesh axis and its placement:"
            ' (("model", 0),).'
        ) from None


def _check_released(along: Any):
    """Refuses placements that are asked for without a machine."""
    if requested := _requested(along):
        raise HardwareError(
            f"A placement of {listed(requested)} was asked for, and no machine. Name one, as in"
            ' explorer.on("v5e", model=0), or write explorer.on(None).'
        )


def layout_after(intent: Intent, layout: Layout, program: Any) -> Layout:
    match intent:
        case Load(wanted, _):
            return Layout.of(wanted)
        case TakeRemedy(changes):
            return Remedy("", changes).applied(layout)
        case Place(dim, _, at, str() as source) if source != (at or ""):
            rest = layout_after(Remove(dim, source or None), layout, program)
            return layout_after(dataclasses.replace(intent, source=None), rest, program)
        case Place(dim, axes, None):
            return layout.with_rule(dim, axes)
        case Remove(dim, None):
            if dim not in program.dims:
                there = f" There are {some(tuple(program.dims))}."
                raise LayoutError(f"There is no dim `{dim}`.{closest(dim, program.dims) or there}")
            if dim not in {name.removesuffix("?") for name in layout.rules}:
                raise LayoutError(f"`{dim}` has no rule to remove: nothing shards it but rules at places.")
            return layout.with_rule(dim, ())
        case Place(dim, axes, str() as at) if at.startswith("@"):
            return _layout_at(intent, _giving_way(layout, program, dim, axes, at), program)
        case Place() | Remove():
            return _layout_at(intent, layout, program)
    if not isinstance(intent, Intent):
        raise ExplorerError(_invalid_intent(intent))
    raise ExplorerError(f"{type(intent).__name__} does not change the document; `what_if` takes an intent that does.")


def _invalid_intent(value: Any) -> str:
    """Returns the error text for a value that must be an intent."""
    if isinstance(value, type) and issubclass(value, Intent):
        needed = [field.name for field in dataclasses.fields(value) if field.default is dataclasses.MISSING]
        write = f"explorer.apply({value.__name__}({', '.join(needed)}))"
        return f"explorer.apply() was given the class {value.__name__} for an intent; write {write}."
    return (
        f"The Explorer was given {shown(value)} for an intent; write explorer.place(dim, axes), or"
        " explorer.apply(Place(dim, axes))."
    )


def _layout_at(intent: Place | Remove, layout: Layout, program: Any) -> Layout:
    rules, place = layout.to_dict(), str(intent.at)
    if isinstance(intent, Remove) and place not in rules and not program.matching(place):
        known = (*layout.places, *layout.scopes)
        there = f" There are rules at {some(known)}." if known else " No place has any."
        raise LayoutError(f"There are no rules at `{place}`.{closest(place, [*known, *program.places]) or there}")
    if isinstance(intent, Remove) and intent.dim not in rules.get(place, {}):
        raise LayoutError(
            f"`{intent.dim}` has no rule at `{place}` to remove.{closest(intent.dim, rules.get(place, {}))}"
        )
    at_place = {name: axes for name, axes in rules.get(place, {}).items() if name != intent.dim}
    if isinstance(intent, Place):
        at_place[intent.dim] = intent.axes
    # A place keeps its position among the places, since the last that matches counts.
    return Layout.of({name: rule for name, rule in (rules | {place: at_place}).items() if name != place or at_place})


def _giving_way(layout: Layout, program: Any, dim: str, axes: tuple[str, ...], scope: str) -> Layout:
    """Returns the layout in which dims that have the axes without a scope are whole in it, where `dim` meets them."""
    meeting = {
        other
        for each, conflicts in conflicts_by_scope(program).items()
        if matches(scope.removesuffix("?"), each)
        for pair in conflicts
        if dim in pair
        for other in pair
    }
    own = layout.scopes.get(scope, {})
    for written, taken in layout.rules.items():
        other = written.removesuffix("?")
        if other in meeting and other != dim and other not in own and set(taken) & set(axes):
            layout = _layout_at(Place(other, (), scope), layout, program)
    return layout


def refused(error: LayoutError) -> Refused:
    """Returns the answer to a layout that is refused, with all its problems."""
    if not error.problems:
        return Refused(str(error))
    reasons = " ".join(dict.fromkeys(problem.text for problem in error.problems))
    fixes = " ".join(dict.fromkeys(problem.fix for problem in error.problems if problem.fix))
    return Refused(reasons, fixes, error.problems[0].code)


def machine_refused(error: HardwareError, intent: Intent, document: Document, custom: CustomMachines) -> Refused:
    """Returns the answer to a machine that is refused, with one that fits."""
    fix = ""
    if isinstance(intent, On) and isinstance(intent.machine, str):
        fix = _slice_that_fits(intent, document, custom)
    elif isinstance(intent, Lay) and document.machine:
        fix = _requests_that_fit(intent, document, custom)
    return Refused(str(error), fix, "machine")


def _slice_that_fits(intent: On, document: Document, custom: CustomMachines) -> str:
    """Names the first slice of the machine on which the mesh can be placed as it was asked to."""
    try:
        name, _ = named(slice_of(intent.machine)[0], custom)
        requested = tuple(_requested(intent.along).items())
        for shape in fit(name, document.mesh, custom):
            with contextlib.suppress(HardwareError):
                mesh_on(Machine(f"{name}:{shape}", requested), document.mesh, custom)
                return f"Take `{name}:{shape}`."
    except HardwareError:
        return ""
    return ""


def _requests_that_fit(intent: Lay, document: Document, custom: CustomMachines) -> str:
    mesh = mesh_on(document.machine, document.mesh, custom)
    try:
        changes = {name: None for name in mesh.on.requested} | _requested(intent.along)
    except HardwareError:
        return ""
    if not changes.keys() <= mesh.axes.keys() or placement_with(mesh, changes) is None:
        return ""
    arguments = ", ".join(f"{name}={where!r}" for name, where in changes.items())
    return f"Release the other axes: `explorer.lay({arguments})`."
