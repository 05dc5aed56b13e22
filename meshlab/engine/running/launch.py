"""Runs a Python file in several processes of this machine, and ends all of them when one fails.

    fault = launch(["train.py", "--steps", "10"], processes=4, devices=2)
    print(fault)        Process 2 of 4 was killed by SIGKILL, and the others were ended. Its last lines: …

JAX aborts or hangs the survivors of a process that has died, each after a time of its own; so this one stands outside
of them. It learns of an end, and of a process that is stopped, from the operating system, at once. Process 0 writes to
this process's streams; the others write to files, of which the last lines are shown where one of them fails.

Which process failed first? One that was killed has no time to say so, but no survivor is killed: its transport fails,
or JAX aborts it, and writes that it does. So other ends come before these two (`_Worker.rank`), and of two alike the
earlier one: each process writes down when it met its exception (`launched.py`), and the clock is the machine's. Where
only transport failed, the others waited for a process that had finished the file, and has written that down.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from .. import processes as joined

# A folder for what the processes write down, and a pipe of this process: a process ends when it is closed.
FOLDER, PIPE = "MESHLAB_RUN_FOLDER", "MESHLAB_RUN_PIPE"
# Seconds in which the cause of a failure is found, if another process has failed first.
_GRACE = 0.5
_LINES, _BYTES = 20, 2**16
# What JAX's transport says of every connection: its threads write it in pieces, which come between each other.
_NOISE = re.compile(
    r"\[Gloo\] Rank |\d* is connected to \d*| peer ranks\. |Expected number of connected peer ranks is : \d*"
)
# The first line of an abort by JAX.
_ABORT = re.compile(r"^[EF]\d{4} .*(?:coordination_service|client\.h:)", re.MULTILINE)
# How JAX ends a process; and how one has failed that finished the file, and the others did not.
_ABORTED = "was killed by SIGABRT"
_LEFT = "finished the file while others waited for it"
_IN_VAIN = f"finished the file, and waited {joined.ENDING} s in vain for others to finish it"


@dataclasses.dataclass(frozen=True)
class Fault:
    """Why a run has ended.

    Attributes:
        process: the number of the process that failed first.
        processes: how many there were.
        how: what happened to it: "was killed by SIGKILL", "ended with status 1".
        lines: the last lines that it wrote; None of process 0, which wrote to this process's streams.
    """

    process: int
    processes: int
    how: str
    lines: tuple[str, ...] | None

    def __str__(self):
        others = ", and the others were ended" if self.processes > 1 else ""
        text = f"Process {self.process} of {self.processes} {self.how}{others}."
        if self.lines is None:
            return f"{text} What it wrote is above."
        return "\n".join([f"{text} Its last lines:", *self.lines]) if self.lines else f"{text} It wrote nothing."


@dataclasses.dataclass(frozen=True)
class Notes:
    """The files in which a process writes down when it failed, that it has finished the file, and left the others.

    `finished` holds how many steps it had started by then with each other process (`processes.STARTED`).
    """

    failed: pathlib.Path
    finished: pathlib.Path
    left: pathlib.Path

    @classmethod
    def of(cls, folder: pathlib.Path, number: int) -> Notes:
        """Returns the files of one process."""
        return cls(*(folder / f"{word}-{number}" for word in ("failed", "finished", "left")))

    def write_failure(self, *, of_transport: bool) -> None:
        """Writes down that it fails now, and whether because its transport failed."""
        self.failed.write_text(f"{time.monotonic()} {of_transport:d}")

    def write_finished(self, started: Mapping[int, int]) -> None:
        """Writes down that it has finished the file, and what it has started with the others."""
        whole = self.finished.with_suffix(".part")
        whole.write_text(json.dumps(started))
        whole.rename(self.finished)

    def started_with(self, process: int) -> int | None:
        """Returns how many steps it has started with another process; None before it has finished the file."""
        if not self.finished.exists():
            return None
        return json.loads(self.finished.read_text()).get(str(process), 0)

    def failure(self) -> tuple[bool, float] | None:
        """Returns whether its transport failed, and when; None where it did not say so."""
        if not self.failed.exists():
            return None
        when, of_transport = self.failed.read_text().split()
        return of_transport == "1", float(when)


@dataclasses.dataclass
class _Worker:
    """A process that was started: what it writes to, and how it ended, once it has."""

    number: int
    process: subprocess.Popen[bytes]
    log: pathlib.Path | None
    notes: Notes
    how: str = ""
    seen: float = 0.0

    def watch(self, events: queue.SimpleQueue[_Worker]) -> None:
        """Waits until it has ended, or SIGSTOP has stopped it, which Ctrl-Z does not send."""
        while True:
            _, status = os.waitpid(self.process.pid, os.WUNTRACED)
            self.seen = time.monotonic()
            if not os.WIFSTOPPED(status):
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.how = self.how or self._end()
                break
            if os.WSTOPSIG(status) == signal.SIGSTOP and not self.how:
                self.how = "was stopped by SIGSTOP"
                events.put(self)
        events.put(self)

    @property
    def has_finished(self) -> bool:
        """Says whether it finished the file."""
        return self.notes.finished.exists()

    @property
    def rank(self) -> tuple[int, float]:
        """The less, the earlier it failed: by a signal, by itself, by an abort, by leaving others, because of them."""
        of_transport, when = self.notes.failure() or (False, self.seen)
        if self.how == _LEFT:
            return 3, self.notes.finished.stat().st_mtime
        if of_transport or (self.how == _ABORTED and _ABORT.search(self._written())):
            return 4, when
        if " by SIG" in self.how:
            return 2 if self.how == _ABORTED else 0, when
        return 1, when

    def _end(self) -> str:
        code = self.process.returncode
        if code == -signal.SIGABRT and self.has_finished:
            if time.time() - self.notes.finished.stat().st_mtime >= joined.ENDING:
                return _IN_VAIN
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with status {code}" if code else ""

    def _written(self) -> str:
        """The end of what it wrote to its file."""
        return "" if self.log is None else self.log.read_bytes()[-_BYTES:].decode(errors="replace")

    def last_lines(self) -> tuple[str, ...] | None:
        if self.log is None:
            return None
        text = self._written()
        if self.how in (_LEFT, _IN_VAIN):
            text = _ABORT.split(text, 1)[0]
        return tuple(_without_noise(text)[-_LINES:])

    def end(self) -> None:
        """Ends it, and the processes that it has started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def launch(command: Sequence[str], processes: int, devices: int) -> Fault | None:
    """Runs a file in several processes, which join by themselves, on simulated CPU devices.

    Args:
        command: the file and its arguments.
        processes: how many.
        devices: how many each of them has.

    Returns:
        Why the run has ended; None where every process ended well.
    """
    with tempfile.TemporaryDirectory(prefix="meshlab-run-") as folder:
        read, write = os.pipe()
        events: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        workers, threads = [], []
        try:
            environment = {joined.COORDINATOR: f"127.0.0.1:{_free_port()}", joined.COUNT: str(processes)}
            environment |= {joined.DEVICES: str(devices), FOLDER: folder, PIPE: str(read), "PYTHONUNBUFFERED": "1"}
            for number in range(processes):
                worker = _started(command, number, pathlib.Path(folder), environment, read)
                workers.append(worker)
                threads.append(threading.Thread(target=worker.watch, args=(events,), daemon=True))
                threads[-1].start()
            failed = list(_failed(events, processes))
            return _fault(failed, workers) if failed else None
        finally:
            for worker in workers:
                worker.end()
            for thread in threads:
                thread.join()
            os.close(read)
            os.close(write)


