"""The latest search as JSON-like data: how far it is, or what it has proved, and what puts its layout on the board.

    search_part(explorer)["search"]["bracket"]
    {"value": 2.02, "bound": 1.92, "gap": 0.05, "plans": 102, "texts": {"value": "2.02 s", ...}}

It is a part of its own, which is sent a few times a second while a search goes on, and the cards of the comparison are
not. What takes longer, the page asks for (`reasons.py`); `told` says that there is more to be asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from ...auto import Choice
from ...auto.best_first.space import kinds_of
from ...auto.objective import OBJECTIVES
from ...auto.proof import Proof
from ...auto.request.answer import Found
from ...cost.machines.units import seconds_text, share_text
from ...engine.specs.layout import Layout
from ..documents.document import MEMORY
from ..state.explorer_state import ExplorerState
from ..state.searches import SEARCHING, Search
from .prices import IntentView

# Layouts that are as good are listed, so many at most.
TIES = 8
OTHER = {"run": "The assumptions about the run have changed since: search again."}


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
    """What a search has met so far, if anything; with the proof once it has ended.

    `same` says that its layout is on the board, `before` which card was there before, if one was.
    """

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
    before: NotRequired[str]
    card: NotRequired[str | None]


class KeptRuleView(TypedDict):
    """What searches keep to, in words, and what takes that away."""

    text: str
    undo: IntentView


class KeptView(TypedDict):
    """What the next search keeps to: its marks, its limits as they are written in fields, its rules, and its space."""

    forbidden: dict[str, list[str]]
    silent: list[str]
    memory: str
    seconds: str
    rules: list[KeptRuleView]
    space: str


class SearchView(FoundView):
    """The latest search; `outdated` says why it no longer holds, `told` counts the reasons that are known."""

    objective: str
    label: str
    condition: str
    phase: str
    error: str
    kept: str
    changed: bool
    outdated: str
    reasons: bool
    refining: bool
    told: int


class SearchPartView(TypedDict):
    kept: KeptView
    search: SearchView | None


def search_part(explorer: ExplorerState) -> SearchPartView:
    """Describes the latest search, and what searches keep as it is."""
    search = explorer.searches.last
    return {"kept": kept_view(explorer), "search": None if search is None else search_view(explorer, search)}


def kept_view(explorer: ExplorerState) -> KeptView:
    """Describes what the next search keeps to, and what it looks at."""
    document = explorer.document
    kept = document.kept
    return {
        "forbidden": kept.get("forbid", {}),
        "silent": kept.get("silent", []),
        "memory": memory_text(document.memory),
        "seconds": "" if document.seconds is None else seconds_text(document.seconds),
        "rules": [{"text": text, "undo": {"op": op, "args": args}} for text, op, args in rules_of(kept)],
        "space": kinds_of(explorer.program, explorer.mesh),
    }


def memory_text(memory: float | str | None) -> str:
    """Writes a cap on memory as people do: "90%", "60 GB", "any"."""
    return "any" if memory is None else memory if isinstance(memory, str) else share_text(memory)


def rules_of(kept: Mapping[str, Any]) -> list[tuple[str, str, dict[str, object]]]:
    """Lists what a search keeps to: in words, with the operation that takes it away and its arguments."""
    rules: list[tuple[str, str, dict[str, object]]] = []
    for dim, axis in kept.get("pin", {}).items():
        rules.append((f"`{dim}` on `{axis}`" if axis else f"`{dim}` whole", "unpin", {"dim": dim}))
    for dim, axes in kept.get("forbid", {}).items():
        rules += [(f"`{dim}` never on `{axis}`", "allow", {"dim": dim, "axis": axis}) for axis in axes]
    for axis in kept.get("silent", ()):
        rules.append((f"`{axis}` silent", "silence", {"axis": axis, "silent": False}))
    return rules


def kept_text(kept: Mapping[str, Any]) -> str:
    """Lists all that a search keeps to in words: "`batch` on `data`, `model` silent, at most 60 GB, within 30 s"."""
    rules = [text for text, *_ in rules_of(kept)]
    if "memory" in kept:
        memory = kept["memory"]
        share = " of a device's memory" if isinstance(memory, float | int) else ""
        rules.append("any memory" if memory is None else f"at most {memory_text(memory)}{share}")
    if "seconds" in kept:
        rules.append(f"within {seconds_text(kept['seconds'])}")
    return ", ".join(rules)


def search_view(explorer: ExplorerState, search: Search) -> SearchView:
    """Describes a search, and which card has its result."""
    objective = OBJECTIVES.get(search.objective)
    regrets, outdated = explorer.regrets.of(explorer.searches.fastest), explorer.searches.outdated
    choice = search.choice
    found = so_far_view(search) if choice is None else found_view(explorer, search, choice)
    return {
        "objective": search.objective,
        "label": search.objective if objective is None else objective.label,
        "condition": "" if objective is None else objective.within(search.kept.get("memory", MEMORY)),
        "phase": search.phase,
        "error": search.error,
        "kept": kept_text(search.kept),
        "changed": search.kept != explorer.document.kept,
        "outdated": outdated and OTHER.get(outdated, f"The {outdated} has changed since: search again."),
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
    return {
        "said": f"{cost}; {more}; {plans}",
        "bracket": bracket,
        **taken_view(found.plan.layout, f"Auto ({search.objective}) so far"),
    }


def found_view(explorer: ExplorerState, search: Search, choice: Choice) -> FoundView:
    """Describes what a search has found: its cost between the bounds, the proof, and what is as good."""
    layout, proof = choice.plan.layout, choice.proof
    card = next((each for each in explorer.tried if each.document.layout == layout), None)
    bracket = bracket_view(search.objective, proof)
    texts = bracket["texts"]
    least = f"lower bound {texts['bound']}, gap {texts['gap']}" if proof.gap else "no searched layout costs less"
    return {
        "bracket": bracket,
        "said": f"{texts['value']}; {least}",
        "proof": str(proof),
        "searched": proof.searched,
        "not_searched": proof.not_searched,
        "ties": [taken_view(each) for each in proof.ties[:TIES]],
        "tied": len(proof.ties),
        "same": layout == explorer.layout,
        **before_view(explorer, layout),
        "card": None if card is None else str(card.number),
        **taken_view(layout),
    }


class BeforeView(TypedDict, total=False):
    before: str


def before_view(explorer: ExplorerState, layout: Layout) -> BeforeView:
    """Names the card of the layout that was on the board before the one of the search, once that is there."""
    before = explorer.before(layout)
    return {} if before is None else {"before": str(before.number)}


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
