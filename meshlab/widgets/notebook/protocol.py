"""The protocol between a page and an Explorer, as JSON-like data, whatever carries it.

Python is the only writer of shared state. It shares five things: `doc` (the document), `rev` (the revision), `view`
(all that is drawn), `job` (runs) and `notice` (the last error). A page sends intents,

    {"v": 1, "kind": "intent", "id": 7, "base_rev": 3, "op": "place", "args": {"dim": "hidden", "axes": ["model"]}}

and for each gets the new state, if it changed, and then an answer with the same id: `ack`, or `nack` with a reason and
a fix. A page that saw an older revision is answered for the present one. A `preview` asks what an intent would cost.
Nothing raises here: a page would not see it.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from ..state.explorer_state import ExplorerState
from ..state.intents import Refused, read_intent
from ..views.board import board_view
from ..views.runs import job_view
from ..views.step_time import preview_view

VERSION = 1


def shared_state(explorer: ExplorerState, what: str | None = None) -> dict:
    """Returns the shared state of an Explorer, or the part of it that a change touched.

    Args:
        explorer: the Explorer.
        what: the part that changed, as subscribers get it; all where it is None.
    """
    if what == "run":
        return {"job": job_view(explorer)}
    return {
        "doc": explorer.document.to_dict(),
        "rev": explorer.revision,
        "view": board_view(explorer),
        "job": job_view(explorer),
    }


def answer(explorer: ExplorerState, message: Mapping[str, Any]) -> dict:
    """Carries out a message of a page.

    Args:
        explorer: the Explorer.
        message: the message.

    Returns:
        The answer to send back; the Explorer's subscribers are called before this returns.
    """
    head = {"id": message.get("id")}
    try:
        if message.get("v") != VERSION:
            reason = f"The page speaks version {message.get('v')!r} of the protocol, Python version {VERSION}."
            return head | _nack(explorer, Refused(reason, "Restart the kernel and show the Explorer again."))
        intent = read_intent(str(message.get("op")), message.get("args") or {})
        if isinstance(intent, Refused):
            return head | _nack(explorer, intent)
        if message.get("kind") == "preview":
            return head | _preview(explorer, explorer.what_if(intent))
        outcome = explorer.apply(intent)
        if isinstance(outcome, Refused):
            return head | _nack(explorer, outcome)
        return head | {"kind": "ack", "rev": outcome.revision}
    except Exception as error:  # shown on the board, where an exception would be swallowed
        trace = "".join(traceback.format_exception(error)[-3:])
        return head | _nack(explorer, Refused(f"{type(error).__name__}: {error}", code="error")) | {"trace": trace}


def _nack(explorer: ExplorerState, refusal: Refused) -> dict:
    reason = {"reason": refusal.reason, "fix": refusal.fix, "code": refusal.code}
    return {"kind": "nack", "rev": explorer.revision} | reason


def _preview(explorer: ExplorerState, outcome: Any) -> dict:
    if isinstance(outcome, Refused):
        return _nack(explorer, outcome)
    plan, now = outcome.plan, explorer.plan
    return {
        "kind": "preview",
        "rev": explorer.revision,
        "bytes": int(plan.wire_bytes),
        "change": int(plan.wire_bytes - now.wire_bytes),
        "memory": int(plan.stored.argument_bytes),
    } | preview_view(explorer, outcome.document)
