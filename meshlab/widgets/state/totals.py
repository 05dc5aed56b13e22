"""The totals of a layout: what the score line shows of the present one, and the comparison of each that was tried.

    totals.now(document)       what is known at once of the document on the board
    totals.of(document)        all of it; waits
    totals.follow(documents)   in the background, when nothing else is computed there; then `tell` is called

Bytes and work are read off the plan; the step and its peak are those of the one estimate that the board has
(`costing`), so no total is told twice with different numbers.
"""

from __future__ import annotations

import dataclasses
import threading
import time as clock
from collections.abc import Callable, Sequence
from typing import Any

from ..background.one_by_one import Background
from ..background.quiet import QUIET
from ..documents.costing import Costing, Costs, CostsFailed
from ..documents.document import Document

KEPT = 256
# Seconds of work after which the background shows what it has, and lets others in.
STRETCH = 0.15


def executed(plan: Any) -> int:
    """Counts the collectives that one step executes."""
    return sum(int(c.times) for c in plan.collectives)


@dataclasses.dataclass(frozen=True)
class Totals:
    """The totals of a document.

    Attributes:
        wire_bytes: sent by each device in a step.
        argument_bytes: of all arguments on one device.
        work: the share of a step's matmuls that one device computes.
        collectives: how many one step executes.
        seconds: the predicted step; None without a machine, where a figure of it is missing, or predicting it failed.
        peak_bytes: the predicted peak memory of a device, with arguments donated; None without a machine, or where
            predicting it failed.
        fits: whether that fits a device.
    """

    wire_bytes: int
    argument_bytes: int
    work: float
    collectives: int
    seconds: float | None = None
    peak_bytes: int | None = None
    fits: bool | None = None


def totals_of(plan: Any, costs: Costs | None) -> Totals:
    """Returns the totals of a plan, with those that depend on its machine where its costs are given."""
    totals = Totals(round(plan.wire_bytes), int(plan.stored.argument_bytes), plan.work.share, executed(plan))
    if costs is None:
        return totals
    seconds = None if costs.time is None else float(costs.time.estimate)
    memory = costs.memory
    return dataclasses.replace(totals, seconds=seconds, peak_bytes=int(memory.peak_bytes), fits=memory.fits)


class KnownTotals:
    """The totals of documents, computed once for each and kept.

    Args:
        plan_at: gives the plan of a document.
        costing: gives its costs.
        background: computes what is not known.
        tell: called when the background has computed some.
    """

    def __init__(
        self,
        plan_at: Callable[[Document], Any],
        costing: Costing[Costs],
        background: Background,
        tell: Callable[[], Any],
    ):
        self._plan_at, self._costing, self._background, self._tell = plan_at, costing, background, tell
        self._known: dict[Document, Totals] = {}
        self._forgotten = 0  # how often
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Forgets everything, since a machine has changed."""
        with self._lock:
            self._known.clear()
            self._forgotten += 1

    def known(self, document: Document) -> Totals | None:
        return self._known.get(document)

    def now(self, document: Document) -> Totals:
        """Returns the totals of the document on the board; without step and peak while these are computed."""
        since, known = self._forgotten, self.known(document)
        if known is not None:
            return known
        costs = self._costing.known(document) if document.machine else None
        totals = totals_of(self._plan_at(document), costs)
        if costs is not None or document.machine is None:
            self._keep(document, totals, since)
        return totals

    def of(self, document: Document) -> Totals:
        """Returns the totals of a document, and waits for them; where its costs fail, those of its plan alone."""
        since, known = self._forgotten, self.known(document)
        if known is not None:
            return known
        try:
            costs = self._costing.shown(document) if document.machine else None
        except CostsFailed:
            costs = None
        totals = totals_of(self._plan_at(document), costs)
        self._keep(document, totals, since)
        return totals

    def follow(self, documents: Sequence[Document]) -> None:
        """Has the totals of documents computed that are not known, the first one first."""
        if not all(document in self._known for document in documents):
            self._background.follow(self, lambda: self._more(documents), idle=True)

    def _more(self, documents: Sequence[Document]) -> None:
        begin = clock.monotonic()
        for document in documents:
            if document not in self._known:
                QUIET.wait()
                self.of(document)
                if clock.monotonic() - begin > STRETCH:
                    break
        self._tell()
        self.follow(documents)

    def _keep(self, document: Document, totals: Totals, since: int) -> None:
        with self._lock:
            if since != self._forgotten:
                return
            self._known[document] = totals
            while len(self._known) > KEPT:
                self._known.pop(next(iter(self._known)))
