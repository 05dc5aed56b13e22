"""The view of the whole board: the plan, the history, the comparison and the table of refusals, as JSON-like data.

The table of refusals comes with every revision, so that the page paints a drag legal or not, with the reason, without
asking Python; Python checks again when the chip is dropped.
"""

from __future__ import annotations

from ...engine.gc_pause import no_collection
from ..state.explorer_state import ExplorerState
from ..state.intents import Refused
from .comparison import comparison_view
from .machine import machine_view
from .plan import executed, plan_view, refusals_view, work_share
from .step_time import costs_view, estimate_change


def board_view(explorer: ExplorerState) -> dict:
    """Describes the board of an Explorer.

    Args:
        explorer: the Explorer.

    Returns:
        Plain data; see `plan_view` for most of it.
    """
    with explorer.lock, no_collection():
        shown, history = plan_view(explorer.plan, explorer.selected), explorer.history
        more = {
            "refusals": refusals_view(explorer.refusals()),
            "additions": additions_view(explorer),
            "history": {"undo": len(history.past), "redo": len(history.future)},
            "change": change_view(explorer),
            "comparison": comparison_view(explorer, shown),
            "trains": explorer.training is not None,
            "machine": machine_view(explorer),
        }
        return shown | more | costs_view(explorer)


def additions_view(explorer: ExplorerState) -> dict:
    """Gives, for each sharded dim, why a further axis is refused, or None where it is legal."""
    table: dict[str, dict[str, dict | None]] = {}
    for written, axes in explorer.layout.rules.items():
        dim = written.removesuffix("?")
        table[dim] = {}
        for axis in explorer.mesh.axes:
            if axis not in axes:
                table[dim][axis] = refused_view(explorer.legal(explorer.layout.with_rule(dim, (*axes, axis))))
    return table


def refused_view(refusal: Refused | None) -> dict | None:
    """Describes one answer of the Explorer as an entry of a table of refusals."""
    if refusal is None:
        return None
    return {"code": refusal.code, "text": refusal.reason, "fix": refusal.fix, "source": ""}


def change_view(explorer: ExplorerState) -> dict | None:
    """Describes the change of the totals since the plan before, or None where there is none."""
    before = explorer.plan_before()
    if before is None:
        return None
    plan = explorer.plan
    return {
        "work": work_share(plan) - work_share(before),
        "bytes": int(plan.wire_bytes - before.wire_bytes),
        "arguments": int(plan.stored.argument_bytes - before.stored.argument_bytes),
        "collectives": executed(plan) - executed(before),
    } | estimate_change(explorer)
