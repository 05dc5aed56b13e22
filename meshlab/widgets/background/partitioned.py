"""What XLA's own partitioner makes of the layout on the board, compiled in the background.

    partitioned.begin()         begins; `tell` is called each second, and when it is done
    partitioned.wait().beside   waits: the plan beside XLA's program

It is compiled in a process of its own, for as many simulated CPU devices. What was compiled is kept, by the document
that it is of.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from ...engine.errors import MeshlabError
from ...engine.running.compiler_process import Progress
from ...own.report import Report, explain
from .one_by_one import Background

WORKING, DONE, CANCELLED = "working", "done", "cancelled"
# So many programs are kept.
KEPT = 6


@dataclasses.dataclass(frozen=True, eq=False)
class Compiling:
    """A layout that XLA's partitioner was asked for.

    Attributes:
        document: that it is of.
        phase: "working", "done" or "cancelled".
        stage: what is being done.
        seconds: since it began.
        report: what came of it; None before that.
        error: why there is none.
        stop: the event that ends it.
        ended: is set when it has ended.
    """

    document: Any
    phase: str = WORKING
    stage: str = "starting"
    seconds: float = 0.0
    report: Report | None = None
    error: str = ""
    stop: threading.Event = dataclasses.field(default_factory=threading.Event)
    ended: threading.Event = dataclasses.field(default_factory=threading.Event)


class Partitioned:
    """What XLA makes of one Explorer's layouts.

    Args:
        present: gives the document on the board.
        plan: gives its plan.
        lock: guards the Explorer.
        tell: called under the lock when there is more to show.
    """

    def __init__(
        self, present: Callable[[], Any], plan: Callable[[], Any], lock: threading.RLock, tell: Callable[[], Any]
    ):
        self._present, self._plan, self._lock, self._tell = present, plan, lock, tell
        self._background = Background()
        self._last: Compiling | None = None
        self._known: dict[Any, Compiling] = {}

    @property
    def last(self) -> Compiling | None:
        """What was asked for last, or is known already, of the document that is on the board."""
        document, last = self._present(), self._last
        return last if last is not None and last.document == document else self._known.get(document)

    def begin(self) -> Compiling:
        """Compiles the layout on the board in the background, unless it is known."""
        with self._lock:
            last, document = self.last, self._present()
            if last is not None and (last.phase == WORKING or last.report is not None):
                return last
            if self._last is not None:
                self._last.stop.set()
            self._last = compiling = Compiling(document)
            plan = self._plan()
            self._background.follow(compiling, lambda: self._work(compiling, plan))
            self._tell()
            return compiling

    def wait(self) -> Report:
        """Compiles the layout on the board, and waits for it.

        Raises:
            MeshlabError: XLA does not take the layout, refuses the program, or was cancelled.
        """
        compiling = self.begin()
        compiling.ended.wait()
        with self._lock:
            ended = self._known.get(compiling.document)
            if ended is None and self._last is not None and self._last.stop is compiling.stop:
                ended = self._last
        if ended is not None and ended.report is not None:
            return ended.report
        raise MeshlabError(ended.error if ended is not None and ended.error else "Compiling was cancelled.")

    def cancel(self) -> bool:
        """Stops compiling, and says whether something was being compiled."""
        with self._lock:
            last = self._last
            if last is None or last.phase != WORKING:
                return False
            last.stop.set()
            self._show(last, phase=CANCELLED)
            return True

    def _work(self, compiling: Compiling, plan: Any) -> None:
        def further(progress: Progress) -> None:
            self._show(compiling, stage=progress.stage, seconds=progress.seconds)

        try:
            if not compiling.stop.is_set():
                report = explain(plan, progress=further, cancel=compiling.stop)
                _ = report.beside  # here, and not under the lock
                self._show(compiling, phase=DONE, report=report)
        except Exception as error:  # shown in Traffic
            self._show(compiling, phase=DONE, error=str(error))
        finally:
            compiling.ended.set()

    def _show(self, compiling: Compiling, **changes: Any) -> None:
        """Changes what is shown, unless it was cancelled or another was asked for; keeps what is done."""
        with self._lock:
            last = self._last
            if last is None or last.stop is not compiling.stop or last.phase != WORKING:
                return
            self._last = last = dataclasses.replace(last, **changes)
            if last.report is not None:
                self._known[last.document] = last
                while len(self._known) > KEPT:
                    self._known.pop(next(iter(self._known)))
            self._tell()
