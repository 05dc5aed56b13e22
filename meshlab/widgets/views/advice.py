"""Advice as JSON-like data: the change that helps most, its price, and the message that makes it."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..state.explorer_state import ExplorerState
from ..state.intents import Load, Place, Remove, TakeRemedy


def advice_part(explorer: ExplorerState) -> dict:
    """Describes the advice for the present document, None while it is not worked out (`advised`) or nothing helps.

    Beside it the dims that some zone takes, the one with the best zone first; None while that is not known.
    """
    known, ranked = explorer.advice, explorer.ranked
    dims = None
    if ranked is not None and ranked[0] == explorer.document:
        dims = [{"dim": dim, "helps": helps} for dim, helps in ranked[1]]
    if known is None or known[0] != explorer.document:
        return {"advice": None, "advised": False, "ranked": dims}
    advice = known[1]
    if advice is None:
        return {"advice": None, "advised": True, "ranked": dims}
    price = advice.price
    return {
        "advised": True,
        "ranked": dims,
        "advice": {
            "text": advice.text,
            "bytes": price.wire_bytes,
            "seconds": price.seconds,
            "peak": price.peak_bytes,
            "fits": price.fits,
            "work": price.work,
        }
        | message_of(advice.intent),
    }


def message_of(intent: Any) -> dict:
    """Returns the operation and the arguments by which a page sends an intent that changes the layout."""
    match intent:
        case Place(dim, axes, at):
            return {"op": "place", "args": {"dim": dim, "axes": list(axes)} | ({"at": at} if at else {})}
        case Remove(dim, at):
            return {"op": "remove", "args": {"dim": dim} | ({"at": at} if at else {})}
        case Load(layout):
            return {"op": "load", "args": {"layout": layout.to_dict()}}
        case TakeRemedy(changes):
            lists = [{"axes": list(change.axes), "there": list(change.there)} for change in changes]
            pairs = zip(map(dataclasses.asdict, changes), lists, strict=True)
            return {"op": "remedy", "args": {"changes": [fields | each for fields, each in pairs]}}
    raise TypeError(f"{intent!r} changes no layout")
