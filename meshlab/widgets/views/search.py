"""The latest search as JSON-like data: how far it is, or what it has proved, and what puts its layout on the board.

    search_part(explorer)["search"]["bracket"]
    {"value": 2.02, "bound": 1.92, "gap": 0.05, "plans": 102, "texts": {"value": "2.02 s", ...}}

It is a part of its own, which is sent a few times a second while a search goes on, and the cards of the comparison are
not. What takes longer, the page asks for (`reasons.py`); `told` says that there is more to be asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NotRequired, TypedDict

from ...auto import Choice
from ...auto.objective import OBJECTIVES
from ...auto.proof import Proof
from ...auto.request.answer import Found
from ...cost.machines.units import seconds_text, share_text
from ...engine.specs.layout import Layout
from ..state.explorer_state import ExplorerState
from ..state.searches import SEARCHING, Search
from .advice import IntentView

# Layouts that are as good are listed, so many at most.
TIES = 8
OTHER = {"run": "The assumptions about the run were changed since: search again."}


class TakenView(TypedDict):
    """A layout, and what loads it."""

    layout: str
    load: IntentView


class BracketTextsView(TypedDict):
    value: str
    bound: str
    seconds: str
    gap: str


class BracketView(TypedDict):
    """What a layout costs, in seconds or bytes, and what every other costs at least; the gap is a share."""

    value: float
    bound: float
    gap: float
    plans: int
    texts: BracketTextsView


class FoundView(TypedDict):
    """What a search has met so far, if anything; with the proof once it has ended."""

    said: str
    bracket: BracketView | None
    layout: NotRequired[str]
    load: IntentView | None
    proof: NotRequired[str]
    searched: NotRequired[str]
    not_searched: NotRequired[str]
    ties: NotRequired[list[TakenView]]
    tied: NotRequired[int]
    same: NotRequired[bool]
    card: NotRequired[str | None]


class SearchView(FoundView):
    """The latest search; `outdated` says why it no longer holds, `told` counts the reasons that are known."""

    objective: str
    label: str
    condition: str
    phase: str
    error: str
    pinned: str
    repinned: bool
    outdated: str
    reasons: bool
    refining: bool
    told: int


class SearchPartView(TypedDict):
    pinned: str
    search: SearchView | None


def search_part(explorer: ExplorerState) -> SearchPartView:
    """Describes the latest search, and what searches keep as it is."""
    search = explorer.searches.last
    pinned = pinned_text(dict(explorer.document.pins))
    return {"pinned": pinned, "search": None if search is None else search_view(explorer, search)}


def pinned_text(pins: Mapping[str, str | None]) -> str:
    """Lists pins in words: "`batch:data`, `hidden` whole"."""
    return ", ".join(f"`{dim}:{axis}`" if axis else f"`{dim}` whole" for dim, axis in pins.items())


def search_view(explorer: ExplorerState, search: Search) -> SearchView:
    """Describes a search, and which card has its result."""
    objective = OBJECTIVES.get(search.objective)
    regrets, outdated = explorer.regrets.of(explorer.searches.fastest), explorer.searches.outdated
    choice = search.choice
    found = so_far_view(search) if choice is None else found_view(explorer, search, choice)
    return {
        "objective": search.objective,
        "label": search.objective if objective is None else objective.label,
        "condition": "" if objective is None else objective.condition,
        "phase": search.phase,
        "error": search.error,
        "pinned": pinned_text(search.pin),
        "repinned": dict(search.pin) != dict(explorer.document.pins),
        "outdated": outdated and OTHER.get(outdated, f"The {outdated} was changed since: search again."),
        "reasons": explorer.searches.fastest is not None,
        "refining": regrets is not None and regrets.phase == SEARCHING,
        "told": explorer.reasons.told,
        **found,
    }


def so_far_view(search: Search) -> FoundView:
    """Describes the best layout that a search has met so far: its cost, what a better one could save, what loads it."""
    found = search.found
    if found is None:
        return {"said": "", "bracket": None, "load": None}
    plans = f"{found.plans:,} plan{'' if found.plans == 1 else 's'}, {seconds_text(found.seconds)}"
    if found.plan is None:
        return {"said": f"no layout that fits yet; {plans}", "bracket": None, "load": None}
    cost = OBJECTIVES[search.objective].text(found.value)
    more = f"gap {share_text(found.gap)}" if found.bound else "no lower bound yet"
    bracket = bracket_view(search.objective, found)
    return {"said": f"{cost}; {more}; {plans}", "bracket": bracket, **taken_view(found.plan.layout)}


def found_view(explorer: ExplorerState, search: Search, choice: Choice) -> FoundView:
    """Describes what a search has found: its cost between the bounds, the proof, and what is as good."""
    layout, proof = choice.plan.layout, choice.proof
    card = next((each for each in explorer.tried if each.document.layout == layout), None)
    bracket = bracket_view(search.objective, proof)
    texts = bracket["texts"]
    least = f"lower bound {texts['bound']}, gap {texts['gap']}" if proof.gap else "none that was searched costs less"
    return {
        "bracket": bracket,
        "said": f"{texts['value']}; {least}",
        "proof": str(proof),
        "searched": proof.searched,
        "not_searched": proof.not_searched,
        "ties": [taken_view(each) for each in proof.ties[:TIES]],
        "tied": len(proof.ties),
        "same": layout == explorer.layout,
        "card": None if card is None else str(card.number),
        **taken_view(layout),
    }


def bracket_view(objective: str, found: Found | Proof) -> BracketView:
    """Describes what a layout costs, and what every other costs at least."""
    text = OBJECTIVES[objective].text
    bound = found.bound if math.isfinite(found.bound) else found.value
    texts: BracketTextsView = {
        "value": text(found.value),
        "bound": text(bound),
        "seconds": seconds_text(found.seconds),
        "gap": share_text(found.gap),
    }
    return {"value": found.value, "bound": bound, "gap": found.gap, "plans": found.plans, "texts": texts}


def taken_view(layout: Layout, name: str = "") -> TakenView:
    """Describes a layout, and the message that puts it on the board."""
    args: dict[str, object] = {"layout": layout.to_dict(), **({"name": name} if name else {})}
    return {"layout": str(layout), "load": {"op": "load", "args": args}}
