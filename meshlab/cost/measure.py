"""Measuring devices: how long products, additions and collectives take on those that are attached.

Every device does the same at the same time, as in the step of a plan: simulated devices share their machine's cores,
and real ones their links. A figure is the median of repeated runs; the first run, which compiles, does not count.
"""

from __future__ import annotations

import dataclasses
import statistics
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
# A measurement is repeated until this many seconds have gone by, at least so often.
_LEAST_SECONDS, _LEAST_RUNS = 0.03, 5


@dataclasses.dataclass(frozen=True)
class Sample:
    """One measurement.

    Attributes:
        kind: "product", "copy", "launch" or a collective.
        dtype: of the operands.
        size: rows, columns and sum of a square product; else bytes: read and written by one device, or of the full
            array of a collective.
        seconds: median of one execution.
    """

    kind: str
    dtype: str
    size: int
    seconds: float

    def __str__(self):
        what = f"of {self.size:,} x {self.size:,}" if self.kind == PRODUCT else f"of {self.size:,} bytes"
        return f"{self.kind} {what} in {self.dtype}: {self.seconds * 1e6:,.1f} µs"


def products(devices: Sequence[Any], dtypes: Sequence[Any], sizes: Sequence[int]) -> Iterator[Sample]:
    """Measures square products, on all devices at once."""
    for dtype in dtypes:
        for size in sizes:
            turns = max(1, min(64, 2**31 // size**3))

            def chained(x: Any, w: Any, turns: int = turns) -> Any:
                return lax.fori_loop(0, turns, lambda _, c: jnp.matmul(c, w, preferred_element_type=c.dtype), x)

            made = _everywhere(devices, chained)
            x, w = (_filled(devices, (size, size), dtype, 1 / size) for _ in "xw")
            yield Sample(PRODUCT, np.dtype(dtype).name, size, _median(made, x, w) / turns)


def copies(devices: Sequence[Any], sizes: Sequence[int]) -> Iterator[Sample]:
    """Measures additions of 32-bit numbers, which read and write memory, on all devices at once."""
    for nbytes in sizes:
        turns = max(1, min(64, 2**28 // nbytes))

        def added(x: Any, turns: int = turns) -> Any:
            return lax.fori_loop(0, turns, lambda _, c: c * 0.5 + 1.0, x)

        x = _filled(devices, (nbytes // 8,), jnp.float32, 1.0)
        yield Sample(COPY, "float32", nbytes, _median(_everywhere(devices, added), x) / turns)


def launches(devices: Sequence[Any]) -> Iterator[Sample]:
    """Measures how long the smallest kernel takes."""
    turns = 256
    made = _everywhere(devices, lambda x: lax.fori_loop(0, turns, lambda _, c: c * 0.5 + 1.0, x))
    yield Sample(LAUNCH, "float32", 8, _median(made, _filled(devices, (2,), jnp.float32, 1.0)) / turns)


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
        for nbytes in sizes:
            x = _filled(devices, (max(n, nbytes // 4 // parts // n * n),), jnp.float32, 1.0)
            yield Sample(kind, "float32", x.nbytes // n * parts, _median(_everywhere(devices, does), x))


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


def _median(function: Callable[..., Any], *args: Any) -> float:
    jax.block_until_ready(function(*args))
    found: list[float] = []
    while len(found) < _LEAST_RUNS or sum(found) < _LEAST_SECONDS:
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        found.append(time.perf_counter() - start)
    return statistics.median(found)
