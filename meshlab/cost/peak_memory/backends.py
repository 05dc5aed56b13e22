"""What compilers for different devices do otherwise, as far as memory goes."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Numbers = Any


@dataclasses.dataclass(frozen=True)
class Backend:
    """How one compiler lays out memory.

    Attributes:
        platform: "cpu", "gpu" or "tpu".
        step: what is taken from the heap is a multiple of so many bytes.
        widens: whether 16-bit floats are computed in 32 bits.
        combines: all-reduces are made one up to so many bytes together.
        libraries: whether large sums are handed to a library, and small ones along long axes done in two stages.
        reorders: whether products, convolutions and gathers read copies of what lies in another order in memory.
        tiled: whether arrays lie in tiles of 4 KiB; see `tiled_bytes`.
        fuses: whether products and convolutions compute what they read, and what is made of them alone.
        rounds: whether products round 32-bit floats to 16 bits, which then lie in memory so.
        thrifty: whether steps run in the order in which least memory is alive, and all-reduces write over what they
            read; else in that in which they can run first.
        gaps: whether the gaps between buffers count.
        tables: whether the addresses of what makes several arrays are counted.

    What is said of XLA for TPUs was read in programs that libtpu 0.0.42 compiled, and its peak is that of what is
    alive. XLA for CPUs has no 16-bit arithmetic and combines all it can; XLA for GPUs combines up to 30 MiB
    (`xla_gpu_all_reduce_combine_threshold_bytes`, openxla/xla, xla/debug_options_flags.cc).
    """

    platform: str
    step: int
    widens: bool = False
    combines: float = math.inf
    libraries: bool = False
    reorders: bool = False
    tiled: bool = False
    fuses: bool = False
    rounds: bool = False
    thrifty: bool = False
    gaps: bool = True
    tables: bool = False

    @property
    def product(self) -> str:
        """The kind of node that a product or a convolution is."""
        return "product" if self.fuses else "opaque"


CPU = Backend("cpu", 64, widens=True, libraries=True, reorders=True, tables=True)
BACKENDS = {
    "cpu": CPU,
    "gpu": Backend("gpu", 256, combines=30 * 2**20),
    "tpu": Backend("tpu", 512, combines=30 * 2**20, tiled=True, fuses=True, rounds=True, thrifty=True, gaps=False),
}
# Bytes of the least array in a TPU's memory; the columns of a tile, and its rows by bytes of an element.
_LEAST, _COLUMNS, _ROWS = 512, 128, {4: 8, 2: 16, 1: 32}


def tiled_bytes(shape: Sequence[Numbers], each: float) -> Numbers:
    """Bytes of an array in a TPU's memory: two of its axes lie in tiles, and XLA chooses those that waste least.

    Tiles are 8 rows of 128 32-bit elements (16 of 16 bits, 32 of 8 bits); of fewer rows, the next power of 2. The
    arguments of 70 plans that libtpu compiled for v5e are exactly so large.

    Args:
        shape: of the array; of many arrays, where its sizes are arrays.
        each: bytes of one element.
    """
    if len(shape) < 2:
        return np.maximum(1, np.ceil(math.prod(shape) * each / _LEAST)) * _LEAST
    whole, rows = math.prod(shape), _ROWS.get(int(each), 8)
    tiles = (
        whole // np.maximum(a * b, 1) * _height(a, rows) * np.ceil(b / _COLUMNS) * _COLUMNS
        for a, b in itertools.permutations(shape, 2)
    )
    return np.maximum(_LEAST, functools.reduce(np.minimum, tiles) * each)


def _height(size: Numbers, rows: int) -> Numbers:
    """The rows that so many take."""
    few = np.exp2(np.ceil(np.log2(np.maximum(size, 1))))
    return np.where(size >= rows, np.ceil(size / rows) * rows, few)
