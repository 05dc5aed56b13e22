"""The layouts that were tried beside each other, as JSON-like data: a card for each, and the latest search.

A card has the totals that the score line shows of its layout, from the same estimate; where they are not known yet they
follow. The page draws their differences against the baseline, which is one of the cards.
"""

from __future__ import annotations

from ...auto.objective import OBJECTIVES, Objective, offered
from ...cost.machines.units import share_text
from ..state.explorer_state import ExplorerState
from ..state.searches import Search
from ..state.totals import Totals
from ..state.tried import TriedLayout


def comparison_part(explorer: ExplorerState) -> dict:
    """Describes what was tried, and the latest search."""
    return {"comparison": comparison_view(explorer)}


def comparison_view(explorer: ExplorerState) -> dict:
    """Describes every layout that was tried; totals that are not known follow.

    Args:
        explorer: the Explorer.

    Returns:
        JSON-like data: the cards, the objectives of a search, the latest search, and the capacity of a device.
    """
    present, tried = explorer.document, explorer.tried
    cards = [card_view(explorer, each) for each in tried]
    # The baseline first, since the score line shows it.
    explorer.totals.follow([tried.baseline.under(present), *tried.documents(present)])
    search, mesh = explorer.comparison, explorer.mesh
    return {
        "cards": cards,
        "limit": None if mesh.on is None else int(mesh.on.hardware.memory_bytes),
        "objectives": [objective_view(objective) for objective in offered(mesh)],
        "search": None if search is None else search_view(explorer, search),
    }


def card_view(explorer: ExplorerState, tried: TriedLayout) -> dict:
    """Describes one layout: its name, what loads it, and its totals."""
    present = explorer.document
    document, now = tried.under(present), tried.is_of(present)
    totals = explorer.totals.now(document) if now else explorer.totals.known(document)
    here = document is not tried.document  # which is that of another mesh, on its own machine
    load = {"op": "load", "args": {"layout": document.layout.to_dict()}}
    return {
        "key": str(tried.number),
        "name": tried.name,
        "layout": str(document.layout),
        "mesh": "" if here else ", ".join(f"{name} × {size:,}" for name, size in document.mesh),
        "load": load
        if here and document.pad == present.pad
        else {"op": "restore", "args": {"document": document.to_json()}},
        "now": now,
        "baseline": tried is explorer.tried.baseline,
        "machine": document.machine is not None,
        "totals": None if totals is None else totals_view(totals),
    }


def totals_view(totals: Totals) -> dict:
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


def search_view(explorer: ExplorerState, search: Search) -> dict:
    """Describes a search, and which card has its result."""
    objective = OBJECTIVES.get(search.objective)
    label = search.objective if objective is None else objective.label
    view = {"objective": search.objective, "label": label, "phase": search.phase, "error": search.error}
    if search.choice is None:
        return view | so_far_view(search)
    layout = search.choice.plan.layout
    card = next((each for each in explorer.tried if each.document.layout == layout), None)
    proof = {"proof": str(search.choice.proof), "same": layout == explorer.layout}
    return view | proof | {"card": None if card is None else str(card.number)}


def so_far_view(search: Search) -> dict:
    """Describes the best layout that a search has met so far: its cost, what a better one could save, what loads it."""
    found = search.found
    if found is None or found.plan is None:
        return {"so_far": "", "load": None}
    cost = OBJECTIVES[search.objective].text(found.value)
    more = f"none takes more than {share_text(found.gap)} less" if found.bound else "nothing is proved yet"
    layout = found.plan.layout
    load = {"op": "load", "args": {"layout": layout.to_dict()}}
    return {"so_far": f"{cost}; {more}; {found.plans:,} plans", "layout": str(layout), "load": load}


def objective_view(objective: Objective) -> dict:
    """Describes what a search for an objective finds, and under which condition."""
    return {"name": objective.name, "label": objective.label, "condition": objective.condition}
