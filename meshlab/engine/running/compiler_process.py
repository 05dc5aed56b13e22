"""Runs a compiler in a process of its own, which ends when it takes too long, when it is cancelled, and with this one.

    watch = Watch("v5e:4x4", 'compile_for(plan, "v5e:4x4", timeout={:g})', timeout, progress, cancel)
    with Process(["-c", worker.COMMAND], environment) as process:
        watch.stage("exporting")                # while the process starts
        answer = process.answer(program, request, watch)

The files that the two processes share are listed in `compile_worker.py`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ..argument_checks import function
from ..code.operations import Code, walk
from ..errors import CompilerError, shown
from . import kept_processes as kept
from .compile_worker import write
from .kept_processes import Started

# Seconds between two looks at the process.
_LOOK = 0.02
# How many letters of a compiler's message are shown.
_MOST = 1500
# A line with which XLA ends its process: level, date, time and thread, then the file and what is wrong.
_FATAL = re.compile(r"F\d{4} \S+ +\d+ (?P<message>\S+:\d+\] .*)")


class Cancel(Protocol):
    """A flag that says when to stop, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Says whether to stop."""
        ...


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of a compilation.

    Attributes:
        stage: exporting, starting, lowering, compiling or reading.
        target: the machine that is compiled for.
        seconds: since it began.
    """

    stage: str
    target: str
    seconds: float

    def __str__(self):
        return f"{self.stage} for {self.target}, {self.seconds:.0f} s"


class Watch:
    """The clock of one compilation: it reports progress, and says when to stop.

    Args:
        target: the machine that is compiled for.
        call: how to ask for it with more time, with a field for the seconds: "plan.xla(timeout={:g})".
        timeout: seconds after which the compiler is ended.
        progress: called with a `Progress` at each stage, and each second in between.
        cancel: asked several times a second; once it is set, the compiler is ended.
    """

    def __init__(
        self,
        target: str,
        call: str,
        timeout: float,
        progress: Callable[[Progress], Any] | None = None,
        cancel: Cancel | None = None,
    ):
        asked = call.partition("(")[0]
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise CompilerError(f"timeout must be a number of seconds above 0; {asked} was given {shown(timeout)}.")
        if progress is not None:
            function(f"{asked}'s progress", progress, "progress=print", CompilerError)
        if cancel is not None and not hasattr(cancel, "is_set"):
            raise CompilerError(f"{asked} was given cancel={shown(cancel)}; it must be a threading.Event or similar.")
        self.target, self.call, self.timeout, self.progress, self.cancel = target, call, timeout, progress, cancel
        self.begun = time.monotonic()
        self.last: tuple[str, int] | None = None

    @property
    def seconds(self) -> float:
        """Since the compilation began."""
        return time.monotonic() - self.begun

    def stage(self, name: str) -> None:
        """Reports a stage, if it is new or a second older; raises an error once it is time to stop."""
        if self.progress is not None and self.last != (name, int(self.seconds)):
            self.last = name, int(self.seconds)
            self.progress(Progress(name, self.target, self.seconds))
        if self.cancel is not None and self.cancel.is_set():
            raise CompilerError(f"Compiling for {self.target} was cancelled after {self.seconds:.1f} s ({name}).")
        if self.seconds > self.timeout:
            raise CompilerError(
                f"Compiling for {self.target} was ended after {self.timeout:g} s, while {name}. Allow more time:"
                f" {self.call.format(2 * self.timeout)}, or compile a smaller program."
            )


class Process:
    """A compiler's process and the folder that it shares with this one, which ends with the `with` block.

    So does the process, but where it has answered and is kept for the next program of the same kind.

    Args:
        command: what Python runs: ["-P", "compile_worker.py"].
        environment: all of the process's variables.
        keep: whether it is kept when it has answered.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], keep: bool = False):
        self.command, self.environment, self.keep = command, environment, keep

    def __enter__(self) -> Process:
        self._temporary = tempfile.TemporaryDirectory(prefix="meshlab-")
        self.folder = pathlib.Path(self._temporary.name)
        self._started = kept.taken(self.command, self.environment) or Started.new(self.command, self.environment)
        self._logged = self._started.log.stat().st_size
        self._answered = False
        return self

    def __exit__(self, *_: Any) -> None:
        if self.keep and self._answered:
            kept.put(self._started)
        else:
            self._started.end()
        self._temporary.cleanup()

    def answer(self, program: bytes, request: Mapping[str, Any], watch: Watch) -> tuple[dict[str, Any], str] | str:
        """Asks for a program to be compiled, and waits for it.

        Args:
            program: from `compile_worker.written`.
            request: the options, which the process reads as JSON.
            watch: the clock.

        Returns:
            The process's answer, and the compiled program's text; or why there is none.
        """
        (self.folder / "program.bin").write_bytes(program)
        write(self.folder / "request.json", json.dumps(request))
        watch.stage("starting")
        self._started.ask(self.folder)
        stage, answer = self.folder / "stage", self.folder / "answer.json"
        while not answer.exists() and self._started.running.poll() is None:
            watch.stage(stage.read_text() if stage.exists() else "starting")
            time.sleep(_LOOK)
        self._answered = answer.exists()
        result = json.loads(answer.read_text()) if self._answered else {"error": self._ending()}
        return _short(result["error"]) if "error" in result else (result, (self.folder / "program.hlo").read_text())

    def text(self, name: str) -> str | None:
        """What else the process has written, into a file of that name."""
        text = self.folder / name
        return text.read_text() if text.exists() else None

    def _ending(self) -> str:
        """Says how the process ended, with its last lines."""
        status = self._started.running.wait()
        how = f"by signal {-status} ({signal.strsignal(-status)})" if status < 0 else f"with status {status}"
        lines = self._started.log.read_bytes()[self._logged :].decode(errors="replace").splitlines()
        fatal = [match["message"] for match in map(_FATAL.match, lines) if match]
        last = fatal[-1] if fatal else "its last lines were:\n" + "\n".join(lines[-10:])
        return f"its process ended {how}; {last}"


def refuse_callbacks(code: Code, asked: str) -> None:
    """Refuses a program that calls back into Python, with each call's line: its functions are in this process alone."""
    callbacks = [o for o in walk(code.block) if o.name == "pure_callback"]
    if callbacks:
        lines = ", ".join(dict.fromkeys(f"`{o.name}` at {o.source or 'an unknown line'}" for o in callbacks))
        raise CompilerError(
            f"{asked} compiles in a separate process, which does not have this process's Python functions: {lines}."
            " plan.check() and plan.run() take the program as it is; or write the function in JAX."
        )


def inherited(*folders: str | None) -> dict[str, str]:
    """Returns this process's environment variables, but that Python looks into some folders first."""
    path = os.pathsep.join(filter(None, (*folders, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def _short(message: str) -> str:
    return message if len(message) <= _MOST else f"{message[:_MOST]} … ({len(message):,} characters)"
