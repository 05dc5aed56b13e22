"""Measures the step of the layout on the board, in the background: what `plan.profile` reports of it.

    profiles.begin(document, plan)
    profiles.here(document)             the Profile, where the board shows what was measured; else None

A measured step is of one layout on one mesh. On another one it is not shown, and comes back with its layout.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from ...api.profile import Profile
from ...cost.workload.options import USUAL
from ..background.latest import DONE, WORKING, Job, Latest
from ..documents.document import Document

# How often the step is run to be measured, unless a script says otherwise.
RUNS = 5


def measured_as(document: Document) -> Document:
    """Returns the document without what does not change how the step runs: what a cost model or a search assumes."""
    return dataclasses.replace(document.unpinned, options=USUAL)


class Profiles:
    """The measured steps of one Explorer, one at a time.

    Args:
        lock: guards the Explorer.
        tell: called under the lock when one begins or ends.
    """

    def __init__(self, lock: threading.RLock, tell: Callable[[], Any]):
        self._jobs = Latest(lock, tell)

    @property
    def last(self) -> Job | None:
        """The latest one, of a document; its result is a `Profile`."""
        return self._jobs.last

    @property
    def working(self) -> bool:
        """Whether a step is being measured."""
        return self.last is not None and self.last.phase == WORKING

    def begin(self, document: Document, plan: Any, args: tuple[Any, ...] = (), runs: Any = RUNS) -> Job:
        """Begins to measure the step of a plan, by arguments of it, or else by random ones."""
        return self._jobs.begin(measured_as(document), lambda: plan.profile(*args, runs=runs))

    def here(self, document: Document) -> Profile | None:
        """Returns what was measured of a document; None where that is of another one."""
        job = self.last
        return job.result if job is not None and job.phase == DONE and job.of == measured_as(document) else None

    def cancel(self) -> bool:
        """Stops measuring, and says whether something was measured."""
        return self._jobs.cancel()

    def forget(self) -> None:
        """Forgets what was measured: another model is on the board."""
        self._jobs.forget()
