"""Searches for the best layout: the latest one counts, and it can be cancelled.

    search = searches.begin("traffic")      the search before it is cancelled
    searches.find(search)                   waits; `start` finds in the background
    searches.stop(take)                     ends it with the best so far, which is given to `take`
    searches.cancel()
    searches.show(choice)                   shows what was found elsewhere

The result of a search is shown only if it is still the latest, nobody has cancelled it, and program and mesh are the
same, placement included: it would stand beside plans for another machine. One that was shown before that is `outdated`
until they are the same again. What the document pins, forbids and limits holds for the search. Of a
search that goes on each better layout
is told at once, and how far it is a few times a second.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time as clock
from collections.abc import Callable, Mapping
from typing import Any

from ...auto import Found, layout
from ...auto.objective import OBJECTIVES, TIME, offered
from ...engine.errors import closest, listed, shown
from ..documents.intents import Refused

SEARCHING, FOUND, FAILED, CANCELLED = "searching", "found", "failed", "cancelled"
# Seconds between two tellings of how far a search is.
OFTEN = 0.2


@dataclasses.dataclass(frozen=True, eq=False)
class Search:
    """A search for the best layout, as far as it has come.

    Attributes:
        objective: "time", "memory", "traffic" or "live".
        program: the program that it is for.
        mesh: the mesh that it is for, as it was placed.
        kept: what it must keep to, as arguments of `ml.auto.layout`.
        options: the assumptions about a run that the board shows.
        phase: "searching", "found", "failed" or "cancelled".
        found: the best layout so far; None before there is one.
        choice: the result.
        error: why it failed, or why it was cancelled by itself.
        stop: the event that ends it.
        enough: the event that ends it with the best so far.
    """

    objective: str
    program: Any
    mesh: Any
    kept: Mapping[str, Any]
    options: Any
    phase: str = SEARCHING
    found: Found | None = None
    choice: Any = None
    error: str = ""
    stop: threading.Event = dataclasses.field(default_factory=threading.Event)
    enough: threading.Event = dataclasses.field(default_factory=threading.Event)


def best(search: Search, progress: Callable[[Found], Any]) -> Any:
    """Finds the best layout for an objective, under the assumptions of the board; see `meshlab.auto.layout`."""
    return layout(
        search.program,
        search.mesh,
        objective=search.objective,
        **search.kept,
        options=dataclasses.asdict(search.options),
        progress=progress,
        cancel=search.stop,
        stop=search.enough,
    )


class Searches:
    """The searches of one Explorer.

    Args:
        present: gives the present program, mesh, what a search must keep to, and assumptions about a run.
        lock: guards the Explorer.
        tell: called under the lock when a search begins or ends.
        note: called under the lock when one is further.

    Attributes:
        last: the latest search.
    """

    def __init__(
        self,
        present: Callable[[], tuple[Any, ...]],
        lock: threading.RLock,
        tell: Callable[[], Any],
        note: Callable[[], Any],
    ):
        self._present, self._lock, self._tell, self._tell_further = present, lock, tell, note
        self._told = -OFTEN
        self._take: Callable[[Any], Any] | None = None
        self.last: Search | None = None

    @property
    def outdated(self) -> str:
        """What of the Explorer is another than the latest search was for: "program", "mesh", "machine" or "run"."""
        with self._lock:
            if self.last is None:
                return ""
            program, mesh, _, options = self._present()
            return _other(self.last, program, mesh) or ("" if options == self.last.options else "run")

    @property
    def choice(self) -> Any:
        """The `Choice` of the latest search, while it holds for what is on the board; None where there is none."""
        search = self.last
        return None if search is None or search.phase != FOUND or self.outdated else search.choice

    @property
    def fastest(self) -> Any:
        """The `Choice` of the latest search, where that was for the fastest layout; it tells why it is."""
        search = self.last
        return self.choice if search is not None and search.objective == TIME.name else None

    def begin(self, objective: str) -> Search:
        """Begins a search; the one before is cancelled."""
        with self._lock:
            if self.last is not None:
                self.last.stop.set()
            self._take = None
            return self._show(Search(objective, *self._present()))

    def show(self, choice: Any) -> None:
        """Shows what was found for the program and the mesh of now by a search that was made elsewhere.

        Args:
            choice: the `Choice`.
        """
        with self._lock:
            self._show(dataclasses.replace(self.begin(choice.proof.objective), phase=FOUND, choice=choice))

    def start(self, objective: str) -> Refused | None:
        """Searches in the background; returns a refusal where there is no such objective on this mesh."""
        _, mesh, *_ = self._present()
        names = [each.name for each in offered(mesh)]
        if not isinstance(objective, str) or objective not in names:
            known = isinstance(objective, str) and objective in OBJECTIVES
            why = ", and the mesh is on no machine." if known else f".{closest(objective, names)}"
            reason = f"A search for {shown(objective)} was asked for{why}"
            return Refused(reason, f"Ask for one of {listed(names)}.", "unknown_objective")
        search = self.begin(objective)
        name = f"meshlab-auto-{objective}"
        threading.Thread(target=self._quietly, args=(search,), name=name, daemon=True).start()
        return None

    def find(self, search: Search) -> Any:
        """Searches, and shows the result if the search is still the latest.

        Returns:
            The `Choice`.
        """
        try:
            choice = best(search, lambda found: self._note(search, found))
        except Exception as error:
            self._end(search, phase=FAILED, error=str(error))
            raise
        self._end(search, phase=FOUND, choice=choice)
        return choice

    def stop(self, take: Callable[[Any], Any]) -> Refused | None:
        """Ends the present search with the best so far; returns a refusal where there is none.

        Args:
            take: called under the lock with the `Choice`, once it is shown.
        """
        with self._lock:
            if self.last is None or self.last.phase != SEARCHING:
                return Refused("There is no search to stop.", code="nothing")
            if self.last.found is None or self.last.found.plan is None:
                return Refused("The search has found no layout that fits yet.", "Cancel it, or wait.", "nothing")
            self._take = take
            self.last.enough.set()
            return None

    def cancel(self) -> Refused | None:
        """Cancels the present search; returns a refusal where there is none."""
        with self._lock:
            if self.last is None or self.last.phase != SEARCHING:
                return Refused("There is no search to cancel.", code="nothing")
            self.last.stop.set()
            self._show(dataclasses.replace(self.last, phase=CANCELLED))
            return None

    def _note(self, search: Search, found: Found) -> None:
        with self._lock:
            if self.last is None or self.last.stop is not search.stop or self.last.phase != SEARCHING:
                return
            before, self.last = self.last.found, dataclasses.replace(self.last, found=found)
            better = before is None or before.plan is not found.plan
            if better or clock.monotonic() - self._told >= OFTEN:
                self._told = clock.monotonic()
                self._tell_further()

    def _end(self, search: Search, **result: Any) -> None:
        with self._lock:
            if self.last is None or self.last.stop is not search.stop or self.last.phase != SEARCHING:
                return
            program, mesh, *_ = self._present()
            if what := _other(search, program, mesh):
                result = {"phase": CANCELLED, "error": f"The {what} has changed since: search again."}
            self._show(dataclasses.replace(self.last, **result))
            take, self._take = self._take, None
            if take is not None and self.last.phase == FOUND:
                take(self.last.choice)

    def _show(self, search: Search) -> Search:
        self.last = search
        self._tell()
        return search

    def _quietly(self, search: Search) -> None:
        with contextlib.suppress(Exception):  # noted for the board before it was raised
            self.find(search)


def _other(search: Search, program: Any, mesh: Any) -> str:
    """What is another than a search was for: "program", "mesh" or "machine"; "" where all is the same."""
    if program is not search.program:
        return "program"
    return "" if mesh == search.mesh else "mesh" if mesh.axes != search.mesh.axes else "machine"
