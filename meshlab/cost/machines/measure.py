"""Measures how long matmuls, copies and collectives take on the attached devices.

All devices run at the same time, as in the step of a plan: simulated devices share their machine's cores, and real ones
their links.

Other work on the machine only ever adds time, and comes and goes. So all sizes of one kind are measured in rounds: a
disturbance meets some repetitions of each size, and not all of one. A sample is the lower quartile of the repetitions,
with their spread beside it (`summarize`). The first run of each round, which compiles or starts with cold caches, does
not count.

A copy reads and writes more memory than any cache holds, however small it is: the devices work through arrays of
`_BEYOND_CACHES` bytes, a part at a time. Repeated on one small array, it would never leave the caches.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ...engine.collectives.kinds import KINDS, Kind, Sending
from ...engine.collectives.routes import Shifted
from ...engine.running.lower import MeshDevice
from .units import seconds_text

MATMUL, COPY, LAUNCH = "matmul", "copy", "launch"
_AXIS = "device"
# Rounds; the least seconds, and the least repetitions, of each size in a round.
_ROUNDS, _LEAST_SECONDS, _LEAST_RUNS = 5, 0.01, 2
# Bytes of one device's array, or of all simulated devices' together: the largest last-level caches of GPUs hold 126 MB
# (B200), those of one CPU die 32 to 96 MB (EPYC).
_BEYOND_CACHES = 2**28


@dataclasses.dataclass(frozen=True)
class Sample:
    """One measurement.

    Attributes:
        kind: "matmul", "copy", "launch" or a collective.
        dtype: of the operands.
        size: rows, columns and contracted size of a square matmul; else bytes: read and written by one device, or of
            the full array of a collective.
        seconds: of one execution, the lower quartile of repeated ones.
        spread: how much longer the upper quartile is, as a fraction of the lower.
    """

    kind: str
    dtype: str
    size: int
    seconds: float
    spread: float = 0.0

    def __str__(self):
        what = f"of {self.size:,} x {self.size:,}" if self.kind == MATMUL else f"of {self.size:,} bytes"
        return f"{self.kind} {what} in {self.dtype}: {seconds_text(self.seconds)}"


@dataclasses.dataclass(frozen=True)
class Run:
    """One operation to measure.

    Attributes:
        kind: as in `Sample`.
        dtype: of the operands.
        size: as in `Sample`.
        timed: runs it once, and returns the seconds of one execution.
    """

    kind: str
    dtype: str
    size: int
    timed: Callable[[], float]


def summarize(kind: str, dtype: str, size: int, times: Sequence[float]) -> Sample:
    """Returns the lower quartile of repeated `times`, in seconds of one execution, with their spread, as a `Sample`."""
    lower, upper = np.quantile(times, (0.25, 0.75))
    return Sample(kind, dtype, size, float(lower), float(upper / lower - 1))


def measured(runs: Sequence[Run]) -> Iterator[Sample]:
    """Measures runs in rounds, and yields a sample of each."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(_ROUNDS):
        for run, all_times in zip(runs, times, strict=True):
            run.timed()
            repeated: list[float] = []
            start = time.perf_counter()
            while len(repeated) < _LEAST_RUNS or time.perf_counter() - start < _LEAST_SECONDS:
                repeated.append(run.timed())
            all_times.extend(repeated)
    for run, all_times in zip(runs, times, strict=True):
        yield summarize(run.kind, run.dtype, run.size, all_times)


def matmuls(devices: Sequence[Any], dtypes: Sequence[Any], sizes: Sequence[int]) -> Iterator[Sample]:
    """Measures square matmuls, on all devices at once."""
    return measured([_matmul(devices, dtype, size) for dtype in dtypes for size in sizes])


