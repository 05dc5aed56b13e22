"""Measuring devices: how long products, additions and collectives take on those that are attached.

Every device does the same at the same time, as in the step of a plan: simulated devices share their machine's cores,
and real ones their links.

Other work on the machine only ever adds time, and comes and goes. So all sizes of one kind are measured in turns, round
after round, that a disturbance meets some repetitions of each size and not all of one; of the repetitions the lower
quartile is taken; and how far they lie apart is kept beside it, for a figure is worth no more than that (`settled`).
The first run of each turn, which compiles or finds the caches full of other things, does not count.

Memory is measured with more than any cache holds, whatever the size of one addition: the devices work through arrays
of `_BEYOND_CACHES` bytes, a part at a time. Repeated on one small array, an addition would never leave the caches.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

PRODUCT, COPY, LAUNCH = "product", "copy", "launch"
_AXIS = "device"
# Each size has so many turns, and is repeated in each until so many seconds have gone by, at least so often.
_ROUNDS, _LEAST_SECONDS, _LEAST_RUNS = 5, 0.01, 2
# Bytes, of each device, and of all simulated ones together: the largest last-level caches of GPUs hold 126 MB (B200),
# those of one CPU die 32 to 96 MB (EPYC).
_BEYOND_CACHES = 2**28


@dataclasses.dataclass(frozen=True)
class Sample:
    """One measurement.

    Attributes:
        kind: "product", "copy", "launch" or a collective.
        dtype: of the operands.
        size: rows, columns and sum of a square product; else bytes: read and written by one device, or of the full
            array of a collective.
        seconds: of one execution, the lower quartile of repeated ones.
        spread: how much longer the upper quartile is, as a fraction of the lower.
    """

    kind: str
    dtype: str
    size: int
    seconds: float
    spread: float = 0.0

    def __str__(self):
        what = f"of {self.size:,} x {self.size:,}" if self.kind == PRODUCT else f"of {self.size:,} bytes"
        return f"{self.kind} {what} in {self.dtype}: {self.seconds * 1e6:,.1f} µs"


@dataclasses.dataclass(frozen=True)
class Run:
    """What is to be measured.

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


def settled(kind: str, dtype: str, size: int, times: Sequence[float]) -> Sample:
    """Returns what repeated measurements come to: their lower quartile, and how far the upper one is above it.

    Args:
        kind: as in `Sample`.
        dtype: of the operands.
        size: as in `Sample`.
        times: seconds of one execution each.
    """
    lower, upper = np.quantile(times, (0.25, 0.75))
    return Sample(kind, dtype, size, float(lower), float(upper / lower - 1))


