"""Searches for the best layout: the latest one counts, and it can be cancelled.

    search = searches.begin("traffic")      the search before it is cancelled
    searches.find(search)                   waits; `start` finds in the background
    searches.cancel()

The result of a search is shown only if it is still the latest, nobody has cancelled it, and the mesh has the same
placement: it would stand beside plans for another machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from ...auto import layout
from ...auto.objective import OBJECTIVES
from ...engine.errors import closest, listed, shown
from .intents import Refused

SEARCHING, FOUND, FAILED, CANCELLED = "searching", "found", "failed", "cancelled"


@dataclasses.dataclass(frozen=True, eq=False)
class Search:
    """A search for the best layout, as far as it has come.

    Attributes:
        objective: "traffic" or "memory".
        mesh: the mesh that it is for, as it was placed.
        phase: "searching", "found", "failed" or "cancelled".
        choice: the result.
        error: why it failed, or why it was cancelled by itself.
        stop: the event that ends it.
    """

    objective: str
    mesh: Any
    phase: str = SEARCHING
    choice: Any = None
    error: str = ""
    stop: threading.Event = dataclasses.field(default_factory=threading.Event)


def best(program: Any, mesh: Any, objective: str, cancel: threading.Event) -> Any:
    """Finds the best layout for an objective; see `meshlab.auto.layout`."""
    return layout(program, mesh, objective=objective, cancel=cancel)


class Searches:
    """The searches of one Explorer.

    Args:
        program: the program.
        mesh: gives the present mesh.
        lock: guards the Explorer.
        tell: called under the lock when a search changes.

    Attributes:
        last: the latest search.
    """

    def __init__(self, program: Any, mesh: Callable[[], Any], lock: threading.RLock, tell: Callable[[], Any]):
        self._program, self._mesh, self._lock, self._tell = program, mesh, lock, tell
        self.last: Search | None = None

    def begin(self, objective: str) -> Search:
        """Begins a search; the one before is cancelled."""
        with self._lock:
            if self.last is not None:
                self.last.stop.set()
            return self._show(Search(objective, self._mesh()))

    def start(self, objective: str) -> Refused | None:
        """Searches in the background; returns a refusal where there is no such objective."""
        if not isinstance(objective, str) or objective not in OBJECTIVES:
            reason = f"A search for {shown(objective)} was asked for.{closest(objective, OBJECTIVES)}"
            return Refused(reason, f"Ask for one of {listed(OBJECTIVES)}.", "unknown_objective")
        search = self.begin(objective)
        name = f"meshlab-auto-{objective}"
        threading.Thread(target=self._quietly, args=(search,), name=name, daemon=True).start()
        return None

    def find(self, search: Search) -> Any:
        """Searches, and shows the result if the search is still the latest.

        Returns:
            The `Choice`.

        Raises:
            Cancelled: the search was cancelled, or another one was begun.
        """
        try:
            choice = best(self._program, search.mesh, search.objective, search.stop)
        except Exception as error:
            self._end(search, phase=FAILED, error=str(error))
            raise
        self._end(search, phase=FOUND, choice=choice)
        return choice

    def cancel(self) -> Refused | None:
        """Cancels the present search; returns a refusal where there is none."""
        with self._lock:
            if self.last is None or self.last.phase != SEARCHING:
                return Refused("There is no search to cancel.", code="nothing")
            self.last.stop.set()
            self._show(dataclasses.replace(self.last, phase=CANCELLED))
            return None

    def _end(self, search: Search, **result: Any) -> None:
        with self._lock:
            if self.last is not search:
                return
            if self._mesh() != search.mesh:
                result = {"phase": CANCELLED, "error": "The machine was changed meanwhile: search again."}
            self._show(dataclasses.replace(search, **result))

    def _show(self, search: Search) -> Search:
        self.last = search
        self._tell()
        return search

    def _quietly(self, search: Search) -> None:
        with contextlib.suppress(Exception):  # noted for the board before it was raised
            self.find(search)
