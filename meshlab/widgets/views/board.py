"""The view of the whole board, part by part: the layout, the devices, the costs, the comparison, as JSON-like data.

The table of refusals comes with every revision, so that the page paints a drag legal or not, with the reason, without
asking Python; Python checks again when the chip is dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NotRequired, TypedDict

from ...engine.collectives.kinds import KINDS
from ...engine.gc_pause import no_collection
from ..documents.intents import Accepted, Refused
from ..documents.presets import short_name
from ..presets.buttons import Group
from ..state.changes import Word
from ..state.explorer_state import ExplorerState
from ..state.handlers import OPERATIONS
from .address import tab_part
from .advice import advice_part
from .asked.curve import curve_part
from .asked.looking import look_part
from .asked.models import models_part
from .asked.profiled import profile_part
from .asked.task import task_part
from .asked.xla import xla_part
from .beside import OtherDevicesView, beside_part, devices_beside
from .columns import ColumnView, columns_view
from .comparison import comparison_part
from .devices.holdings import ShardsView, tensor_view
from .devices.picture import PictureView, devices_picture
from .goal import goal_part
from .machine import MachineView, machine_view
from .plan import (
    PlacesView,
    PlaceView,
    PlanView,
    RefusalsView,
    RefusalView,
    place_view,
    places_view,
    plan_view,
    refusals_view,
)
from .reads import READS
from .runs import job_view
from .search import search_part
from .selection import SelectionPartView, selection_view
from .step_time import costs_view

# What a page can ask for beside operations and what panels read: advice, plotly.js, and files to save.
MORE = ("advise", "library", "files")
# What can be asked for where models can be opened.
OF_MODELS = ("open", "list_models")


class HistoryView(TypedDict):
    """How often one can undo and redo."""

    undo: int
    redo: int


class HistoryPartView(TypedDict):
    history: HistoryView


class PresetView(TypedDict):
    """A preset: what it is and what it needs; why there is none of it, or the mesh axes that it can be over."""

    name: str
    label: str
    group: Group
    about: str
    needs: str
    why: str
    choices: list[str]


class PresetsPartView(TypedDict):
    presets: list[PresetView]


class PresetHereView(TypedDict):
    """A preset that is on the board, over which mesh axes, and what of it is otherwise."""

    name: str
    text: str
    note: str


class NamedView(TypedDict):
    """What the layout is called, for short as well, the presets that it is made of, and those that come to the same."""

    text: str
    short: str
    parts: list[PresetHereView]
    alike: NotRequired[list[str]]


class NamedPartView(TypedDict):
    """The name of the layout on the board; None where it has none, or is not known yet."""

    named: NamedView | None


class LayoutPartView(PlanView):
    title: str
    columns: list[ColumnView]
    refusals: RefusalsView
    additions: RefusalsView
    pad: bool
    pins: dict[str, str | None]
    made_up: dict[str, int]
    trains: bool
    machine: MachineView
    slow: bool
    document: str


class DevicesPartView(TypedDict):
    tensor: PlaceView | None
    shards: ShardsView | None
    beside_devices: OtherDevicesView | None


class PicturePartView(TypedDict):
    picture: PictureView


class PlacesPartView(TypedDict):
    places: PlacesView


class SavedBoardView(TypedDict):
    """A board that was saved, as text, and what its layout is called."""

    document: str
    said: str


class SessionPartView(TypedDict):
    """The document that the Explorer was opened with, what can be asked for, and a saved board that is offered."""

    opened: str
    can: list[str]
    offer: NotRequired[SavedBoardView]


class TracingView(TypedDict):
    """The latest tracing of the program at other sizes, or of another model."""

    sizes: str
    model: str
    phase: str
    text: str


class TracingPartView(TypedDict):
    tracing: TracingView | None


def layout_part(explorer: ExplorerState) -> LayoutPartView:
    """Describes what follows from the document alone, and is known at once."""
    return {
        **plan_view(explorer.plan, explorer.marks),
        "title": explorer.source.name,
        "columns": columns_view(explorer),
        "refusals": refusals_view(explorer.documents.refusals()),
        "additions": additions_view(explorer),
        "pad": explorer.document.pad,
        "pins": dict(explorer.document.pins),
        "made_up": explorer.program.made_up,
        "trains": explorer.runs.training is not None,
        "machine": machine_view(explorer),
        "slow": explorer.documents.slow,
        "document": explorer.document.to_json(),
    }


def presets_part(explorer: ExplorerState) -> PresetsPartView:
    """Describes the presets, which are the same as long as the mesh and the dims are: then none is sent again."""
    views: list[PresetView] = [
        {
            "name": preset.name,
            "label": preset.label,
            "group": preset.kind.group,
            "about": preset.kind.about,
            "needs": preset.needs,
            "why": preset.why,
            "choices": list(preset.choices),
        }
        for preset in explorer.documents.presets
    ]
    return {"presets": views}


def named_part(explorer: ExplorerState) -> NamedPartView:
    """Describes what the layout on the board is called."""
    known, name = explorer.name_soon()
    if not known or name is None:
        return {"named": None}
    parts: list[PresetHereView] = [{"name": part.preset, "text": str(part), "note": part.note} for part in name.parts]
    named: NamedView = {"text": str(name), "short": short_name(name), "parts": parts}
    if name.alike:
        named["alike"] = list(name.alike)
    return {"named": named}


def devices_part(explorer: ExplorerState) -> DevicesPartView:
    """Describes the tensor that is selected, device by device, also under the layout that is shown beside this one."""
    plan, selected = explorer.plan, explorer.selected
    shown = None if selected is None else place_view(plan, selected)
    shards = tensor_view(plan, selected) if selected else None
    return {"tensor": shown, "shards": shards, "beside_devices": devices_beside(explorer)}


def picture_part(explorer: ExplorerState) -> PicturePartView:
    documents = explorer.documents
    return {"picture": documents.plans.of_mesh(documents.present, devices_picture)}


def places_part(explorer: ExplorerState) -> PlacesPartView:
    """Describes the tensors that can be selected."""
    return {"places": places_view(explorer.plan)}


def selection_part(explorer: ExplorerState) -> SelectionPartView:
    return {"selection": selection_view(explorer.selection, explorer.plan, explorer.selected)}


def history_part(explorer: ExplorerState) -> HistoryPartView:
    """Describes how often one can undo and redo."""
    history = explorer.history
    undo = len(history.past) + explorer.tried.undoable(history)
    return {"history": {"undo": undo, "redo": len(history.future)}}


def tracing_part(explorer: ExplorerState) -> TracingPartView:
    """Describes the latest tracing of the program at other sizes."""
    tracing = explorer.tracer.last
    if tracing is None:
        return {"tracing": None}
    outcome = tracing.outcome
    text = " ".join(filter(None, (outcome.reason, outcome.fix))) if isinstance(outcome, Refused) else ""
    note = outcome.note if isinstance(outcome, Accepted) else ""
    return {"tracing": {"sizes": tracing.sizes, "model": tracing.model, "phase": tracing.phase, "text": text or note}}


def terms_part(explorer: ExplorerState) -> Mapping[str, str]:
    """Describes what each collective does, for the page's glossary."""
    return {kind.name: kind.meaning for kind in KINDS.values()}