def measured(runs: Sequence[Run]) -> Iterator[Sample]:
    """Measures in turns, and yields a sample of each."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(_ROUNDS):
        for run, before in zip(runs, times, strict=True):
            run.timed()
            turn: list[float] = []
            start = time.perf_counter()
            while len(turn) < _LEAST_RUNS or time.perf_counter() - start < _LEAST_SECONDS:
                turn.append(run.timed())
            before.extend(turn)
    for run, found in zip(runs, times, strict=True):
        yield settled(run.kind, run.dtype, run.size, found)


def products(devices: Sequence[Any], dtypes: Sequence[Any], sizes: Sequence[int]) -> Iterator[Sample]:
    """Measures square products, on all devices at once."""
    return measured([_product(devices, dtype, size) for dtype in dtypes for size in sizes])


def _product(devices: Sequence[Any], dtype: Any, size: int) -> Run:
    turns = max(1, min(64, 2**31 // size**3))

    def chained(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, turns, lambda _, c: jnp.matmul(c, w, preferred_element_type=c.dtype), x)

    x, w = (_filled(devices, (size, size), dtype, 1 / size) for _ in "xw")
    return Run(PRODUCT, np.dtype(dtype).name, size, _timed(_everywhere(devices, chained), turns, x, w))


def copies(devices: Sequence[Any], sizes: Sequence[int]) -> Iterator[Sample]:
    """Measures additions of 32-bit numbers, which read and write memory beyond caches, on all devices at once.

    Args:
        devices: as JAX lists them.
        sizes: bytes that one addition reads and writes; each divides the largest.
    """
    largest = max(sizes) // 8  # numbers of 4 bytes, read and written
    least = _BEYOND_CACHES // 4 // (len(devices) if devices[0].platform == "cpu" else 1)
    # One array for all sizes: each addition is done in place, and hands it on.
    kept = [_filled(devices, (largest * max(1, math.ceil(least / largest)),), jnp.float32, 1.0)]
    return measured([_copy(devices, nbytes, kept) for nbytes in sizes])


def _copy(devices: Sequence[Any], nbytes: int, kept: list[Any]) -> Run:
    each = nbytes // 8
    parts = kept[0].size // len(devices) // each

    def added(x: Any) -> Any:
        def part(i: Any, c: Any) -> Any:
            return lax.dynamic_update_index_in_dim(c, lax.dynamic_index_in_dim(c, i, keepdims=False) * 0.5 + 1.0, i, 0)

        return lax.fori_loop(0, parts, part, x.reshape(parts, each)).ravel()

    function = jax.jit(_everywhere(devices, added), donate_argnums=0)

    def timed() -> float:
        start = time.perf_counter()
        kept.append(jax.block_until_ready(function(kept.pop())))
        return (time.perf_counter() - start) / parts

    return Run(COPY, "float32", nbytes, timed)


def launches(devices: Sequence[Any]) -> Iterator[Sample]:
    """Measures how long the smallest kernel takes."""
    turns = 256
    made = _everywhere(devices, lambda x: lax.fori_loop(0, turns, lambda _, c: c * 0.5 + 1.0, x))
    return measured([Run(LAUNCH, "float32", 8, _timed(made, turns, _filled(devices, (2,), jnp.float32, 1.0)))])


def collectives(devices: Sequence[Any], sizes: Sequence[int]) -> Iterator[Sample]:
    """Measures each collective over all devices; `sizes` are bytes of the full array."""
    n = len(devices)
    # What each needs of one device, in parts of the full array, and what it does with it.
    kinds: dict[str, tuple[int, Callable[[Any], Any]]] = {
        "all-gather": (n, lambda x: lax.all_gather(x, _AXIS, tiled=True)),
        "reduce-scatter": (1, lambda x: lax.psum_scatter(x, _AXIS, tiled=True)),
        "all-reduce": (1, lambda x: lax.psum(x, _AXIS)),
        "all-to-all": (n, lambda x: lax.all_to_all(x, _AXIS, 0, 0, tiled=True)),
        "collective-permute": (n, lambda x: lax.ppermute(x, _AXIS, [(i, (i + 1) % n) for i in range(n)])),
    }
    for kind, (parts, does) in kinds.items():
        runs = []
        for nbytes in sizes:
            x = _filled(devices, (max(n, nbytes // 4 // parts // n * n),), jnp.float32, 1.0)
            runs.append(Run(kind, "float32", x.nbytes // n * parts, _timed(_everywhere(devices, does), 1, x)))
        yield from measured(runs)


def _mesh(devices: Sequence[Any]) -> Mesh:
    return Mesh(np.array(devices), (_AXIS,), axis_types=(AxisType.Auto,))


def _everywhere(devices: Sequence[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of local arrays, compiled to run on all devices at once."""
    spec = PartitionSpec(_AXIS)
    return jax.jit(jax.shard_map(function, mesh=_mesh(devices), in_specs=spec, out_specs=spec, check_vma=False))


def _filled(devices: Sequence[Any], local: tuple[int, ...], dtype: Any, number: float) -> Any:
    """An array with so much of it on each device."""
    shape = (local[0] * len(devices), *local[1:])
    return jax.device_put(jnp.full(shape, number, dtype), NamedSharding(_mesh(devices), PartitionSpec(_AXIS)))


def _timed(function: Callable[..., Any], turns: int, *args: Any) -> Callable[[], float]:
    def timed() -> float:
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        return (time.perf_counter() - start) / turns

    return timed
