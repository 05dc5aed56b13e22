"""Costs of documents, computed once for each; in the background where that takes long.

    costing.of(document)       waits for it: for scripts, figures and snapshots
    costing.soon(document)     None while they are being computed; then `tell` is called
    costing.shown(document)    waits for it, and fails as `soon` does

A small program is costed with its new plan. A transformer takes a twentieth of a second, one whose layers are written
out takes seconds, and a drop on the board waits for neither: the board is drawn first, and costed then. Costs that are
known are given at once, whatever else is being computed.

Computing may fail: a machine of the user's own has odd figures, or meshlab has a bug. A board says so (`CostsFailed`)
and does not wait for costs that never come; `of` raises the error itself, with its traceback.
"""

from __future__ import annotations

import dataclasses
import threading
import time as clock
from collections.abc import Callable, Collection
from typing import Any, Generic, TypeVar

from ...cost.machines.hardware import HardwareError
from ...cost.peak_memory.memory import Memory
from ...cost.step_time.time import Time, time_of
from ...cost.workload.scenario import at_plan_sizes
from ...engine.gc_pause import no_collection
from ..background.one_by_one import Background
from .document import Document

# Costs are kept of so many documents: of those that were asked for last, and fewer of a large program. Python's search
# for garbage goes through all of them and stops all else meanwhile: of a Llama of 15,000 operations each has 95,000
# objects, and going through dozens of them takes longer than a drop waits.
MOST, LEAST, OPERATIONS = 32, 4, 30_000
# Seconds that a drop waits for its costs. What took longer last time comes later.
PATIENCE = 0.06
# Seconds for each operation of a program, of an EPYC's core: 2 for the costs of a Llama of 15,000.
EACH = 1.4e-4
# Seconds of one document's costs from which on a zone's price is its bytes and its work alone.
SLOW = 0.4

T = TypeVar("T")


class CostsFailed(HardwareError):
    """Costs of a layout that could not be computed; the text says why."""


@dataclasses.dataclass(frozen=True, eq=False)
class Costs:
    """Predicted costs of a document on its machine.

    Attributes:
        time: predicted seconds; None where a figure of the machine is missing.
        missing: which figure.
        memory: predicted bytes, where carried arguments are overwritten, as training runs and Auto counts.
        undonated_bytes: the peak where none are.
    """

    time: Time | None
    missing: str
    memory: Memory
    undonated_bytes: int


def costs_of(plan: Any, document: Document) -> Costs:
    """Predicts the costs of a plan, with all figures of them that are shown.

    Args:
        plan: a plan on a machine.
        document: the plan's document, which has the assumptions.
    """
    with no_collection():
        undonated: Memory = plan.memory.given(document.options.attention)
        memory, most = undonated.donated, undonated.peak_bytes
        _ = memory.peak_bytes, memory.parts, memory.timeline
        try:
            return Costs(time_of(at_plan_sizes(plan, document.options)), "", memory, most)
        except HardwareError as error:
            return Costs(None, str(error), memory, most)


class Costing(Generic[T]):
    """A cost of documents, computed once for each and kept.

    Args:
        plan_at: gives the plan of a document.
        work: computes it from a plan and its document; also an attribute.
        tell: called when the background has computed one.
        operations: how many the program has: a guess of the seconds that the first takes, and how many are kept.
        patience: seconds that a drawing waits for it; also an attribute.
        background: computes what takes longer.
        held: gives the documents on the board, whose costs are kept in any case.
        drop: called with a document whose costs are not kept any longer.
    """

    def __init__(
        self,
        plan_at: Callable[[Document], Any],
        work: Callable[[Any, Document], T],
        tell: Callable[[], Any],
        *,
        operations: int,
        patience: float,
        background: Background,
        held: Callable[[], Collection[Document]],
        drop: Callable[[Document], Any],
    ):
        self._plan_at, self.work, self._tell = plan_at, work, tell
        self._held, self._drop = held, drop
        self._known: dict[Document, T] = {}  # what was asked for last comes last
        self._failed: dict[Document, Exception] = {}
        self.patience, self._background = patience, background
        self.expect(operations)
        self._forgotten = 0  # how often
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()

    def expect(self, operations: int) -> None:
        """Guesses how long costs take of a program of so many operations, and how many can be kept."""
        self._kept = min(max(OPERATIONS // max(1, operations), LEAST), MOST)
        self._took = operations * EACH

    def forget(self):
        """Forgets everything, since a machine has changed; costs that are in flight are computed again."""
        with self._lock:
            self._known.clear()
            self._failed.clear()
            self._forgotten += 1

    def of(self, document: Document) -> T:
        """Returns the cost of a document, and waits for it."""
        document = document.unpinned
        while True:
            with self._lock:
                if document in self._known:
                    return self._touched(document)
                since = self._forgotten
            # Ahead of the lock: planning takes the lock of the Explorer, whose owner may wait for this one.
            plan = self._plan_at(document)
            with self._one_at_a_time:
                if document in self._known:
                    continue
                begin = clock.thread_time()
                cost = self.work(plan, document)
                dropped = self._keep(document, cost, since, clock.thread_time() - begin)
            for each in dropped:  # behind the lock, for the same reason
                self._drop(each)

    def _keep(self, document: Document, cost: T, since: int, took: float) -> list[Document]:
        """Keeps a cost, unless all was forgotten since it was asked for; returns whose costs are kept no longer."""
        held = self._held()
        with self._lock:
            self._took = took
            if since != self._forgotten:
                return []
            self._known[document] = cost
            old = [each for each in self._known if each not in held and each != document]
            dropped = old[: max(0, len(self._known) - self._kept)]
            for each in dropped:
                del self._known[each]
            return dropped

    def _touched(self, document: Document) -> T:
        self._known[document] = self._known.pop(document)
        return self._known[document]

    def known(self, document: Document) -> T | None:
        document = document.unpinned
        with self._lock:
            return self._touched(document) if document in self._known else None

    def soon(self, document: Document, aside: bool = False) -> T | None:
        """Returns the cost of a document if that is known or computed quickly; else None, and it follows.

        Args:
            document: the document.
            aside: whether it is another one than that on the board, which comes first.

        Raises:
            CostsFailed: it was asked for before, or computed now, and computing it failed.
        """
        document = document.unpinned
        if document in self._known or document in self._failed or self._took < self.patience:
            return self.shown(document)
        self._background.follow((self, aside), lambda: self._follow(document), idle=aside)
        return None

    def shown(self, document: Document) -> T:
        """Returns the cost of a document for a board, and waits for it; one that failed is not computed again.

        Raises:
            CostsFailed: computing it failed.
        """
        document = document.unpinned
        if document not in self._failed:
            try:
                return self.of(document)
            except Exception as error:  # whatever it is, a board shows it
                self._fail(document, error)
        error = self._failed[document]
        raise CostsFailed(
            f"The costs of this layout could not be predicted: {type(error).__name__}: {error}. The error is in the"
            " machine's figures or in meshlab; `explorer.time` raises it with its traceback."
        ) from error

    def _follow(self, document: Document) -> None:
        try:
            self.shown(document)
        finally:
            self._tell()

    def _fail(self, document: Document, error: Exception) -> None:
        with self._lock:
            self._failed[document] = error
            while len(self._failed) > MOST:
                self._failed.pop(next(iter(self._failed)))
