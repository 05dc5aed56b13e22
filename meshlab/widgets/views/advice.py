"""Advice as JSON-like data: the change that helps most, its price, and the message that makes it."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict

from ..state.explorer_state import ExplorerState
from ..state.intents import Load, Place, Remove, TakeRemedy
from .prices import StepCostView, step_cost_view


class IntentView(TypedDict):
    """The operation and the arguments by which a page sends an intent."""

    op: str
    args: dict[str, object]


class AdviceView(StepCostView, IntentView):
    """The change that helps most, and what the step costs after it."""

    text: str


class RankedDimView(TypedDict):
    """A dim that some zone takes, and whether the best of these makes the step better."""

    dim: str
    helps: bool


class AdvicePartView(TypedDict):
    advice: AdviceView | None
    advised: bool
    ranked: list[RankedDimView] | None


def advice_part(explorer: ExplorerState) -> AdvicePartView:
    """Describes the advice for the present document, None while it is not worked out (`advised`) or nothing helps.

    Beside it the dims that some zone takes, the one with the best zone first; None while that is not known.
    """
    known, ranked = explorer.advice, explorer.ranked
    dims: list[RankedDimView] | None = None
    if ranked is not None and ranked[0] == explorer.document:
        dims = [{"dim": dim, "helps": helps} for dim, helps in ranked[1]]
    if known is None or known[0] != explorer.document:
        return {"advice": None, "advised": False, "ranked": dims}
    advice = known[1]
    if advice is None:
        return {"advice": None, "advised": True, "ranked": dims}
    return {
        "advised": True,
        "ranked": dims,
        "advice": {"text": advice.text, **step_cost_view(advice.price), **message_of(advice.intent)},
    }


def message_of(intent: Any) -> IntentView:
    """Returns the operation and the arguments by which a page sends an intent that changes the layout."""
    match intent:
        case Place(dim, axes, at):
            return {"op": "place", "args": {"dim": dim, "axes": list(axes), **_at(at)}}
        case Remove(dim, at):
            return {"op": "remove", "args": {"dim": dim, **_at(at)}}
        case Load(layout):
            return {"op": "load", "args": {"layout": layout.to_dict()}}
        case TakeRemedy(changes):
            lists = [{"axes": list(change.axes), "there": list(change.there)} for change in changes]
            pairs = zip(map(dataclasses.asdict, changes), lists, strict=True)
            return {"op": "remedy", "args": {"changes": [fields | each for fields, each in pairs]}}
    raise TypeError(f"{intent!r} changes no layout")


def _at(at: str | None) -> dict[str, str]:
    return {"at": at} if at else {}
