"""The layout that `ml.auto` finds, beside the one that was made by hand.

A search is kept with the Explorer and compared with whatever layout is shown: as the hand-made layout changes, so do
the differences, without a new search.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from .view import axis_groups, communication_view, executed, memory_view, work_share


@dataclasses.dataclass(frozen=True)
class Search:
    """A search for the best layout.

    Args:
        objective: "traffic" or "memory".
        choice: what was found; None while it is sought.
        error: why nothing was found.
    """

    objective: str
    choice: Any = None
    error: str = ""


def search(program: Any, mesh: Any, objective: str) -> Search:
    """Finds the best layout for an objective."""
    from ..auto import layout as auto_layout  # noqa: PLC0415  its solver is loaded when it is first asked

    return Search(objective, auto_layout(program, mesh, objective=objective))


def comparison_view(found: Search | None, plan: Any) -> dict | None:
    """Sets the found layout beside the present plan.

    Args:
        found: the search.
        plan: the present plan.

    Returns:
        Plain data: for each of the two its layout, its communication by mesh axis and its memory.
    """
    if found is None:
        return None
    phase = "failed" if found.error else "searching" if found.choice is None else "found"
    shown: dict[str, Any] = {"objective": found.objective, "phase": phase, "error": found.error}
    if found.choice is None:
        return shown
    best = found.choice.plan
    return shown | {
        "proof": str(found.choice.proof),
        "same": best.layout == plan.layout,
        "rows": [_row("manual", "Yours", plan), _row("auto", "Auto", best)],
        "layout": best.layout.to_dict(),
    }


def _row(key: str, name: str, plan: Any) -> dict:
    groups = axis_groups(plan)
    communication, memory = communication_view(plan, groups), memory_view(plan)
    return {
        "key": key,
        "name": name,
        "layout": str(plan.layout),
        "bytes": communication["total"],
        "by_axis": communication["by_axis"],
        "work": work_share(plan),
        "collectives": executed(plan),
        "arguments": memory["arguments"],
        "outputs": memory["outputs"],
        "peak": _peak(plan),
    }


def _peak(plan: Any) -> int:
    """Returns the most bytes that one device holds at once, as `ml.auto` counts them for the objective "memory"."""
    from ..auto.ledger import ledger_of, planned_peak  # noqa: PLC0415  as above

    return planned_peak(plan, ledger_of(plan.program))
