"""The layout that is shown beside the one on the board, as JSON-like data; nothing while there is none.

    explorer.beside("start")
    beside_part(explorer)["beside"]["communication"]["total"]      what the other layout sends

It has what the panels of the stage read of a plan and of its costs, on the machine that is chosen at present, so that
the page draws it with the same functions.
"""

from __future__ import annotations

from typing import TypedDict

from ..state.explorer_state import ExplorerState
from .devices.holdings import ShardsView, tensor_view
from .plan import PlacesView, PlanView, place_view, plan_view
from .step_time import PredictionView, prediction_view, shown_soon


class OtherLayoutView(PlanView, PredictionView):
    """The layout beside the one on the board; its card is empty where it was not tried."""

    name: str
    card: str
    now: bool


class BesidePartView(TypedDict):
    beside: OtherLayoutView | None


class OtherDevicesView(TypedDict):
    """The tensor that is selected, alone, under the layout beside the one on the board."""

    places: PlacesView
    shards: ShardsView


def beside_part(explorer: ExplorerState) -> BesidePartView:
    """Describes the other layout: its name, its plan and its costs, which follow where they take long."""
    other, present = explorer.other, explorer.document
    if other is None:
        return {"beside": None}
    document = other.under(present)
    plan, known = explorer.plan_at(document), explorer.tried.known(other.document)
    costs = shown_soon(explorer, document, aside=True)
    # A layout that was tried has the name and the number of its card.
    return {
        "beside": {
            "name": explorer.titles()[known.number] if known else other.name,
            "card": str(known.number) if known else "",
            "now": other.is_of(present),
            **plan_view(plan, explorer.marks),
            **prediction_view(plan, document, costs),
        }
    }


def devices_beside(explorer: ExplorerState) -> OtherDevicesView | None:
    """Describes the tensor that is selected under the other layout."""
    if explorer.other is None or explorer.selected is None:
        return None
    plan, place = explorer.plan_at(explorer.other.under(explorer.document)), explorer.selected
    return {"places": {"rows": [place_view(plan, place)], "left_out": 0}, "shards": tensor_view(plan, place)}
