"""Auto's layout beside the user's, as JSON-like data.

The Explorer keeps its latest search and compares it with the present layout: as that changes, so do the differences,
without a new search. The figures of a plan are computed once.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..state.explorer_state import ExplorerState
from ..state.searches import Search
from .plan import plan_view

# The figures of plans that were compared: each is shown at every change, and computed once.
_figures: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()


def comparison_part(explorer: ExplorerState) -> dict:
    """Describes the latest search, if there is one."""
    return {"comparison": comparison_view(explorer)}


def comparison_view(explorer: ExplorerState) -> dict | None:
    """Describes Auto's layout beside the present one.

    Args:
        explorer: the Explorer.

    Returns:
        JSON-like data: for each of the two its layout, its communication by mesh axis and its memory. The `live_bytes`
        of the present plan are None while they are being computed.
    """
    search = explorer.comparison
    if search is None:
        return None
    status = {"objective": search.objective, "phase": search.phase, "error": search.error}
    if search.choice is None:
        return status
    best = search.choice.plan.layout
    yours = _row(explorer.plan, explorer.holding.soon(explorer.document))
    return status | {
        "proof": str(search.choice.proof),
        "same": best == explorer.layout,
        "rows": [{"key": "manual", "name": "Yours"} | yours, auto_row(search)],
        "layout": best.to_dict(),
    }


def auto_row(search: Search) -> dict:
    """Describes the result of a search as one row of the comparison."""
    return {"key": "auto", "name": "Auto"} | _row(search.choice.plan, search.live_bytes)


def _row(plan: Any, live_bytes: int | None) -> dict:
    if plan not in _figures:
        view = plan_view(plan)
        communication, memory = view["communication"], view["memory"]
        _figures[plan] = {
            "layout": str(plan.layout),
            "bytes": communication["total"],
            "by_axis": communication["by_axis"],
            "work": view["work"],
            "collectives": view["collectives"]["count"],
            "arguments": memory["arguments"],
            "outputs": memory["outputs"],
        }
    return _figures[plan] | {"live_bytes": live_bytes}
