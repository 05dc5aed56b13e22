"""The programs of an Explorer: those that were opened, and each with dims of other sizes and names.

    programs.at(document)        its program; the function is traced again where a size is new, or a model
    tracer.begin(document, …)    does so in the background, and then goes on

Programs are kept, so that undo and redo are immediate.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from ...api.stages import Program
from ...engine.code.operations import walk
from ...engine.errors import MeshlabError
from ..background.models import NO_MODELS, Model, Models
from .document import Document, check_program, fitted, read_document
from .intents import Accepted, Outcome, Refused

TRACING, DONE, REFUSED, CANCELLED = "tracing", "done", "refused", "cancelled"
_FIX = "Read sizes from the arguments in that line, with `x.shape` or `x.dims`, or resize the other dim first."


class Programs:
    """The programs of one Explorer.

    Args:
        traced: the program that it was opened with.
        models: the models that it can open besides.
    """

    def __init__(self, traced: Any, models: Models):
        self.models = models
        self._traced: dict[Model | None, Any] = {models.opened: traced}
        self._resized: dict[Any, Any] = {}
        self._all: dict[Any, Any] = {}
        self._operations: dict[Model | None, int] = {}

    def has(self, model: Model | None) -> bool:
        """Says whether a model is traced."""
        return model in self._traced

    def known(self, document: Document) -> bool:
        """Says whether the program of a document is there, without tracing."""
        return self.has(document.model) and (
            not document.resized or (document.model, document.resized) in self._resized
        )

    def traced(self, document: Document) -> Any:
        """Returns the program of a document as it was traced first; traces that where it is not there."""
        if not self.has(document.model):
            self._traced[document.model] = self.models.trace(document.model)
        return self._traced[document.model]

    def operations(self, document: Document) -> int:
        """Returns how many operations the program of a document has."""
        if document.model not in self._operations:
            self._operations[document.model] = sum(1 for _ in walk(self.traced(document).code.block))
        return self._operations[document.model]

    def read(self, text: str) -> Document:
        """Reads a document, of the program that it names, and makes it normal.

        Dims of a program that is not traced yet are checked once it is.
        """
        document = read_document(text)
        if document.model is None:
            document = dataclasses.replace(document, model=self.models.opened)
        return fitted(self.normal(document), self.traced(document)) if self.has(document.model) else document

    def normal(self, document: Document) -> Document:
        """Returns a document without the new sizes that are those that the program was traced with."""
        if not self.has(document.model):
            return document
        sizes = self.traced(document).dims
        resized = tuple((name, size) for name, size in document.resized if sizes.get(name) != size)
        return dataclasses.replace(document, resized=resized)

    def at(self, document: Document) -> Any:
        key = document.model, document.resized, document.renamed
        if key not in self._all:
            program, of_size = self.traced(document), (document.model, document.resized)
            if document.resized and of_size not in self._resized:
                self._resized[of_size] = program.resize(**dict(document.resized))
            program = self._resized.get(of_size, program)
            self._all[key] = program.rename(dict(document.renamed)) if document.renamed else program
        return self._all[key]


def document_of(text: str, program: Any, models: Models = NO_MODELS) -> Document:
    """Reads a document that was written for a program, or for a model that can be opened.

    Its dims are in the program's order; those of a model that is still to be traced are as they are written.
    """
    turned = " The text comes first." if isinstance(text, Program) else ""
    check_program("Explorer.from_json()", program, f"Explorer.from_json(text, ml.trace(fn, ...)).{turned}")
    document = read_document(text)
    if document.model is None:
        document = dataclasses.replace(document, model=models.opened)
    return fitted(document, program) if document.model == models.opened or models.find is None else document


@dataclasses.dataclass(eq=False)
class Tracing:
    """A program that is being traced again.

    Attributes:
        sizes: the new sizes, as text: "batch=128"; "" where it is another model.
        model: the name of the other model that is traced; "" where it is the same.
        phase: "tracing", "done", "refused" or "cancelled".
        outcome: the answer, once it is there.
        ended: is set when it is.
    """

    sizes: str
    model: str = ""
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
            return Refused("Another program is being traced.", "Wait, or cancel it with Undo.", code="tracing")
        tracing = Tracing(", ".join(f"{name}={size:,}" for name, size in document.resized) or "its first sizes")
        if document.model is not None and not self._programs.has(document.model):
            sizes = (f"{name}={size:,}" for name, size in (*document.model.sizes, *document.resized))
            tracing = Tracing(", ".join(sizes), document.model.name)
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
            outcome = Refused(str(error), "" if tracing.model else _FIX, "model" if tracing.model else "sizes")
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
