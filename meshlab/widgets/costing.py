"""What is worked out of documents, once for each; in the background where that takes long.

    costing.of(document)       waits for it: for scripts, figures and snapshots
    costing.soon(document)     None while it is being worked out; whoever draws is told when it is there

A small program is costed with its new plan. A transformer takes a twentieth of a second, one whose layers are written
out takes seconds, and for neither does a board wait that has been dropped on: it is drawn first, and costed then. What
is known is given at once, whatever else is being worked out.
"""

from __future__ import annotations

import dataclasses
import threading
import time as clock
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..cost.hardware import HardwareError
from ..cost.memory import Memory
from ..cost.setting import STORED, own
from ..cost.time import Time, time_of
from ..engine.pause import no_collection
from .document import Document

KEPT = 64
# Seconds that a drop waits for, and the price of one that is not made yet; what took longer last time comes later.
PATIENCE, PREVIEW = 0.02, 0.3
# Seconds that whoever draws has first, since two threads at once take longer for both; and that a next drop may take
# until the costs of this one are wanted no longer.
AHEAD = 0.1
# Seconds for each operation of a program, of an EPYC's core: 2 for the costs of a Llama of 15,000, and 0.05 for what
# it holds by the convention of `meshlab.auto`.
EACH, EACH_HELD = 1.4e-4, 3e-6

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, eq=False)
class Costs:
    """What a document costs on its machine.

    Attributes:
        time: predicted seconds; None where a figure of the machine is missing.
        missing: which figure.
        memory: predicted bytes.
    """

    time: Time | None
    missing: str
    memory: Memory


def costs_of(plan: Any, document: Document) -> Costs:
    """Works out what a plan costs; all that is shown of it is worked out now.

    Args:
        plan: a plan on a machine.
        document: of which it is the plan, and which says how it is assumed to run.
    """
    with no_collection():
        memory: Memory = plan.memory
        if document.options.attention != STORED:
            memory = memory.given(document.options.attention)
        _ = memory.peak_bytes, memory.donated.peak_bytes, memory.parts, memory.timeline
        try:
            return Costs(time_of(own(plan, document.options)), "", memory)
        except HardwareError as error:
            return Costs(None, str(error), memory)


def held_of(plan: Any, document: Document) -> int:
    """Returns the most bytes that one device holds at once, as `ml.auto` counts them for the objective "memory"."""
    from ..auto.ledger import planned_peak  # noqa: PLC0415  loaded when a search is shown

    return planned_peak(plan)


class Costing(Generic[T]):
    """What is worked out of documents, as far as it is known.

    Args:
        plan_at: gives the plan of a document.
        work: works it out of a plan and its document.
        tell: called when something is there for which nobody has waited.
        took: seconds that the first is guessed to take.
    """

    def __init__(
        self,
        plan_at: Callable[[Document], Any],
        work: Callable[[Any, Document], T],
        tell: Callable[[], Any],
        took: float,
    ):
        self._plan_at, self._work, self._tell = plan_at, work, tell
        self._known: dict[Document, T] = {}
        self._wanted: Document | None = None
        self._busy = False
        self._took = took
        self._forgotten = 0  # how often
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()

    def forget(self):
        """Forgets everything, for machines are others now; what is being worked out is worked out anew."""
        with self._lock:
            self._known.clear()
            self._forgotten += 1

    def of(self, document: Document) -> T:
        """Returns what is worked out of a document; of costs, it is one with a machine."""
        while True:
            with self._lock:
                if document in self._known:
                    return self._known[document]
                since = self._forgotten
            # Before it is this one's turn: whoever asks for plans may hold a lock that another one's turn waits for.
            plan = self._plan_at(document)
            with self._one_at_a_time:
                if document in self._known:
                    continue
                begin = clock.thread_time()
                found = self._work(plan, document)
                self._keep(document, found, since, clock.thread_time() - begin)

    def _keep(self, document: Document, found: T, since: int, took: float):
        """Keeps what was found, unless all was forgotten since it was asked for."""
        with self._lock:
            self._took = took
            if since != self._forgotten:
                return
            self._known[document] = found
            while len(self._known) > KEPT:
                self._known.pop(next(iter(self._known)))

    def soon(self, document: Document) -> T | None:
        """Returns what is worked out of a document if that is known or found out quickly; else None, and it follows."""
        if document in self._known or self._took < PATIENCE:
            return self.of(document)
        with self._lock:
            self._wanted = document
            if not self._busy:
                self._busy = True
                threading.Thread(target=self._follow, daemon=True).start()
        return None

    def quickly(self, document: Document) -> T | None:
        """Returns what is worked out of a document if that is known or found out quickly; else None."""
        return self.of(document) if document in self._known or self._took < PREVIEW else None

    def _follow(self):
        """Works out what is wanted last, until nothing is."""
        while True:
            clock.sleep(AHEAD)
            with self._lock:
                document, self._wanted = self._wanted, None
                if document is None:
                    self._busy = False
                    return
            try:
                self.of(document)
            except BaseException:
                with self._lock:
                    self._busy = False  # the next that asks begins anew
                raise
            self._tell()
