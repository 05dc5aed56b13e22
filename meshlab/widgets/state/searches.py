"""Searches for the best layout: the one that was asked for last counts, and it can be cancelled.

    search = searches.begin("traffic")      the search before it is cancelled
    searches.find(search)                   waits; `start` finds in the background
    searches.cancel()

What a search finds is shown only if nobody has asked for another one since, nor cancelled it, and if the mesh still
lies where it lay: on another machine it would stand beside plans of that one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from ...auto import layout
from ...auto.choice import OBJECTIVES
from ...auto.mesh_tf_ledger import planned_peak
from ...engine.errors import closest, listed, shown
from .intents import Refused

SEARCHING, FOUND, FAILED, CANCELLED = "searching", "found", "failed", "cancelled"


@dataclasses.dataclass(frozen=True, eq=False)
class Search:
    """A search for the best layout, as far as it has come.

    Attributes:
        objective: "traffic" or "memory".
        mesh: the mesh that it is for, on the machine that it lies on.
        phase: "searching", "found", "failed" or "cancelled".
        choice: what was found.
        peak: the most live bytes that a device has under it.
        error: why nothing was found; why it was cancelled, where nobody did.
        stop: ends it when it is set.
    """

    objective: str
    mesh: Any
    phase: str = SEARCHING
    choice: Any = None
    peak: int = 0
    error: str = ""
    stop: threading.Event = dataclasses.field(default_factory=threading.Event)


def best(program: Any, mesh: Any, objective: str, cancel: threading.Event) -> Any:
    """Finds the best layout for an objective; see `meshlab.auto.layout`."""
    return layout(program, mesh, objective=objective, cancel=cancel)


class Searches:
    """The searches of one Explorer.

    Args:
        program: the program.
        mesh: gives the mesh as it lies at present.
        lock: guards the Explorer.
        tell: called, with the lock held, when there is something new to show.

    Attributes:
        last: the search that was asked for last.
    """

    def __init__(self, program: Any, mesh: Callable[[], Any], lock: threading.RLock, tell: Callable[[], Any]):
        self._program, self._mesh, self._lock, self._tell = program, mesh, lock, tell
        self.last: Search | None = None

    def begin(self, objective: str) -> Search:
        """Takes the place of the search before, which is cancelled."""
        with self._lock:
            if self.last is not None:
                self.last.stop.set()
            return self._show(Search(objective, self._mesh()))

    def start(self, objective: str) -> Refused | None:
        """Searches in the background; returns why there is nothing to search for."""
        if not isinstance(objective, str) or objective not in OBJECTIVES:
            reason = f"A search for {shown(objective)} was asked for.{closest(objective, OBJECTIVES)}"
            return Refused(reason, f"Ask for one of {listed(OBJECTIVES)}.", "unknown_objective")
        search = self.begin(objective)
        name = f"meshlab-auto-{objective}"
        threading.Thread(target=self._quietly, args=(search,), name=name, daemon=True).start()
        return None

    def find(self, search: Search) -> Any:
        """Searches, and shows what was found if it is still wanted.

        Returns:
            The `Choice`.

        Raises:
            Cancelled: the search was cancelled, or another one was begun.
        """
        try:
            choice = best(self._program, search.mesh, search.objective, search.stop)
            peak = planned_peak(choice.plan)
        except Exception as error:
            self._land(search, phase=FAILED, error=str(error))
            raise
        self._land(search, phase=FOUND, choice=choice, peak=peak)
        return choice

    def cancel(self) -> Refused | None:
        """Cancels the search that is going on; returns why there is nothing to cancel."""
        with self._lock:
            if self.last is None or self.last.phase != SEARCHING:
                return Refused("There is no search to cancel.", code="nothing")
            self.last.stop.set()
            self._show(dataclasses.replace(self.last, phase=CANCELLED))
            return None

    def _land(self, search: Search, **found: Any) -> None:
        with self._lock:
            if self.last is not search:
                return
            if self._mesh() != search.mesh:
                found = {"phase": CANCELLED, "error": "The machine was changed meanwhile: search again."}
            self._show(dataclasses.replace(search, **found))

    def _show(self, search: Search) -> Search:
        self.last = search
        self._tell()
        return search

    def _quietly(self, search: Search) -> None:
        with contextlib.suppress(Exception):  # noted for the board before it was raised
            self.find(search)
