"""The goal of a board: how far the layout meets it, and the same as JSON-like data, for strip and snapshot.

    explorer.set_goal(ml.goal(sends="≤ 8 kB"))
    verdict_of(explorer)                conditions on costs that are worked out are pending
    verdict_of(explorer, wait=True)     waits for them: for scripts and snapshots

It is no part of the document: undo brings layouts back, never another goal. What the board no longer has, an axis that
was renamed say, makes a condition missed, with the reason.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from ...cost.machines.hardware import HardwareError
from ...goals.conditions import Cost, Costs, Price, platform_of
from ...goals.goals import Verdict
from ..state.explorer_state import ExplorerState

_STATES: dict[bool | None, Literal["met", "missed", "pending"]] = {True: "met", False: "missed", None: "pending"}


class ConditionView(TypedDict):
    """One condition; `price` is the price of a drop that may be `most` at the most, where that tells."""

    text: str
    state: Literal["met", "missed", "pending"]
    value: str
    because: str
    price: Price | None
    most: float


class GoalView(TypedDict):
    """A goal, and how far the layout on the board meets it; a quiet one hides what would give the answer away."""

    conditions: list[ConditionView]
    met: bool
    pending: bool
    heading: str
    quiet: bool


class GoalPartView(TypedDict):
    goal: GoalView | None


def verdict_of(explorer: ExplorerState, wait: bool = False) -> Verdict | None:
    """Returns how far the present layout meets the goal, as far as its costs are known; None without a goal.

    Args:
        explorer: the Explorer.
        wait: whether to wait for costs.
    """
    goal, document = explorer.wanted, explorer.document
    if goal is None:
        return None
    plan = explorer.plan_at(document)
    costs_of = explorer.costs.shown if wait else explorer.costs.soon
    peak_of = explorer.peaks.shown if wait else explorer.peaks.soon

    def seconds() -> Cost | None:
        if document.machine is None:
            raise HardwareError("The board is on no machine: choose one.")
        if (costs := costs_of(document)) is None:
            return None
        if costs.time is None:
            raise HardwareError(costs.missing)
        return Cost.of_step(costs.time)

    def peak(platform: str) -> Cost | None:
        if platform != platform_of(plan.mesh):
            return peak_of(document)
        costs = costs_of(document)
        return None if costs is None else Cost.of_peak(costs.memory)

    return goal.verdict(plan, Costs(seconds, peak))


def goal_part(explorer: ExplorerState) -> GoalPartView:
    """Describes the goal, None without one; conditions on costs are pending while these are worked out."""
    verdict = verdict_of(explorer)
    if verdict is None:
        return {"goal": None}
    goal, quiet = verdict.goal, verdict.goal.quiet and not verdict.met
    conditions: list[ConditionView] = []
    for condition, judged in zip(goal.conditions, verdict.told, strict=True):
        price, most = (None if quiet else condition.priced(explorer.plan)) or (None, 0.0)
        state = _STATES[judged.met]
        conditions.append(
            {
                "text": condition.text,
                "state": state,
                "value": judged.value,
                "because": judged.because,
                "price": price,
                "most": most,
            }
        )
    return {
        "goal": {
            "conditions": conditions,
            "met": verdict.met,
            "pending": verdict.pending,
            "heading": verdict.heading,
            "quiet": quiet,
        }
    }