def session_part(explorer: ExplorerState) -> SessionPartView:
    """Describes where the board began, and what a page can ask for: of what it cannot it shows no control."""
    lacking = OF_MODELS if explorer.documents.programs.models.find is None else ()
    can = [each for each in (*OPERATIONS, *READS, *MORE) if each not in lacking]
    session: SessionPartView = {"opened": explorer.documents.opened.to_json(), "can": can}
    if explorer.offer is not None:
        session["offer"] = {"document": explorer.offer.text, "said": explorer.offer.said}
    return session


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of what a page is sent, by itself: a selection sends its names, and of another tensor the devices.

    Attributes:
        describe: describes it.
        after: the changes after which it is described anew.
        drawn: whether it belongs to the view of the board, in which the parts stand together.
    """

    describe: Callable[[ExplorerState], Mapping[str, object]]
    after: tuple[Word, ...]
    drawn: bool = True


# All that a page is sent: a session has a trait of each name, and `js/src/types.ts` the list of them.
PARTS: Mapping[str, Part] = {
    "board": Part(layout_part, ("document",)),
    "presets": Part(presets_part, ("document",)),
    "named": Part(named_part, ("document", "name")),
    "places": Part(places_part, ("document",)),
    "picture": Part(picture_part, ("document",)),
    "devices": Part(devices_part, ("document", "tensor", "beside")),
    "selection": Part(selection_part, ("document", "tensor", "selection")),
    "costs": Part(costs_view, ("document", "costs")),
    "history": Part(history_part, ("document", "comparison")),
    "tracing": Part(tracing_part, ("document", "tracing")),
    "advice": Part(advice_part, ("document", "advice")),
    "curve": Part(curve_part, ("document", "curve")),
    "look": Part(look_part, ("document", "look")),
    "profile": Part(profile_part, ("document", "profile")),
    "xla": Part(xla_part, ("document", "xla")),
    "models": Part(models_part, ("document", "models")),
    "beside": Part(beside_part, ("document", "beside", "comparison", "costs", "name")),
    "comparison": Part(comparison_part, ("document", "comparison", "costs", "totals", "name")),
    "goal": Part(goal_part, ("document", "costs", "goal")),
    "task": Part(task_part, ("document", "task")),
    "search": Part(search_part, ("document", "comparison", "search")),
    "job": Part(job_view, ("run",), drawn=False),
    "terms": Part(terms_part, (), drawn=False),
    "tab": Part(tab_part, ("tab",), drawn=False),
    "session": Part(session_part, ("offer",), drawn=False),
}


def parts_view(explorer: ExplorerState, what: str | None = None) -> dict[str, Mapping[str, Any]]:
    """Describes the parts that a change touched; all of them where it is None."""
    with explorer.lock, no_collection():
        return {name: part.describe(explorer) for name, part in PARTS.items() if what is None or what in part.after}


def board_view(explorer: ExplorerState) -> dict[str, Any]:
    """Describes the whole board as one mapping: its parts together."""
    with explorer.lock, no_collection():
        parts = [part.describe(explorer) for part in PARTS.values() if part.drawn]
    return {key: value for part in parts for key, value in part.items()}


def additions_view(explorer: ExplorerState) -> RefusalsView:
    """Gives, for each sharded dim, why a further axis is refused, or None where it is legal."""
    table: RefusalsView = {}
    for written, axes in explorer.layout.rules.items():
        dim = written.removesuffix("?")
        table[dim] = {}
        for axis in explorer.mesh.axes:
            if axis not in axes:
                added = sorted((*axes, axis), key=lambda each: each in explorer.mesh.in_time)
                table[dim][axis] = refused_view(explorer.documents.legal(explorer.layout.with_rule(dim, tuple(added))))
    return table


def refused_view(refusal: Refused | None) -> RefusalView | None:
    """Describes one answer of the Explorer as an entry of a table of refusals."""
    if refusal is None:
        return None
    text, fix = refusal.said
    return {"code": refusal.code, "text": text, "fix": fix, "source": ""}