def _matmul(devices: Sequence[Any], dtype: Any, size: int) -> Run:
    iterations = max(1, min(64, 2**31 // size**3))

    def chained(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, iterations, lambda _, c: jnp.matmul(c, w, preferred_element_type=c.dtype), x)

    x, w = (_filled(devices, (size, size), dtype, 1 / size) for _ in "xw")
    return Run(MATMUL, np.dtype(dtype).name, size, _timed(_everywhere(devices, chained), iterations, x, w))


def copies(devices: Sequence[Any], sizes: Sequence[int]) -> Iterator[Sample]:
    """Measures copies: reads and writes of 32-bit numbers in memory beyond caches, on all devices at once.

    Args:
        devices: as JAX lists them.
        sizes: bytes that one copy reads and writes; each divides the largest.
    """
    largest = max(sizes) // 8  # numbers of 4 bytes, read and written
    least = _BEYOND_CACHES // 4 // (len(devices) if devices[0].platform == "cpu" else 1)
    # One array for all sizes: each run updates it in place and puts it back.
    buffer = [_filled(devices, (largest * max(1, math.ceil(least / largest)),), jnp.float32, 1.0)]
    return measured([_copy(devices, nbytes, buffer) for nbytes in sizes])


def _copy(devices: Sequence[Any], nbytes: int, buffer: list[Any]) -> Run:
    each = nbytes // 8
    parts = buffer[0].size // len(devices) // each

    def added(x: Any) -> Any:
        def part(i: Any, c: Any) -> Any:
            return lax.dynamic_update_index_in_dim(c, lax.dynamic_index_in_dim(c, i, keepdims=False) * 0.5 + 1.0, i, 0)

        return lax.fori_loop(0, parts, part, x.reshape(parts, each)).ravel()

    function = jax.jit(_everywhere(devices, added), donate_argnums=0)

    def timed() -> float:
        start = time.perf_counter()
        buffer.append(jax.block_until_ready(function(buffer.pop())))
        return (time.perf_counter() - start) / parts

    return Run(COPY, "float32", nbytes, timed)


def launches(devices: Sequence[Any]) -> Iterator[Sample]:
    """Measures how long the smallest kernel takes."""
    iterations = 256
    function = _everywhere(devices, lambda x: lax.fori_loop(0, iterations, lambda _, c: c * 0.5 + 1.0, x))
    return measured([Run(LAUNCH, "float32", 8, _timed(function, iterations, _filled(devices, (2,), jnp.float32, 1.0)))])


def collectives(devices: Sequence[Any], sizes: Sequence[int]) -> Iterator[Sample]:
    """Measures each collective over all devices; `sizes` are bytes of the full array."""
    n = len(devices)
    device = MeshDevice({_AXIS: n})
    asked = Sending((_AXIS,), axis=0, other=0, route=Shifted((_AXIS,), 1, wrap=True))
    for name, kind in KINDS.items():
        # The operand of one device is a part of the full array.
        runs, parts = [], n if kind.shard else 1
        for nbytes in sizes:
            x = _filled(devices, (max(n, nbytes // 4 // parts // n * n),), jnp.float32, 1.0)
            function = _everywhere(devices, functools.partial(_sent, kind, device, asked))
            runs.append(Run(name, "float32", x.nbytes // n * parts, _timed(function, 1, x)))
        yield from measured(runs)


def _sent(kind: Kind, device: MeshDevice, asked: Sending, x: Any) -> Any:
    return kind.run(device, x, asked)


def _mesh(devices: Sequence[Any]) -> Mesh:
    return Mesh(np.array(devices), (_AXIS,), axis_types=(AxisType.Auto,))


def _everywhere(devices: Sequence[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles a function of local arrays to run on all devices at once."""
    spec = PartitionSpec(_AXIS)
    return jax.jit(jax.shard_map(function, mesh=_mesh(devices), in_specs=spec, out_specs=spec, check_vma=False))


def _filled(devices: Sequence[Any], local: tuple[int, ...], dtype: Any, number: float) -> Any:
    """An array of one number, with a shard of shape `local` on each device."""
    shape = (local[0] * len(devices), *local[1:])
    return jax.device_put(jnp.full(shape, number, dtype), NamedSharding(_mesh(devices), PartitionSpec(_AXIS)))


def _timed(function: Callable[..., Any], iterations: int, *args: Any) -> Callable[[], float]:
    def timed() -> float:
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        return (time.perf_counter() - start) / iterations

    return timed
