"""Why Auto's layout is the fastest, as JSON-like data that the page asks for while it shows it.

    met_view(explorer)       the layouts that the search has met, those on the front of time and memory among them
    way_view(explorer)       from the layout on the board, or one that was tried, to Auto's, one change at a time
    regrets_view(explorer)   what each decision otherwise costs, and what binds

Each is worked out in the background: `{"pending": True}` until it is known, and nothing where no search has found the
fastest layout for the board as it is.
"""

from __future__ import annotations

import math
from typing import TypedDict

from ...auto.reasons.regrets import Regret
from ...auto.reasons.waterfall import Fall
from ...cost.machines.meshes import machine_of
from ..background.reasons import MET, REGRETS, WAY, Decided, Met, Way
from ..state.explorer_state import ExplorerState
from ..state.regret_searches import RegretSearch
from .pending import PENDING, PendingView
from .prices import IntentView
from .search import TakenView, taken_view


class MetView(TakenView):
    """A layout that the search has met."""

    seconds: float
    peak: int
    fits: bool


class MetLayoutsView(TypedDict):
    """Some of the layouts that the search has met, the fastest first, and how many there are in all."""

    layouts: list[MetView]
    count: int


class WayStepView(TakenView):
    """One change on the way; the step takes so many seconds after it, by so many more than before."""

    change: str
    seconds: float
    by: float
    bytes: float
    peak: int
    fits: bool


class WayView(TypedDict):
    steps: list[WayStepView]
    order: str
    rank: str
    refused: str


class RegretView(TypedDict):
    """By what share the step gets longer where one decision is otherwise, at least and as far as was met."""

    change: str
    share: float | None
    least: float | None
    seconds: float | None
    exact: bool
    layout: str
    load: IntentView | None


class RegretsView(TypedDict):
    rows: list[RegretView]
    binds: list[str]
    phase: str
    searched: int
    error: str


def met_view(explorer: ExplorerState) -> MetLayoutsView | PendingView:
    """Describes the layouts that the search has met, the fastest first."""
    choice = explorer.searches.fastest
    met: Met | None = explorer.reasons.soon(MET)
    if choice is None:
        return {"layouts": [], "count": 0}
    if met is None:
        return PENDING
    layouts: list[MetView] = [
        {
            "seconds": each.seconds,
            "peak": each.peak_bytes,
            "fits": _fits(explorer, each.peak_bytes),
            **taken_view(each.layout),
        }
        for each in met.layouts
    ]
    return {"layouts": layouts, "count": met.count}


def way_view(explorer: ExplorerState, begins: str = "") -> WayView | PendingView:
    """Describes the way from a layout to Auto's, and the rank of the first.

    Args:
        explorer: the Explorer.
        begins: the card of the layout; "" for that on the board.
    """
    choice = explorer.searches.fastest
    tried = next((each for each in explorer.tried if str(each.number) == begins), None)
    way: Way | None = explorer.reasons.soon(WAY, explorer.layout if tried is None else tried.document.layout)
    if choice is None:
        return {"steps": [], "order": "", "rank": "", "refused": ""}
    if way is None:
        return PENDING
    pairs = zip((way.steps[:1] + way.steps), way.steps, strict=False)
    return {
        "steps": [step_view(explorer, before, step) for before, step in pairs],
        "order": way.order,
        "rank": "" if way.rank is None else str(way.rank),
        "refused": way.refused,
    }


def step_view(explorer: ExplorerState, before: Fall, step: Fall) -> WayStepView:
    return {
        "change": step.change,
        "seconds": step.seconds,
        "by": step.seconds - before.seconds,
        "bytes": step.wire_bytes,
        "peak": step.peak_bytes,
        "fits": _fits(explorer, step.peak_bytes),
        **taken_view(step.layout),
    }


def _fits(explorer: ExplorerState, peak: int) -> bool:
    """Whether a device holds a peak; what is asked for is of a mesh on a machine."""
    return peak <= machine_of(explorer.mesh, "the Explorer").hardware.memory_bytes


def regrets_view(explorer: ExplorerState) -> RegretsView | PendingView:
    """Describes what each decision otherwise costs, the greatest first, and how far the search for each is."""
    choice = explorer.searches.fastest
    decided: Decided | None = explorer.reasons.soon(REGRETS)
    if choice is None:
        return {"rows": [], "binds": [], "phase": "", "searched": 0, "error": ""}
    if decided is None:
        return PENDING
    search: RegretSearch | None = explorer.regrets.of(explorer.searches.fastest)
    regrets = search.regrets if search is not None and search.regrets else decided.regrets
    return {
        "rows": [regret_view(regret) for regret in regrets],
        "binds": str(decided.binding).splitlines(),
        "phase": "" if search is None else search.phase,
        "searched": sum(regret.exact for regret in regrets),
        "error": "" if search is None else search.error,
    }


def regret_view(regret: Regret) -> RegretView:
    """Describes one regret as a bracket of shares; without an upper end where nothing that was met fits."""
    met = math.isfinite(regret.seconds)
    taken = None if regret.layout is None else taken_view(regret.layout, regret.change.replace("`", ""))
    return {
        "change": regret.change,
        "share": max(0.0, regret.share) if met else None,
        "least": max(0.0, regret.bound / regret.best - 1) if math.isfinite(regret.bound) else None,
        "seconds": regret.seconds if met else None,
        "exact": regret.exact,
        "layout": "" if taken is None else taken["layout"],
        "load": None if taken is None else taken["load"],
    }
