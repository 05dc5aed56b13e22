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

from ...auto.mesh_tf_ledger import planned_peak
from ...cost.machines.hardware import HardwareError
from ...cost.peak_memory.memory import Memory
from ...cost.step_time.time import Time, time_of
from ...cost.workload.setting import STORED, own
from ...engine.gc_pause import no_collection
from .document import Document

KEPT = 64
# Seconds that a drop waits for its costs, and for what is held beside Auto's layout; and that the price of one waits
# which is not made yet. What took longer last time comes later.
PATIENCE, PATIENCE_LIVE, PREVIEW = 0.02, 0.002, 0.3
# Seconds that whoever draws has first, since two threads at once take longer for both; and that a next drop may take
# until the costs of this one are wanted no longer.
AHEAD = 0.1
# Seconds for each operation of a program, of an EPYC's core: 2 for the costs of a Llama of 15,000, and 0.05 for what
# it holds by the convention of `meshlab.auto`.
EACH, EACH_LIVE = 1.4e-4, 3e-6

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


def live_bytes_of(plan: Any, document: Document) -> int:
    """Returns the most live bytes of a device, as `ml.auto` counts them for the objective "memory"."""
    return planned_peak(plan)


class Costing(Generic[T]):
    """What is worked out of documents, as far as it is known.

    Args:
        plan_at: gives the plan of a document.
        work: works it out of a plan and its document.
        tell: called when something is there for which nobody has waited.
        took: seconds that the first is guessed to take.
        patience: seconds that whoever draws waits for it.
        background: does what nobody waits for.
    """

    def __init__(
        self,
        plan_at: Callable[[Document], Any],
        work: Callable[[Any, Document], T],
        tell: Callable[[], Any],
        *,
        took: float,
        patience: float,
        background: Background,
    ):
        self._plan_at, self._work, self._tell = plan_at, work, tell
        self._known: dict[Document, T] = {}
        self._took, self._patience, self._background = took, patience, background
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
        if document in self._known or self._took < self._patience:
            return self.of(document)
        self._background.follow(self, lambda: (self.of(document), self._tell()))
        return None

    def quickly(self, document: Document) -> T | None:
        """Returns what is worked out of a document if that is known or found out quickly; else None."""
        return self.of(document) if document in self._known or self._took < PREVIEW else None


class Background:
    """Does what is to follow, one thing after the other, in a thread that ends when there is nothing more to do."""

    def __init__(self):
        self._wanted: dict[Any, Callable[[], Any]] = {}
        self._busy = False
        self._lock = threading.Lock()

    def follow(self, who: Any, action: Callable[[], Any]) -> None:
        """Has something done soon, in place of what the same one wanted before and has not been begun."""
        with self._lock:
            self._wanted[who] = action
            if not self._busy:
                self._busy = True
                threading.Thread(target=self._work, name="meshlab-costs", daemon=True).start()

    def _work(self):
        while True:
            clock.sleep(AHEAD)
            with self._lock:
                if not self._wanted:
                    self._busy = False
                    return
                action = self._wanted.pop(next(iter(self._wanted)))
            try:
                action()
            except BaseException:
                with self._lock:
                    self._busy = False  # the next that asks begins anew
                raise
