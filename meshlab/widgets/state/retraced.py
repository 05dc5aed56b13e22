"""The programs of an Explorer: the one that was traced, and it with dims of other sizes and names.

    programs.at(document)        its program; the function is traced again where a size is new
    tracer.begin(document, …)    does so in the background, and then goes on

A program of other sizes is kept, so that undo and redo are immediate.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from ...engine.code.operations import walk
from ...engine.errors import MeshlabError
from .document import Document
from .intents import Accepted, Outcome, Refused

TRACING, DONE, REFUSED, CANCELLED = "tracing", "done", "refused", "cancelled"
_FIX = "Take sizes from the arguments in that line, `x.shape` or `x.dims`, or resize the other dim by itself first."


class Programs:
    """The programs of one Explorer.

    Args:
        traced: the program that it was opened with.

    Attributes:
        operations: how many that has.
    """

    def __init__(self, traced: Any):
        self.traced = traced
        self.operations = sum(1 for _ in walk(traced.code.block))
        self._resized: dict[Any, Any] = {(): traced}
        self._all: dict[Any, Any] = {((), ()): traced}

    def known(self, document: Document) -> bool:
        """Says whether the program of a document is there, without tracing."""
        return document.resized in self._resized

    def normal(self, document: Document) -> Document:
        """Returns a document without the new sizes that are those that the program was traced with."""
        sizes = self.traced.dims
        resized = tuple((name, size) for name, size in document.resized if sizes.get(name) != size)
        return dataclasses.replace(document, resized=resized)

    def at(self, document: Document) -> Any:
        key = document.resized, document.renamed
        if key not in self._all:
            if document.resized not in self._resized:
                self._resized[document.resized] = self.traced.resize(**dict(document.resized))
            program = self._resized[document.resized]
            self._all[key] = program.rename(dict(document.renamed)) if document.renamed else program
        return self._all[key]


@dataclasses.dataclass(eq=False)
class Tracing:
    """A program that is being traced again.

    Attributes:
        sizes: the new sizes, as text: "batch=128".
        phase: "tracing", "done", "refused" or "cancelled".
        outcome: the answer, once it is there.
        ended: is set when it is.
    """

    sizes: str
    phase: str = TRACING
    outcome: Outcome | None = None
    ended: threading.Event = dataclasses.field(default_factory=threading.Event)


class Tracer:
    """Traces programs again in the background, one at a time.

    Args:
        programs: the programs.
        lock: guards the Explorer.
        tell: called under the lock when a tracing begins or ends.

    Attributes:
        last: the latest tracing.
    """

    def __init__(self, programs: Programs, lock: threading.RLock, tell: Callable[[], Any]):
        self._programs, self._lock, self._tell = programs, lock, tell
        self.last: Tracing | None = None

    @property
    def active(self) -> bool:
        return self.last is not None and self.last.phase == TRACING

    def begin(self, document: Document, then: Callable[[], Outcome]) -> Refused | None:
        """Traces the program of a document in the background.

        Args:
            document: the document.
            then: carries out, under the lock, what was asked for.

        Returns:
            Why it is refused; None where it has begun.
        """
        if self.active:
            return Refused(
                "The program is being traced at other sizes.", "Wait for that, or cancel it: Undo.", code="tracing"
            )
        tracing = Tracing(", ".join(f"{name}={size:,}" for name, size in document.resized) or "its first sizes")
        self.last = tracing
        work = threading.Thread(target=self._work, args=(tracing, document, then), name="meshlab-trace", daemon=True)
        work.start()
        self._tell()
        return None

    def cancel(self) -> None:
        """Ends the present tracing; what it finds is not used."""
        if self.last is not None and self.active:
            self._end(self.last, CANCELLED, Refused("It was cancelled.", code="cancelled"))

    def _work(self, tracing: Tracing, document: Document, then: Callable[[], Outcome]) -> None:
        outcome: Outcome | None = None
        try:
            self._programs.at(document)
        except MeshlabError as error:
            outcome = Refused(str(error), _FIX, "sizes")
        except Exception as error:  # whatever the user's function does is shown on the board
            outcome = Refused(f"{type(error).__name__}: {error}", code="error")
        with self._lock:
            if tracing.phase == TRACING:
                outcome = then() if outcome is None else outcome
                self._end(tracing, DONE if isinstance(outcome, Accepted) else REFUSED, outcome)

    def _end(self, tracing: Tracing, phase: str, outcome: Outcome) -> None:
        tracing.phase, tracing.outcome = phase, outcome
        self._tell()
        tracing.ended.set()