def _started(
    command: Sequence[str], number: int, folder: pathlib.Path, environment: dict[str, str], pipe: int
) -> _Worker:
    """Starts a process, in a session of its own: Ctrl-C in a terminal reaches the supervisor alone."""
    log = folder / f"log-{number}" if number else None
    stream: IO[bytes] | None = log.open("wb") if log else None
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "meshlab.engine.running.launched", *command],
            env={**os.environ, **environment, joined.NUMBER: str(number)},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            pass_fds=(pipe,),
            start_new_session=True,
        )
    finally:
        if stream is not None:
            stream.close()
    return _Worker(number, process, log, Notes.of(folder, number))


def _failed(events: queue.SimpleQueue[_Worker], processes: int) -> Iterator[_Worker]:
    """Yields the processes that have failed: the first one, and those that failed in the time around it."""
    for _ in range(processes):
        worker = events.get()
        if worker.how:
            yield worker
            break
    else:
        return
    until = time.monotonic() + _GRACE
    for _ in range(processes):
        try:
            worker = events.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return
        if worker.how:
            yield worker


def _fault(failed: Sequence[_Worker], workers: Sequence[_Worker]) -> Fault:
    left = [worker for worker in workers if worker.has_finished and worker.how in ("", _ABORTED)]
    if any(worker not in left for worker in failed):
        for worker in left:
            worker.how = _LEFT
    first = min((worker for worker in workers if worker.how), key=lambda worker: worker.rank)
    return Fault(first.number, len(workers), first.how, first.last_lines())


def _without_noise(text: str) -> list[str]:
    """Returns a text's lines without what Gloo says, of whose pieces only numbers are left."""
    lines = [(line, _NOISE.sub("", line)) for line in text.splitlines()]
    return [rest for line, rest in lines if rest == line or rest.strip(" 0123456789")]


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return tried.getsockname()[1]
