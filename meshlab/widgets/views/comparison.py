"""The layout that `ml.auto` finds, beside the one that was made by hand.

A search is kept with the Explorer and compared with whatever layout is shown: as the hand-made layout changes, so do
the differences, without a new search. Nothing is worked out here for a drop: what is shown of the present plan is taken
from the board's own view, and the found layout's row is made once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .plan import axis_groups, communication_view, executed, memory_view, work_share


def comparison_view(explorer: Any, shown: Mapping[str, Any]) -> dict | None:
    """Sets the found layout beside the present plan.

    Args:
        explorer: the Explorer.
        shown: what is shown of the present plan, as `plan_view` gives it.

    Returns:
        Plain data: for each of the two its layout, its communication by mesh axis and its memory. The
        `live_bytes` of the present plan are None while they are being worked out.
    """
    search = explorer.comparison
    if search is None:
        return None
    said = {"objective": search.objective, "phase": search.phase, "error": search.error}
    if search.choice is None:
        return said
    best = search.choice.plan.layout
    yours = _row(explorer.layout, shown, explorer.holding.soon(explorer.document))
    return said | {
        "proof": str(search.choice.proof),
        "same": best == explorer.layout,
        "rows": [{"key": "manual", "name": "Yours"} | yours, search.row],
        "layout": best.to_dict(),
    }


def found_row(choice: Any) -> dict:
    """Describes what a search has found, as one row of a comparison."""
    from ...auto.mesh_tf_ledger import planned_live_bytes  # noqa: PLC0415  loaded with the first search

    plan = choice.plan
    shown = {
        "communication": communication_view(plan, axis_groups(plan)),
        "memory": memory_view(plan),
        "work": work_share(plan),
        "collectives": {"count": executed(plan)},
    }
    return {"key": "auto", "name": "Auto"} | _row(plan.layout, shown, planned_live_bytes(plan))


def _row(layout: Any, shown: Mapping[str, Any], live_bytes: int | None) -> dict:
    communication, memory = shown["communication"], shown["memory"]
    return {
        "layout": str(layout),
        "bytes": communication["total"],
        "by_axis": communication["by_axis"],
        "work": shown["work"],
        "collectives": shown["collectives"]["count"],
        "arguments": memory["arguments"],
        "outputs": memory["outputs"],
        "live_bytes": live_bytes,
    }
