"""Prices as plain data: what a zone says to a chip that is held."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from ..documents.intents import Refused
from ..state.explorer_state import ExplorerState
from ..state.prices import Price, can_pad, other_columns
from .plan import RefusalView, RefusedColumnView


class StepCostView(TypedDict):
    """What a step costs under a layout; step and peak are null where they are unknown, or were not asked for."""

    bytes: int
    seconds: float | None
    peak: int | None
    fits: bool | None
    work: float


class PriceView(StepCostView):
    """What a step costs after an intent; it is not refused."""

    refused: NotRequired[None]


class RefusedPriceView(TypedDict):
    """Why an intent is refused, and so has no price."""

    refused: RefusalView


def price_view(explorer: ExplorerState, intent: Any, price: Price | Refused) -> PriceView | RefusedPriceView:
    """Describes the price of an intent, or why it is refused and what would be legal: other columns, padding."""
    if isinstance(price, Refused):
        columns: list[RefusedColumnView] = [
            {"at": column.at, "label": column.label} for column in other_columns(explorer.documents, intent)
        ]
        pads = can_pad(explorer.documents, intent)
        text, fix = price.said
        return {"refused": {"code": price.code, "text": text, "fix": fix, "columns": columns, "pads": pads}}
    return {**step_cost_view(price)}


def step_cost_view(price: Price) -> StepCostView:
    return {
        "bytes": price.wire_bytes,
        "seconds": price.seconds,
        "peak": price.peak_bytes,
        "fits": price.fits,
        "work": price.work,
    }
