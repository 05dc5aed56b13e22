"""Prices as plain data: what a zone says to a chip that is held."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from ..documents.intents import Intent, Refused
from ..state.explorer_state import ExplorerState
from ..state.handlers import message_of
from ..state.prices import Price, can_pad, other_columns
from .plan import RefusalView


class IntentView(TypedDict):
    """The operation and the arguments by which a page sends an intent."""

    op: str
    args: dict[str, object]


class InsteadView(IntentView):
    """What would be carried out instead, and what is on its button."""

    label: str


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


class RefusedColumnView(TypedDict):
    at: str
    label: str


class RefusedDropView(RefusalView):
    """Why a drop is refused; the columns that would take it, whether it could be padded, and what else there is."""

    columns: NotRequired[list[RefusedColumnView]]
    pads: NotRequired[bool]
    instead: NotRequired[list[InsteadView]]


class RefusedPriceView(TypedDict):
    """Why an intent is refused, and so has no price."""

    refused: RefusedDropView


def price_view(explorer: ExplorerState, intent: Any, price: Price | Refused) -> PriceView | RefusedPriceView:
    """Describes the price of an intent, or why it is refused and what would be legal: other columns, padding."""
    if isinstance(price, Refused):
        columns: list[RefusedColumnView] = [
            {"at": column.at, "label": column.label} for column in other_columns(explorer.documents, intent)
        ]
        pads = can_pad(explorer.documents, intent)
        text, fix = price.said
        said: RefusedDropView = {"code": price.code, "text": text, "fix": fix, "columns": columns, "pads": pads}
        return {"refused": {**said, "instead": instead_view(price)} if price.instead else said}
    return {**step_cost_view(price)}


def step_cost_view(price: Price) -> StepCostView:
    return {
        "bytes": price.wire_bytes,
        "seconds": price.seconds,
        "peak": price.peak_bytes,
        "fits": price.fits,
        "work": price.work,
    }


def intent_view(intent: Intent) -> IntentView:
    """Describes an intent as the message by which a page sends it."""
    op, args = message_of(intent)
    return {"op": op, "args": args}


def instead_view(refusal: Refused) -> list[InsteadView]:
    """Describes what would be carried out instead of what is refused."""
    return [{"label": label, **intent_view(intent)} for label, intent in refusal.instead]
