"""The protocol between a page and an Explorer, as JSON-like data, whatever carries it.

Python is the only writer of shared state. It shares the parts of `views/board.PARTS`, `rev` (the revision) and `notice`
(the last error); a change sends the parts that it touches. A page sends intents,

    {"v": 2, "kind": "intent", "id": 7, "base_rev": 3, "op": "place", "args": {"dim": "hidden", "axes": ["model"]}}

and for each gets the new state, if it changed, and then an answer with the same id: `ack`, or `nack` with a reason and
a fix. A page that saw an older revision is answered for the present one. `prices` asks what several intents would
cost, and as many are answered as are ready soon; `advise` asks for the change that helps most, which follows as a part
of the view; `read` asks for what a panel shows or saves and no drop sends (`views/reads.READS`, `files.py`); `library`
for plotly.js, which comes as bytes, and `bytes` whether such arrive (`library.py`). Every answer has Python's clock,
`now`; an intent may say until when, by that clock, it is `good`: the page waits no longer, and has put the chip back,
so what comes later is not carried out. Nothing raises here: a page would not see it.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from ..documents.intents import Refused
from ..state.gestures import Gestures
from ..state.handlers import read_intent
from ..state.prices import prices_of
from ..views.board import parts_view
from ..views.prices import InsteadView, PriceView, RefusedPriceView, instead_view, price_view
from ..views.reads import read
from .files import FILES

VERSION = 2
# Seconds after which no further price is worked out for one question: a drop stands behind it.
LONG = 0.25
# Whoever stops something wants that however late it is read: a run is what Python was busy with.
STOPS = ("cancel", "cancel_auto", "stop_auto", "cancel_look", "cancel_profile")
LATE = "The kernel was busy: this change timed out and was not applied."


class _Head(TypedDict):
    id: str
    now: float


class AckView(_Head):
    """Done; a note says what else was done."""

    kind: Literal["ack"]
    rev: int
    note: NotRequired[str]


class NackView(_Head):
    """Refused; without the revision where it is the library that is not there."""

    kind: Literal["nack"]
    rev: NotRequired[int]
    reason: str
    fix: str
    code: str
    instead: NotRequired[list[InsteadView]]
    trace: NotRequired[str]


class PricesAnswerView(_Head):
    """The first of the prices that were asked for: those that were ready soon."""

    kind: Literal["prices"]
    rev: int
    prices: list[PriceView | RefusedPriceView]


class ReadAnswerView(_Head):
    kind: Literal["read"]
    rev: int
    data: Mapping[str, object]


class LibraryAnswerView(_Head):
    """Its bytes come beside it, or as base64 where no bytes arrive."""

    kind: Literal["library"]
    text: NotRequired[str]


AnswerView = AckView | NackView | PricesAnswerView | ReadAnswerView | LibraryAnswerView


def shared_state(explorer: Gestures, what: str | None = None) -> dict[str, Any]:
    """Returns the shared state of an Explorer, or the part of it that a change touched.

    Args:
        explorer: the Explorer.
        what: the part that changed, as subscribers get it; all where it is None.
    """
    return {**parts_view(explorer, what), "rev": explorer.revision}


def answer(explorer: Gestures, message: Mapping[str, Any]) -> AnswerView:
    """Carries out a message of a page.

    Returns:
        The answer to send back; the Explorer's subscribers are called before this returns.
    """
    # What the page sends has an id.
    head: _Head = {"id": message.get("id"), "now": time.time()}  # pyright: ignore[reportAssignmentType]
    try:
        if message.get("v") != VERSION:
            reason = f"The page speaks version {message.get('v')!r} of the protocol, Python version {VERSION}."
            return _nack(head, explorer, Refused(reason, "Restart the kernel and show the Explorer again."))
        if message.get("kind") == "hello":
            return {**head, "kind": "ack", "rev": explorer.revision}
        if message.get("kind") == "advise":
            explorer.adviser.follow()
            return {**head, "kind": "ack", "rev": explorer.revision}
        if message.get("kind") == "prices":
            return _prices(head, explorer, message.get("intents") or [], bool(message.get("peak")))
        if message.get("kind") == "read":
            data = read(explorer, str(message.get("what")), message.get("args") or {}, FILES)
            if isinstance(data, Refused):
                return _nack(head, explorer, data)
            return {**head, "kind": "read", "rev": explorer.revision, "data": data}
        if message.get("op") not in STOPS and head["now"] > float(message.get("good") or math.inf):
            return _nack(head, explorer, Refused(LATE, code="late"))
        intent = read_intent(str(message.get("op")), message.get("args") or {})
        if isinstance(intent, Refused):
            return _nack(head, explorer, intent)
        outcome = explorer.apply(intent)
        if isinstance(outcome, Refused):
            return _nack(head, explorer, outcome)
        ack: AckView = {**head, "kind": "ack", "rev": outcome.revision}
        if outcome.note:
            ack["note"] = outcome.note
        return ack
    except Exception as error:  # shown on the board, where an exception would be swallowed
        trace = "".join(traceback.format_exception(error)[-3:])
        refusal = Refused(f"{type(error).__name__}: {error}", code="error")
        return {**_nack(head, explorer, refusal), "trace": trace}


def _nack(head: _Head, explorer: Gestures, refusal: Refused) -> NackView:
    reason, fix = refusal.said
    nack: NackView = {
        **head,
        "kind": "nack",
        "rev": explorer.revision,
        "reason": reason,
        "fix": fix,
        "code": refusal.code,
    }
    if refusal.instead:
        nack["instead"] = instead_view(refusal)
    return nack


def _prices(head: _Head, explorer: Gestures, asked: list, peak: bool) -> PricesAnswerView:
    """Answers the first of several prices: those that are ready when `LONG` is over, and always one."""
    views: list[PriceView | RefusedPriceView] = []
    start = time.perf_counter()
    for one in asked:
        intent = read_intent(str(one.get("op")), one.get("args") or {})
        price = intent if isinstance(intent, Refused) else prices_of(explorer.documents, [intent], peak)[0]
        views.append(price_view(explorer, intent, price))
        if time.perf_counter() - start > LONG:
            break
    return {**head, "kind": "prices", "rev": explorer.revision, "prices": views}
