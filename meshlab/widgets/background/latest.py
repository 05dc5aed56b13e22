"""Jobs in the background, one after the other, of which the latest counts.

    jobs = Latest(lock, tell)
    job = jobs.begin("hidden", work)        in a thread; `tell` is called when it begins and when it ends
    job.wait()                              what `work` returns
    jobs.cancel()                           its result is not wanted any more

A job that computes in this process cannot be interrupted: one that was cancelled ends by itself, and its result is
dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ...engine.errors import MeshlabError
from .one_by_one import Background

WORKING, DONE, FAILED, CANCELLED = "working", "done", "failed", "cancelled"


class Job:
    """One job.

    Attributes:
        number: 1 for the first.
        of: what it is about.
        phase: "working", "done", "failed" or "cancelled".
        result: what came of it; None before that.
        error: why it failed.
        ended: is set when it has ended, or was cancelled.
    """

    def __init__(self, number: int, of: Any):
        self.number, self.of = number, of
        self.phase, self.error = WORKING, ""
        self.result: Any = None
        self.ended = threading.Event()

    def wait(self) -> Any:
        """Waits for the result.

        Raises:
            MeshlabError: it failed, or was cancelled.
        """
        self.ended.wait()
        if self.phase != DONE:
            raise MeshlabError(self.error or "This was cancelled.")
        return self.result


class Latest:
    """The jobs of one kind of one Explorer.

    Args:
        lock: guards the Explorer.
        tell: called under the lock when a job begins or ends, and when none counts any more.

    Attributes:
        last: the latest job; None where there is none, or it is forgotten.
    """

    def __init__(self, lock: threading.RLock, tell: Callable[[], Any]):
        self._lock, self._tell = lock, tell
        self._background = Background()
        self._count = 0
        self.last: Job | None = None

    def begin(self, of: Any, work: Callable[[], Any]) -> Job:
        """Begins a job in place of the one before."""
        with self._lock:
            if self.last is not None:
                self._end(self.last, CANCELLED)
            self._count += 1
            self.last = job = Job(self._count, of)
            self._background.follow(job, lambda: self._work(job, work))
            self._tell()
            return job

    def cancel(self) -> bool:
        """Cancels the latest job, and says whether it was going on."""
        with self._lock:
            ended = self.last is not None and self._end(self.last, CANCELLED)
            if ended:
                self._tell()
            return ended

    def forget(self) -> None:
        """Forgets the latest job with its result."""
        with self._lock:
            if self.last is not None:
                self._end(self.last, CANCELLED)
                self.last = None
                self._tell()

    def _work(self, job: Job, work: Callable[[], Any]) -> None:
        if job.phase != WORKING:
            return
        phase, result, error = DONE, None, ""
        try:
            result = work()
        except MeshlabError as raised:
            phase, error = FAILED, str(raised)
        except Exception as raised:  # whatever the machine does is shown on the board
            phase, error = FAILED, f"{type(raised).__name__}: {raised}"
        with self._lock:
            if self._end(job, phase, result, error):
                self._tell()

    def _end(self, job: Job, phase: str, result: Any = None, error: str = "") -> bool:
        """Ends a job that is going on, and says whether it was."""
        if job.phase != WORKING:
            return False
        job.phase, job.result, job.error = phase, result, error
        job.ended.set()
        return True
