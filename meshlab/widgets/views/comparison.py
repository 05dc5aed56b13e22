"""The layouts that were tried beside each other, as JSON-like data: a card for each, and what can be searched for.

A card has the totals that the score line shows of its layout, from the same estimate; where they are not known yet they
follow. The page draws their differences against the baseline, which is one of the cards.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from ...auto.objective import Objective, objective_of, offered
from ..documents.document import Document
from ..state.explorer_state import ExplorerState
from ..state.totals import Totals
from ..state.tried import TriedLayout
from .prices import IntentView


class TotalsView(TypedDict):
    """The totals of a layout; step and peak are null without a machine, and while they are computed."""

    bytes: int
    arguments: int
    work: float
    collectives: int
    seconds: float | None
    peak: int | None
    fits: bool | None


class CardView(TypedDict):
    """A layout that was tried, by its number; its model and its mesh are named where they are not those on the board.

    The name is its label where it has one. What people have not said is left out.
    """

    key: str
    name: str
    label: NotRequired[str]
    note: NotRequired[str]
    layout: str
    mesh: str
    load: IntentView
    now: bool
    baseline: bool
    machine: bool
    totals: TotalsView | None


class ObjectiveView(TypedDict):
    name: str
    label: str
    condition: str


class ComparisonView(TypedDict):
    """What was tried and what can be searched for, and the bytes that a device holds at most."""

    cards: list[CardView]
    limit: int | None
    objectives: list[ObjectiveView]


class ComparisonPartView(TypedDict):
    comparison: ComparisonView


def comparison_part(explorer: ExplorerState) -> ComparisonPartView:
    """Describes what was tried, and what can be searched for."""
    return {"comparison": comparison_view(explorer)}


def comparison_view(explorer: ExplorerState) -> ComparisonView:
    """Describes every layout that was tried; totals that are not known follow.

    Returns:
        JSON-like data: the cards, the objectives of a search with the usual one first, and the capacity of a device.
    """
    present, tried = explorer.document, explorer.tried
    titles = explorer.titles()
    cards = [card_view(explorer, each, titles[each.number]) for each in tried]
    # The baseline first, since the score line shows it.
    explorer.totals.follow([tried.baseline.under(present), *tried.documents(present)])
    mesh = explorer.mesh
    usual = objective_of(None, mesh)
    return {
        "cards": cards,
        "limit": None if mesh.on is None else int(mesh.on.hardware.memory_bytes),
        "objectives": [
            objective_view(each, present.memory) for each in sorted(offered(mesh), key=lambda each: each is not usual)
        ],
    }


def card_view(explorer: ExplorerState, tried: TriedLayout, title: str) -> CardView:
    """Describes one layout: what it is called, what loads it, and its totals."""
    present = explorer.document
    document, now = tried.under(present), tried.is_of(present)
    totals = explorer.totals.now(document) if now else explorer.totals.known(document)
    here = document is not tried.document  # which is that of another mesh, on its own machine
    load: IntentView = {"op": "load", "args": {"layout": document.layout.to_dict()}}
    return {
        "key": str(tried.number),
        "name": title,
        **marks_view(tried),
        "layout": str(document.layout),
        "mesh": "" if here else _elsewhere(document, present),
        "load": load
        if here and document.pad == present.pad
        else {"op": "restore", "args": {"document": document.to_json()}},
        "now": now,
        "baseline": tried is explorer.tried.baseline,
        "machine": document.machine is not None,
        "totals": None if totals is None else totals_view(totals),
    }


class MarksView(TypedDict, total=False):
    label: str
    note: str


def marks_view(tried: TriedLayout) -> MarksView:
    """Describes what people have said of a layout."""
    marks: MarksView = {}
    if tried.label:
        marks["label"] = tried.label
    if tried.note:
        marks["note"] = tried.note
    return marks


def _elsewhere(document: Document, present: Document) -> str:
    mesh = ", ".join(f"{name} × {size:,}" for name, size in document.mesh)
    return mesh if document.model == present.model or not document.model else f"{document.model.name}, {mesh}"


def totals_view(totals: Totals) -> TotalsView:
    """Describes totals; step and peak are None without a machine, and while they are computed."""
    return {
        "bytes": totals.wire_bytes,
        "arguments": totals.argument_bytes,
        "work": totals.work,
        "collectives": totals.collectives,
        "seconds": totals.seconds,
        "peak": totals.peak_bytes,
        "fits": totals.fits,
    }


def objective_view(objective: Objective, memory: float | str | None) -> ObjectiveView:
    """Describes what can be searched for, under a cap on memory."""
    return {"name": objective.name, "label": objective.label, "condition": objective.within(memory)}
