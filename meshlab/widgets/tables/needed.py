"""What figures and tables need of a board, or the error that says what is missing and what brings it.

timed(view)["estimate"]         or: No machine is chosen, so there are no times; call explorer.on("v5e").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...engine.specs.layout import Layout
from ..background.reasons import MET, REGRETS, WAY, Met, Way
from ..documents.costing import Costs
from ..documents.document import ExplorerError
from ..state.explorer_state import ExplorerState


def way_begins(explorer: ExplorerState) -> Layout:
    """Returns the layout that the way to Auto's begins at."""
    choice = explorer.searches.fastest
    before = None if choice is None else explorer.before(choice.plan.layout)
    return explorer.layout if before is None else before.document.layout


# What of a search is worked out for a figure or table, and of what about the Explorer.
REASONS: Mapping[str, tuple[tuple[Any, ...], ...]] = {
    "comparison": ((MET,),),
    "waterfall": ((WAY, way_begins),),
    "regrets": ((REGRETS,),),
}
NOT_FASTEST = 'Auto has not found the fastest layout for this board; call explorer.auto("time").'
NO_RUN = "There is no run with a loss yet; call explorer.run() first."
NOTHING_TRIED = "There is no layout to compare with yet; change this one, or call explorer.auto() first."
NO_NUMBERS = "There are no numbers before a run; call explorer.run() first."
NO_CURVE = "The program has only one step, so there is no curve."
# On the page, what stands in for a call.
BUTTONS = {
    'call explorer.auto("time")': "choose a machine, then press Auto",
    "call explorer.auto()": "press Auto",
    "call explorer.run()": "press Run",
    'call explorer.on("v5e")': "choose one",
    "call explorer.select(place)": "click one",
}


def on_page(reason: str) -> str:
    """Returns a reason with what to press instead of what to call."""
    for call, button in BUTTONS.items():
        reason = reason.replace(call, button)
    return reason


def timed(view: dict[str, Any]) -> dict[str, Any]:
    """Returns the predicted time."""
    time = view["time"]
    if not time or "missing" in time:
        reason = time["missing"] if time else 'No machine is chosen, so there are no times; call explorer.on("v5e").'
        raise ExplorerError(reason)
    return time


def peaked(view: dict[str, Any]) -> dict[str, Any]:
    """Returns the predicted peak of memory."""
    if not view["peak_memory"]:
        failed = (view["time"] or {}).get("missing")
        raise ExplorerError(failed or 'No machine is chosen, so no peak is predicted; call explorer.on("v5e").')
    return view["peak_memory"]


def costs_of(explorer: ExplorerState) -> Costs:
    """Returns the costs of the layout on the board, which are known."""
    costs = explorer.costs.soon(explorer.document) if explorer.document.machine else None
    if costs is None:
        raise ExplorerError("The board changed during drawing; ask again.")
    return costs


def tried(view: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the layouts that were tried and whose totals are known, at least two."""
    cards = [card for card in view["comparison"]["cards"] if card["totals"]]
    if len(cards) < 2:
        raise ExplorerError(NOTHING_TRIED)
    return cards


def met(explorer: ExplorerState) -> Met | None:
    """Returns the layouts that Auto's search has met; None where it has not found the fastest one."""
    return explorer.reasons.of(MET)


def way(explorer: ExplorerState) -> Way:
    """Returns the way from the layout on the board to Auto's; from the one before, once that is on the board."""
    found: Way | None = explorer.reasons.of(WAY, way_begins(explorer))
    if found is None:
        raise ExplorerError(NOT_FASTEST)
    if found.refused:
        raise ExplorerError(f"The search cannot plan the layout on the board: {found.refused}")
    return found
