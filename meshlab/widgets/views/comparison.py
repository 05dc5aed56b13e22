"""The layout that `ml.auto` finds, beside the one that was made by hand.

A search is kept with the Explorer and compared with whatever layout is shown: as the hand-made layout changes, so do
the differences, without a new search. Nothing is worked out here for a drop: what is shown of the present plan is taken
from the board's own view, and the found layout's row is made once.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from ..state.explorer_state import ExplorerState
from ..state.searches import Search
from .plan import axis_groups, communication_view, executed, memory_view, work_share

# What is shown of plans that a search has found: at every change, so it is made once.
_rows: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()


def comparison_view(explorer: ExplorerState, shown: Mapping[str, Any]) -> dict | None:
    """Sets the found layout beside the present plan.

    Args:
        explorer: the Explorer.
        shown: what is shown of the present plan, as `plan_view` gives it.

    Returns:
        Plain data: for each of the two its layout, its communication by mesh axis and its memory. The most that a
        device holds under the present plan, its `peak`, is None while it is being worked out.
    """
    search = explorer.comparison
    if search is None:
        return None
    status = {"objective": search.objective, "phase": search.phase, "error": search.error}
    if search.choice is None:
        return status
    best = search.choice.plan.layout
    yours = _row(explorer.layout, shown, explorer.holding.soon(explorer.document))
    return status | {
        "proof": str(search.choice.proof),
        "same": best == explorer.layout,
        "rows": [{"key": "manual", "name": "Yours"} | yours, auto_row(search)],
        "layout": best.to_dict(),
    }


def auto_row(search: Search) -> dict:
    """Describes what a search has found, as one row of a comparison."""
    plan = search.choice.plan
    if plan not in _rows:
        shown = {
            "communication": communication_view(plan, axis_groups(plan)),
            "memory": memory_view(plan),
            "work": work_share(plan),
            "collectives": {"count": executed(plan)},
        }
        _rows[plan] = {"key": "auto", "name": "Auto"} | _row(plan.layout, shown, search.peak)
    return _rows[plan]


def _row(layout: Any, shown: Mapping[str, Any], peak: int | None) -> dict:
    communication, memory = shown["communication"], shown["memory"]
    return {
        "layout": str(layout),
        "bytes": communication["total"],
        "by_axis": communication["by_axis"],
        "work": shown["work"],
        "collectives": shown["collectives"]["count"],
        "arguments": memory["arguments"],
        "outputs": memory["outputs"],
        "peak": peak,
    }
