"""Searches for what each decision of Auto's layout costs otherwise: in the background, one at a time.

    searches.find(choice)          waits; `start` finds in the background
    searches.cancel()              what was found until then stays

What is found is of one `Choice`; whoever shows it asks whether that still holds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from ...auto import Choice
from ...auto.reasons.regrets import Regret
from ..documents.intents import Refused
from .searches import CANCELLED, FAILED, FOUND, SEARCHING


@dataclasses.dataclass(frozen=True, eq=False)
class RegretSearch:
    """A search for the regrets of a choice, as far as it has come.

    Attributes:
        choice: the choice.
        phase: "searching", "found", "failed" or "cancelled".
        regrets: all of them, as they are known so far; empty before the first was searched for.
        error: why it failed.
        stop: the event that ends it.
    """

    choice: Choice
    phase: str = SEARCHING
    regrets: tuple[Regret, ...] = ()
    error: str = ""
    stop: threading.Event = dataclasses.field(default_factory=threading.Event)


class RegretSearches:
    """The searches for regrets of one Explorer.

    Args:
        lock: guards the Explorer.
        tell: called under the lock when one has changed.

    Attributes:
        last: the latest.
    """

    def __init__(self, lock: threading.RLock, tell: Callable[[], Any]):
        self._lock, self._tell = lock, tell
        self.last: RegretSearch | None = None

    def of(self, choice: Choice | None) -> RegretSearch | None:
        """Returns the latest search if it is for a choice."""
        return self.last if self.last is not None and self.last.choice is choice else None

    def forget(self) -> None:
        """Cancels the present search, and forgets what it has found, with the plans of its choice."""
        with self._lock:
            if self.last is not None:
                self.last.stop.set()
            self.last = None

    def start(self, choice: Choice | None) -> Refused | None:
        """Searches in the background; returns a refusal where there is no choice, or it is searched already."""
        if choice is None:
            why = "There is no fastest layout for this board yet, so there are no decisions to search."
            return Refused(why, "Search for the fastest that fits first.", "nothing")
        with self._lock:
            if self._is_active():
                return Refused("Each decision is already being searched.", code="going_on")
            search = self._begin(choice)
        threading.Thread(target=self._quietly, args=(search,), name="meshlab-regrets", daemon=True).start()
        return None

    def find(self, choice: Choice) -> tuple[Regret, ...]:
        """Searches, and shows each regret that was searched for."""
        return self._find(self._begin(choice))

    def cancel(self) -> Refused | None:
        """Cancels the present search; returns a refusal where there is none."""
        with self._lock:
            if self.last is None or not self._is_active():
                return Refused("There is no search to cancel.", code="nothing")
            self.last.stop.set()
            self._show(self.last, phase=CANCELLED)
            return None

    def _is_active(self) -> bool:
        return self.last is not None and self.last.phase == SEARCHING

    def _begin(self, choice: Choice) -> RegretSearch:
        with self._lock:
            if self.last is not None:
                self.last.stop.set()
            self.last = RegretSearch(choice)
            self._tell()
            return self.last

    def _find(self, search: RegretSearch) -> tuple[Regret, ...]:
        try:
            found = search.choice.exact_regrets(
                progress=lambda regrets: self._show(search, regrets=regrets), cancel=search.stop
            )
        except Exception as error:
            self._show(search, phase=FAILED, error=str(error))
            raise
        self._show(search, phase=FOUND, regrets=found)
        return found

    def _show(self, search: RegretSearch, **changes: Any) -> None:
        with self._lock:
            last = self.last
            if last is not None and last.stop is search.stop and last.phase == SEARCHING:
                self.last = dataclasses.replace(last, **changes)
                self._tell()

    def _quietly(self, search: RegretSearch) -> None:
        with contextlib.suppress(Exception):  # noted for the board before it was raised
            self._find(search)
