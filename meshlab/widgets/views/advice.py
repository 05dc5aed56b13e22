"""Advice as JSON-like data: the change that helps most, its price, and the message that makes it."""

from __future__ import annotations

from typing import TypedDict

from ..state.explorer_state import ExplorerState
from .prices import IntentView, StepCostView, intent_view, step_cost_view


class AdviceView(StepCostView, IntentView):
    """The change that helps most, and what the step costs after it."""

    text: str


class RankedDimView(TypedDict):
    """A dim that some zone takes, and whether the best of these makes the step better."""

    dim: str
    helps: bool


class LookingView(TypedDict):
    """How many single changes were priced, and of how many."""

    done: int
    of: int


class AdvicePartView(TypedDict):
    """Advice, whether it was worked out, how far that is while it goes on, and why it failed."""

    advice: AdviceView | None
    advised: bool
    looking: LookingView | None
    ranked: list[RankedDimView] | None
    advice_error: str


def advice_part(explorer: ExplorerState) -> AdvicePartView:
    """Describes the advice for the present document, None while it is not worked out (`advised`) or nothing helps.

    Beside it the dims that some zone takes, the one with the best zone first; None while that is not known.
    """
    known = explorer.adviser.advised
    if known is None:
        looking = explorer.adviser.looking
        far: LookingView | None = None if looking is None else {"done": looking.done, "of": looking.of}
        return {"advice": None, "advised": False, "looking": far, "ranked": None, "advice_error": ""}
    if known.error:
        return {"advice": None, "advised": True, "looking": None, "ranked": None, "advice_error": known.error}
    dims: list[RankedDimView] = [{"dim": dim, "helps": helps} for dim, helps in known.ranked]
    if known.advice is None:
        return {"advice": None, "advised": True, "looking": None, "ranked": dims, "advice_error": ""}
    advice = known.advice
    return {
        "advised": True,
        "looking": None,
        "ranked": dims,
        "advice_error": "",
        "advice": {"text": advice.text, **step_cost_view(advice.price), **intent_view(advice.intent)},
    }
