"""Auto's layout beside the user's, as JSON-like data.

The Explorer keeps its latest search and compares it with the present layout: as that changes, so do the differences,
without a new search. A drop costs nothing here: the row of the present plan is taken from the board's own view, and the
row of Auto's layout is computed once.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from ..state.explorer_state import ExplorerState
from ..state.searches import Search
from .plan import plan_view

# Rows of the plans that searches found: each is shown at every change, and computed once.
_auto_rows: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()


def comparison_view(explorer: ExplorerState, plan: Mapping[str, Any]) -> dict | None:
    """Describes Auto's layout beside the present one.

    Args:
        explorer: the Explorer.
        plan: the view of the present plan, as `plan_view` gives it.

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
    yours = _row(explorer.layout, plan, explorer.holding.soon(explorer.document))
    return status | {
        "proof": str(search.choice.proof),
        "same": best == explorer.layout,
        "rows": [{"key": "manual", "name": "Yours"} | yours, auto_row(search)],
        "layout": best.to_dict(),
    }


def auto_row(search: Search) -> dict:
    """Describes the result of a search as one row of the comparison."""
    plan = search.choice.plan
    if plan not in _auto_rows:
        row = _row(plan.layout, plan_view(plan, None), search.live_bytes)
        _auto_rows[plan] = {"key": "auto", "name": "Auto"} | row
    return _auto_rows[plan]


def _row(layout: Any, plan: Mapping[str, Any], live_bytes: int | None) -> dict:
    communication, memory = plan["communication"], plan["memory"]
    return {
        "layout": str(layout),
        "bytes": communication["total"],
        "by_axis": communication["by_axis"],
        "work": plan["work"],
        "collectives": plan["collectives"]["count"],
        "arguments": memory["arguments"],
        "outputs": memory["outputs"],
        "live_bytes": live_bytes,
    }
