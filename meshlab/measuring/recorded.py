"""Runs a compiled program under JAX's profiler, and reads what each device ran, and when.

    runs = recorded(call, "jit_profiled", times=5)
    runs[0]                     the first run: [Event("dot_general.3", device=0, begin=0.00012, end=0.00016), …]

Of what the profiler writes, only events with the name of an instruction of the program are read, and the marks that are
set here around each run. JAX 0.12 keeps a profile in memory; before, it is a file, in a folder that is removed.
"""

from __future__ import annotations

import bisect
import itertools
import math
import pathlib
import re
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from ..engine.errors import RunError

# The name of a mark around a run, in front of the run's number.
_MARK = "meshlab run "
# The plane of an accelerator says which one it is; events of CPU devices say so themselves.
_DEVICE = re.compile(r"^/device:\w+:(\d+)$")


class Event(NamedTuple):
    """An instruction that a device ran.

    Attributes:
        op: the instruction's name in the compiled program.
        device: its number among the devices of this process.
        begin: when it began, in seconds from the beginning of the profile.
        end: when it ended.
    """

    op: str
    device: int
    begin: float
    end: float


def recorded(call: Callable[[], Any], module: str, times: int) -> list[list[Event]]:
    """Runs a program several times, each to its end, and returns the events of each run.

    Args:
        call: runs it.
        module: its name in HLO.
        times: the number of runs.

    Raises:
        RunError: another profile is being recorded, or the profiler names no instructions of the program.
    """
    begun = []

    def run():
        begun.append(True)
        for number in range(times):
            with jax.profiler.TraceAnnotation(f"{_MARK}{number}"):
                jax.block_until_ready(call())

    options = jax.profiler.ProfileOptions()
    options.python_tracer_level, options.host_tracer_level = 0, 2
    try:
        profile = (_in_memory if hasattr(jax.profiler, "ProfileSession") else _by_file)(run, options)
    except RuntimeError as error:
        if begun:
            raise
        raise RunError(f"JAX's profiler did not start: {error}") from error
    runs = _runs(*_read(profile, module), times)
    if not all(runs):
        raise RunError(
            f"JAX's profiler recorded {sum(map(bool, runs))} of {times} runs: its profile names no instructions of the"
            f" others (jax {jax.__version__}, {jax.default_backend()} devices). So they cannot be measured."
        )
    return runs


def _in_memory(run: Callable[[], None], options: Any) -> Any:
    trace: Any = jax.profiler.trace  # from JAX 0.12 on it takes no folder, and returns a session
    with trace(profiler_options=options) as session:
        run()
    return session.profile_data


def _by_file(run: Callable[[], None], options: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            run()
        (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
        return jax.profiler.ProfileData.from_file(str(path))


def _read(profile: Any, module: str) -> tuple[dict[int, float], list[Event]]:
    """Returns when each run began, by its number, and the events of a module's instructions."""
    marks: dict[int, float] = {}
    events: list[Event] = []
    with warnings.catch_warnings():
        # JAX 0.12 warns when stats are first read, in a way that ends the process where warnings are errors.
        warnings.simplefilter("ignore", DeprecationWarning)
        for plane in profile.planes:
            of_device = _DEVICE.match(plane.name)
            for event in itertools.chain.from_iterable(line.events for line in plane.lines):
                if event.name.startswith(_MARK):
                    marks[int(event.name.removeprefix(_MARK))] = event.start_ns / 1e9
                    continue
                stats = dict(event.stats)
                device = of_device[1] if of_device else stats.get("device_ordinal")
                if stats.get("hlo_module") == module and device is not None and "hlo_op" in stats:
                    begin = event.start_ns / 1e9
                    events.append(Event(stats["hlo_op"], int(device), begin, begin + event.duration_ns / 1e9))
    return marks, events


def _runs(marks: dict[int, float], events: list[Event], times: int) -> list[list[Event]]:
    """Returns the events of each run: marks are the host's, which waits for the end of one run before the next."""
    starts = [marks.get(number, math.inf) for number in range(times)]
    runs: list[list[Event]] = [[] for _ in range(times)]
    for event in sorted(events, key=lambda event: event.begin):
        number = bisect.bisect_right(starts, event.begin) - 1
        if number >= 0:
            runs[number].append(event)
    return runs
