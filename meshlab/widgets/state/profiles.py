"""Measures the step of the layout on the board, in the background: what `plan.profile` reports of it.

    profiles.measure(document, plan)
    profiles.here(document)             the Profile, where the board shows what was measured; else None

A measured step is of one layout on one mesh. On another one it is not shown, and comes back with its layout.
"""

from __future__ import annotations

import dataclasses
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


class Profiles(Latest):
    """The measured steps of one Explorer, one at a time, each of a document; the result of each is a `Profile`."""

    @property
    def working(self) -> bool:
        """Whether a step is being measured."""
        return self.last is not None and self.last.phase == WORKING

    def measure(self, document: Document, plan: Any, args: tuple[Any, ...] = (), runs: Any = RUNS) -> Job:
        """Begins to measure the step of a plan, by arguments of it, or else by random ones."""
        return self.begin(measured_as(document), lambda: plan.profile(*args, runs=runs))

    def here(self, document: Document) -> Profile | None:
        """Returns what was measured of a document; None where that is of another one."""
        job = self.last
        return job.result if job is not None and job.phase == DONE and job.of == measured_as(document) else None
