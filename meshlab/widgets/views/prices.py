"""Prices as plain data: what a zone says to a chip that is held."""

from __future__ import annotations

from typing import Any

from ..state.explorer_state import ExplorerState
from ..state.intents import Refused
from ..state.prices import Price, other_columns


def price_view(explorer: ExplorerState, intent: Any, price: Price | Refused) -> dict:
    """Describes the price of an intent, or why it is refused and which columns would take it instead."""
    if isinstance(price, Refused):
        columns = [{"at": column.at, "label": column.label} for column in other_columns(explorer, intent)]
        return {"refused": {"code": price.code, "text": price.reason, "fix": price.fix, "columns": columns}}
    return {
        "bytes": price.wire_bytes,
        "seconds": price.seconds,
        "peak": price.peak_bytes,
        "fits": price.fits,
        "work": price.work,
    }
