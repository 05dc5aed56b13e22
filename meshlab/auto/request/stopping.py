"""Stopping a search before it has ended.

    >>> cancel = threading.Event()
    >>> ml.auto.layout(program, mesh, cancel=cancel)      # raises Cancelled soon after cancel.set()

    >>> ml.auto.layout(program, mesh, stop=stop)          # returns the best so far soon after stop.set()

A search looks at both between any two plans and programs. The solver is another process, which PuLP starts and does
not hand out: a search that is cancelled meanwhile ends at once, and what the solver says later is dropped.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from ...engine.errors import MeshlabError, shown
from ...engine.running.compiler_process import Cancel

# Seconds between two looks at whether to stop, while the solver works.
_LOOK = 0.02


class Cancelled(MeshlabError):
    """The error of a search that was stopped before it had ended."""


@dataclasses.dataclass(frozen=True)
class Watch:
    """Watches whether a search is to stop; without events it never is.

    Attributes:
        cancel: once it is set, nothing is wanted of the search.
        stop: once it is set, the best so far is.
    """

    cancel: Cancel | None = None
    stop: Cancel | None = None

    def __post_init__(self):
        for name, event in (("cancel", self.cancel), ("stop", self.stop)):
            if event is not None and not callable(getattr(event, "is_set", None)):
                raise MeshlabError(
                    f"ml.auto.layout() was given {name}={shown(event)}; give a threading.Event, say, or None."
                )

    @property
    def is_enough(self) -> bool:
        """Whether the best so far is the answer."""
        return self.stop is not None and self.stop.is_set()

    def check(self):
        """Raises `Cancelled` where it is time to stop."""
        if self.cancel is not None and self.cancel.is_set():
            raise Cancelled("ml.auto.layout() was cancelled before it had found the best layout.")

    def through(self, work: Callable[[], Any]) -> None:
        """Does some work, or leaves it to itself where the search is cancelled meanwhile.

        Args:
            work: it keeps what it needs for as long as it runs.
        """
        self.check()
        if self.cancel is None:
            work()
            return
        ended, raised = threading.Event(), []

        def run():
            try:
                work()
            except BaseException as error:
                raised.append(error)
            finally:
                ended.set()

        threading.Thread(target=run, name="meshlab-solver", daemon=True).start()
        while not ended.wait(_LOOK):
            self.check()
        if raised:
            raise raised[0]


NEVER = Watch()
