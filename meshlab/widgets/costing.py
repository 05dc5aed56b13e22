"""What the documents of an Explorer cost, worked out once for each; in the background where that takes long.

    costing.of(document)       waits for it: for scripts, figures and snapshots
    costing.soon(document)     None while it is being worked out; whoever draws is told when it is there

A small program is costed with its new plan. A transformer takes a twentieth of a second, one whose layers are written
out takes seconds, and for neither does a board wait that has been dropped on: it is drawn first, and costed then.
"""

from __future__ import annotations

import dataclasses
import threading
import time as clock
from collections.abc import Callable
from typing import Any

from ..cost.hardware import HardwareError
from ..cost.memory import Memory
from ..cost.setting import own
from ..cost.time import Time, time_of
from ..engine.pause import no_collection
from .document import Document

KEPT = 64
# Seconds that a drop waits for, and the price of one that is not made yet; what took longer last time comes later.
PATIENCE, PREVIEW = 0.02, 0.3
# Seconds that whoever draws has first, since two threads at once take longer for both.
AHEAD = 0.03
# Seconds for each operation of a program: 2 for a Llama of 15,000, on one core of an EPYC.
EACH = 1.4e-4


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
        _ = memory.peak_bytes, memory.donated.peak_bytes, memory.parts, memory.timeline
        try:
            return Costs(time_of(own(plan, document.options)), "", memory)
        except HardwareError as error:
            return Costs(None, str(error), memory)


class Costing:
    """The costs of documents, as far as they are known.

    Args:
        plan_at: gives the plan of a document.
        tell: called when costs are there for which nobody has waited.
        operations: how many the program has, from which it is guessed how long the first one takes.
    """

    def __init__(self, plan_at: Callable[[Document], Any], tell: Callable[[], Any], operations: int):
        self._plan_at, self._tell = plan_at, tell
        self._known: dict[Document, Costs] = {}
        self._wanted: Document | None = None
        self._busy = False
        self._took = operations * EACH
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()

    def forget(self):
        """Forgets everything, for machines are others now."""
        self._known.clear()

    def of(self, document: Document) -> Costs:
        """Returns what a document with a machine costs."""
        plan = self._plan_at(document)
        with self._one_at_a_time:
            found = self._known.get(document)
            if found is None:
                begin = clock.thread_time()
                found = self._known[document] = costs_of(plan, document)
                self._took = clock.thread_time() - begin
                while len(self._known) > KEPT:
                    self._known.pop(next(iter(self._known)))
            return found

    def soon(self, document: Document) -> Costs | None:
        """Returns what a document costs if that is known or found out quickly; else None, and it is worked on."""
        if document in self._known or self._took < PATIENCE:
            return self.of(document)
        with self._lock:
            self._wanted = document
            if not self._busy:
                self._busy = True
                threading.Thread(target=self._work, daemon=True).start()
        return None

    def quickly(self, document: Document) -> Costs | None:
        """Returns what a document costs if that is known or found out quickly; else None."""
        return self.of(document) if document in self._known or self._took < PREVIEW else None

    def _work(self):
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
                self._busy = False  # the next that asks begins anew
                raise
            self._tell()
