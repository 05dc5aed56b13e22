"""The environment in which XLA's auto-sharding runs: a JAX that still has it, and the TPU compiler that goes with it.

    answer = ask(["shard", "perceptron", "x=8", "14"], seconds=300)
    answer.value        what `inside` has answered as JSON; None where it was ended before
    answer.log          the lines of XLA, which tell of its solver
    answer.seconds      of the pass

`jax.experimental.pjit.AUTO` is gone from later versions of JAX, which is why this is an environment of its own, made at
the first question, beside `.venv`. No TPU is needed: XLA compiles for one that is not there.

Seconds are those of processors, from the line with which the pass begins to the line with which it ends: what else runs
on the machine does not count. Its solver runs on several threads; by the clock it is faster, as its own log tells.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / ".xla"
PACKAGES = ("jax==0.10.0", "jaxlib==0.10.0", "libtpu==0.0.40")
_MADE = FOLDER / ".made"
# The lines of XLA's log between which its pass runs.
BEGINS, ENDS = "Starting the auto sharding pass", "Auto Sharding took"
# Seconds between two looks at the process.
_LOOK = 0.02


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a process in the environment has answered.

    Attributes:
        value: what it printed, as JSON; None where the time limit ended it.
        log: its lines on stderr.
        seconds: of processors, for the pass, or as far as it came; None where it did not begin.
    """

    value: Any
    log: str
    seconds: float | None


def make() -> None:
    """Makes the environment, if it is not there.

    Raises:
        CalledProcessError: it cannot be made; pip has said why.
    """
    if _MADE.exists() and _MADE.read_text().split() == [*PACKAGES]:
        return
    print(f"Installing {', '.join(PACKAGES)} into {FOLDER.name} (a minute or two, once).", flush=True)
    subprocess.run(["sh", str(ROOT / "scripts" / "venv.sh"), str(FOLDER)], check=True)
    install = [_python(), "-m", "pip", "--disable-pip-version-check", "install", "-qq", "--editable", str(ROOT)]
    subprocess.run([*install, *PACKAGES], check=True)
    _MADE.write_text("\n".join(PACKAGES))


def ask(words: Sequence[str], seconds: float) -> Answer:
    """Asks `inside` in the environment.

    Args:
        words: its arguments.
        seconds: of processors, after which the pass is ended; see `answer_of`.

    Raises:
        CalledProcessError: it failed by itself; see `answer_of`.
    """
    make()
    return answer_of([_python(), "-m", "benchmarks.xla_auto.inside", *words], _variables(), seconds)


def answer_of(command: Sequence[str], variables: Mapping[str, str], seconds: float) -> Answer:
    """Runs a process that prints its answer as JSON, and logs where its pass begins and ends.

    Args:
        command: what is run.
        variables: its environment variables.
        seconds: of processors, after which the pass is ended; what is before and after it may take as much again.

    Raises:
        CalledProcessError: it failed by itself; `stderr` has its last lines.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, log = pathlib.Path(folder, "out"), pathlib.Path(folder, "log")
        with out.open("wb") as to, log.open("wb") as errors:
            process = subprocess.Popen(command, cwd=ROOT, env=dict(variables), stdout=to, stderr=errors)
            taken = _watched(process, log, seconds)
        status, printed, lines = process.wait(), out.read_text(), log.read_text(errors="replace")
    if status not in (0, -signal.SIGKILL):
        raise subprocess.CalledProcessError(status, list(command), stderr=lines[-2000:])
    return Answer(None if status else json.loads(printed), lines, taken)


def _watched(process: subprocess.Popen, log: pathlib.Path, most: float) -> float | None:
    """Waits for a process, or ends it when its pass takes too long; returns the seconds of the pass."""
    begun = ended = None
    now = 0.0
    try:
        while process.poll() is None:
            text, now = log.read_text(errors="replace"), _seconds_of(process.pid, now)
            begun = now if begun is None and BEGINS in text else begun
            ended = now if ended is None and ENDS in text else ended
            if now > 2 * most or (begun is not None and ended is None and now - begun > most):
                break
            time.sleep(_LOOK)
    finally:
        process.kill()
    if begun is None:  # or it was over before the first look
        return 0.0 if BEGINS in log.read_text(errors="replace") else None
    return round((now if ended is None else ended) - begun, 2)


def _seconds_of(process: int, before: float) -> float:
    """The seconds that a process has had of processors; what was known before, where it has just ended."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return before
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _python() -> str:
    return str(FOLDER / "bin" / "python")


def _variables() -> dict[str, str]:
    """The environment variables: of compilers that look for no TPU, and tell what their solver does."""
    (library,) = FOLDER.glob("lib/python*/site-packages/libtpu/libtpu.so")
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ} | {
        "TPU_LIBRARY_PATH": str(library),
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TPU_ACCELERATOR_TYPE": "v5litepod-8",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_LOG_DIR": "disabled",
        "TPU_STDERR_LOG_LEVEL": "0",
        "TPU_MIN_LOG_LEVEL": "0",
    }
