"""Keeps a compiler's process for the next program, since most of the time of a small one is that of its start.

One process of each kind waits, for a minute: then it ends, for it holds some hundred megabytes.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import pathlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Hashable, Mapping, Sequence

# For how many seconds a process waits for the next program.
WAITS = 60.0
# How the variables begin that Python, JAX and XLA read: processes that differ in others are of one kind.
_READ = ("HOME", "JAX", "LD_", "PATH", "PYTHON", "TF_", "TMPDIR", "XLA")


@dataclasses.dataclass(eq=False)
class Started:
    """A process that compiles the program in each folder that it is asked about (`compile_worker.serve`).

    Attributes:
        kind: equal for processes of which one serves as well as another.
        running: the process.
        home: the folder where it runs, of its own: nothing that lies where the notebook runs is imported there.
    """

    kind: Hashable
    running: subprocess.Popen[bytes]
    home: tempfile.TemporaryDirectory[str]

    @classmethod
    def new(cls, command: Sequence[str], environment: Mapping[str, str]) -> Started:
        """Starts a process.

        Args:
            command: what Python runs.
            environment: all of its variables.
        """
        home = tempfile.TemporaryDirectory(prefix="meshlab-")
        with pathlib.Path(home.name, "log").open("wb") as log:
            running = subprocess.Popen(
                [sys.executable, *command],
                cwd=home.name,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # An interrupt from the keyboard reaches this process alone, which then ends that one.
                start_new_session=True,
            )
        return cls(_kind(command, environment), running, home)

    @property
    def log(self) -> pathlib.Path:
        """What it has written."""
        return pathlib.Path(self.home.name, "log")

    def ask(self, folder: pathlib.Path) -> None:
        """Names a folder to it; one that has ended does not hear it."""
        assert self.running.stdin
        with contextlib.suppress(BrokenPipeError):
            self.running.stdin.write(f"{folder}\n".encode())
            self.running.stdin.flush()

    def end(self) -> None:
        """Ends it, and removes its folder."""
        self.running.kill()
        with contextlib.suppress(BrokenPipeError):
            self.running.communicate()
        self.home.cleanup()


_kept: dict[Hashable, Started] = {}
_lock = threading.Lock()


def taken(command: Sequence[str], environment: Mapping[str, str]) -> Started | None:
    """Takes the process of a kind that waits, if one does."""
    with _lock:
        started = _kept.pop(_kind(command, environment), None)
    if started is None or started.running.poll() is None:
        return started
    started.end()
    return None


def put(started: Started) -> None:
    """Lets a process wait for the next program, in place of the one that waits, if one does."""
    with _lock:
        before, _kept[started.kind] = _kept.get(started.kind), started
    if before:
        before.end()
    ending = threading.Timer(WAITS, _end_if_kept, (started,))
    ending.daemon = True
    ending.start()


def waiting() -> tuple[Started, ...]:
    """Those that wait."""
    with _lock:
        return (*_kept.values(),)


@atexit.register
def end_all() -> None:
    """Ends all that wait."""
    with _lock:
        ended = [*_kept.values()]
        _kept.clear()
    for started in ended:
        started.end()


def _end_if_kept(started: Started) -> None:
    with _lock:
        waits = _kept.get(started.kind) is started
        if waits:
            del _kept[started.kind]
    if waits:
        started.end()


def _kind(command: Sequence[str], environment: Mapping[str, str]) -> Hashable:
    read = ((name, value) for name, value in environment.items() if name.startswith(_READ))
    return (tuple(command), frozenset(read))
