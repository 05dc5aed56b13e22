"""Several processes that run one program: joins them, and says which of them this is.

    distributed()           # in each of them, before JAX is first used; in a process alone it does nothing
    whole(array)            # of an array whose shards are in several processes, in all of them: its numbers

The processes are JAX's own, `jax.distributed`: it finds those of SLURM, Open MPI, Kubernetes and TPU slices by itself,
and those of `meshlab run FILE --processes 4` (`running/launch.py`) say by environment variables who they are.

JAX's defaults keep the survivors of a process that has died waiting for minutes: for a heartbeat, or at a barrier on
their way out. So a silent process counts as dead after `HEARTBEAT` seconds, and one that has raised an exception prints
it and ends at once, without the barrier.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .errors import RunError
from .jax_compat import gathered, join
from .typed_keys import is_key

# Environment variables of a process that `meshlab run` has started.
COORDINATOR, COUNT, NUMBER, DEVICES = (f"MESHLAB_{name}" for name in ("COORDINATOR", "PROCESSES", "PROCESS", "DEVICES"))
# Seconds: without a heartbeat, and at the barrier at the end, where some may still be writing what they have computed.
HEARTBEAT, ENDING = 10, 60
# What keeps some of what is written to a file.
_BUFFERED = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
# How many steps this process has started that it cannot finish without another one, by the number of that one. All make
# the same calls in the same order: if that one has finished the program and counted fewer, this one waits in vain.
STARTED: Counter[int] = Counter()


def distributed() -> None:
    """Joins the processes that run this program, each of which calls it before JAX is first used.

    They are found as JAX finds them: under SLURM, Open MPI and Kubernetes, on TPU slices, and under `meshlab run FILE
    --processes 4`. Meshes then span the devices of all of them. In a process that was started alone, and in one that
    has joined before, nothing happens. From then on a process that raises an exception prints it and ends at once: the
    others cannot go on without it.

    Raises:
        RunError: JAX was used before; or the other processes do not come.

    Example:
        >>> ml.distributed()
        >>> len(jax.devices())                     # of all processes
        8
    """
    if is_joined():
        return
    try:
        has_joined = join(**_given(), heartbeat_timeout_seconds=HEARTBEAT, shutdown_timeout_seconds=ENDING)
    except RuntimeError as error:
        if "must be called before" in str(error):
            raise RunError(
                "ml.distributed() was called after JAX was first used, and JAX joins processes only before that. Call"
                " it first, right after the imports."
            ) from None
        raise RunError(f"ml.distributed() could not join the other processes: {error}") from None
    if has_joined:
        sys.excepthook = _ends_with(sys.excepthook)


def _given() -> dict[str, Any]:
    """Returns what `meshlab run` says of this process, as `jax.distributed.initialize` takes it; else nothing."""
    if COORDINATOR not in os.environ:
        return {}
    address = os.environ[COORDINATOR]
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", int(os.environ[DEVICES]))
    return {
        "coordinator_address": address,
        "coordinator_bind_address": address,
        "num_processes": int(os.environ[COUNT]),
        "process_id": int(os.environ[NUMBER]),
        "initialization_timeout": 60,
        "cluster_detection_method": "deactivate",
    }


def _ends_with(before: Any) -> Any:
    """Returns a hook for exceptions that nothing catches, which ends the process once the one before has printed it."""

    def end(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        before(kind, error, traceback)
        end_now(1)

    return end


def end_now(status: int) -> None:
    """Ends this process with what it has printed and written, and without waiting for others."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more, or the program has closed it
            stream.flush()
    _write_out()
    os._exit(status)


def _write_out() -> None:
    """Writes what was written to open files and is not on the disk yet: Python does so itself where it ends as usual.

    Of files alone: into a pipe that nobody reads a process writes for ever.
    """
    for each in gc.get_objects():
        if issubclass(type(each), _BUFFERED):
            with contextlib.suppress(OSError, ValueError):  # it is closed, or the disk is full
                if stat.S_ISREG(os.fstat(each.fileno()).st_mode):
                    each.flush()


def is_joined() -> bool:
    """Says whether this process is one of several, or of one that a launcher started."""
    return jax.distributed.is_initialized()


def is_first() -> bool:
    """Says whether this is the process that talks to people: the first one, or the only one."""
    return not is_joined() or jax.process_index() == 0


def started(others: Iterable[int]) -> None:
    """Counts a step that this process starts, and cannot finish without these others."""
    STARTED.update(others)


def all_agree(yes: bool) -> bool:
    """Says whether all processes say yes; waits until each has called it."""
    return yes if not is_joined() else bool(np.all(_gathered(np.array([yes]))))


def whole(array: Any) -> Any:
    """Returns an array whose numbers this process has: the same one where it has, else a copy; called in all processes.

    Args:
        array: of JAX or NumPy, or a typed key; or anything else, which is returned.
    """
    if not isinstance(array, jax.Array) or array.is_fully_addressable:
        return array
    if is_key(array):
        return jax.random.wrap_key_data(jnp.asarray(whole(jax.random.key_data(array))), impl=jax.random.key_impl(array))
    return np.asarray(array if array.is_fully_replicated else _gathered(array))


def _gathered(array: Any) -> Any:
    started(other for other in range(jax.process_count()) if other != jax.process_index())
    return gathered(array)
