"""How fast the kernels of a GPU multiply: tiles of the result, wave after wave over its processors.

    kernels.multiplying(4096, 8192, 1024, 1, 989e12)        seconds of [4096, 1024] x [1024, 8192] at 989e12 FLOP/s

A block of threads makes one tile of the result, and a processor one block at a time; so all processors take as long for
the last tiles as for any, full or not. With P processors and F FLOP/s, a matmul [m, k] x [k, n] in tiles of a x b takes

    waves · 2ab (k + prologue) / (F/P · share · (ab / 256·128)^smaller)         waves = ⌈⌈m/a⌉ ⌈n/b⌉ / P⌉

for a tile to be filled costs as much as `prologue` further products, and a smaller one reads more for each product.
Where there are few tiles each is made by several processors, of a part of k each, and their sums are written out and
added: `joining` + bytes / `partial` seconds. Of all tiles and parts a library takes the fastest. Memory is read
meanwhile, at a share of its bandwidth, and `base` is what every kernel takes.

Numbers of 8 bits have figures of their own (`Narrow`): a kernel that scales its result takes longer to begin, and
reaches less of twice the FLOP/s.

That is one matmul on a cool device. In a long run, of numbers that are not zeros, the power limit lowers the clocks: of
the FLOP/s the share `sustained` is left.

Sources: NVIDIA, Matrix Multiplication Background User's Guide, "Tile quantization" and "Wave quantization"
(https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/), and CUTLASS, "Efficient GEMM"
(threadblock tiles, split-K: https://docs.nvidia.com/cutlass/). The constants are fitted (`benchmarks/matmuls.py`): one
set for each machine, whatever the sizes. That the numbers in a matrix decide its speed: H. He, "Strangely, Matrix
Multiplications on GPUs Run Faster When Given Predictable Data" (https://www.thonking.ai/p/strangely-matrix-multiplications).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from .figures import Figure, figure, no_counts, no_figures, refuse

# Rows and columns of a tile, as libraries have them, and into how many parts the contracted size is split.
_TILES = ((256, 128), (128, 256), (128, 128), (64, 256), (256, 64), (64, 128), (128, 64), (64, 64))
_PARTS = (1, 2, 3, 4, 6, 8, 16)
_WAYS = [(*tile, parts) for tile in _TILES for parts in _PARTS]
_ALL = tuple(np.array(_WAYS, float).T)
_LARGEST = 256 * 128
# A part has at least so many products, and a partial sum is written and read again in 32 bits.
_SHORTEST, _SUM_BYTES = 128, 8


@dataclasses.dataclass(frozen=True)
class Narrow:
    """What a GPU's matmuls of narrower numbers reach, where it is not what those of 16 bits reach.

    Attributes:
        base: seconds that any matmul takes.
        share: of the FLOP/s, in the largest tiles.
        smaller: the power of a tile's size with which the share falls.
        prologue: products that filling a tile is worth.
        memory: the share of the memory's bandwidth.
    """

    base: Figure
    share: Figure
    smaller: Figure
    prologue: Figure
    memory: Figure

    def __post_init__(self):
        shares, others = ["share", "memory"], ["base", "smaller", "prologue"]
        refuse("matmul kernels", [*no_figures(self, shares, others), *_too_large(self, *shares)])


_NARROW = tuple(field.name for field in dataclasses.fields(Narrow))


@dataclasses.dataclass(frozen=True)
class MatmulKernels:
    """What a GPU's matmuls reach.

    Attributes:
        processors: the number of its streaming multiprocessors.
        base: seconds that any matmul takes.
        share: of the FLOP/s, in the largest tiles.
        smaller: the power of a tile's size with which the share falls.
        prologue: products that filling a tile is worth.
        memory: the share of the memory's bandwidth.
        joining: seconds to begin adding partial sums.
        partial: bytes/s at which they are written and read.
        sustained: the share of all this that is left in a long run.
        narrow: by the kind of narrower numbers, "fp8" say, what their matmuls reach.
    """

    processors: int
    base: Figure
    share: Figure
    smaller: Figure
    prologue: Figure
    memory: Figure
    joining: Figure
    partial: Figure
    sustained: Figure
    narrow: Mapping[str, Narrow] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        shares, others = ["share", "memory", "sustained"], ["base", "smaller", "prologue", "joining"]
        problems = [*no_counts(self, "processors"), *no_figures(self, [*shares, "partial"], others)]
        refuse("matmul kernels", [*problems, *_too_large(self, *shares)])

    @classmethod
    def of(
        cls,
        processors: int,
        *,
        base: float,
        share: float,
        smaller: float,
        prologue: float,
        memory: float,
        joining: float,
        partial: float,
        sustained: float = 1.0,
    ) -> MatmulKernels:
        """Makes it from plain numbers."""
        figures = base, share, smaller, prologue, memory, joining, partial, sustained
        return cls(processors, *map(figure, figures))

    def of_kind(self, kind: str) -> MatmulKernels:
        """Returns what matmuls of a kind of numbers reach: "bf16", "fp8"."""
        return self._narrow.get(kind, self)

    @functools.cached_property
    def _narrow(self) -> Mapping[str, MatmulKernels]:
        return {
            kind: dataclasses.replace(self, **{name: getattr(each, name) for name in _NARROW}, narrow={})
            for kind, each in self.narrow.items()
        }

    def multiplying(self, rows: Any, columns: Any, inner: Any, times: Any, flops_per_second: float) -> Any:
        """Returns the seconds in which the processors multiply in a long run, without `base` and the wait for memory.

        Args:
            rows: of the result; a number or an array of them, as all sizes are.
            columns: of the result.
            inner: the contracted size.
            times: of how many such matmuls.
            flops_per_second: of the device.
        """
        sizes = rows, columns, inner, times
        if not any(isinstance(size, np.ndarray) for size in sizes):
            return float(np.min(self._seconds(sizes, _ALL, flops_per_second)))
        # Way after way: all at once would be 56 arrays of all points.
        each = (self._seconds(sizes, tuple(map(np.float64, way)), flops_per_second) for way in _WAYS)
        return functools.reduce(np.minimum, each)

    def _seconds(self, sizes: tuple[Any, ...], way: tuple[Any, ...], flops: float) -> Any:
        """The seconds in tiles of some rows and columns, made in some parts: arrays of ways, or of points."""
        (rows, columns, inner, times), (high, wide, parts) = sizes, way
        products = inner / parts
        waves = np.ceil(np.ceil(rows / high) * np.ceil(columns / wide) * (parts * times / self.processors))
        share = self.share.value * self.sustained.value * (high * wide / _LARGEST) ** self.smaller.value
        seconds = (
            waves * (np.ceil(products) + self.prologue.value) * (2 * high * wide * self.processors / share / flops)
        )
        # Of each part but of one alone: what begins it, and its sums.
        sums = (self.joining.value + parts * (rows * columns * times * _SUM_BYTES / self.partial.value)) * (parts > 1)
        return np.where((products < _SHORTEST) & (parts > 1), np.inf, seconds + sums)


def read_kernels(data: Mapping[str, Any], read: Any) -> MatmulKernels:
    """Reads what matmul kernels reach from a machine's file.

    Args:
        data: the table `[matmuls]`: `processors`, the figures by name, and a table for each kind of narrower numbers.
        read: reads a figure.
    """
    names = [field.name for field in dataclasses.fields(MatmulKernels) if field.name not in ("processors", "narrow")]
    narrow = {
        kind: Narrow(**{name: read(table[name]) for name in _NARROW})
        for kind, table in data.items()
        if isinstance(table, Mapping)
    }
    return MatmulKernels(data["processors"], **{name: read(data[name]) for name in names}, narrow=narrow)


def _too_large(owner: Any, *shares: str) -> list[str]:
    """The problems of shares above one."""
    above = [(name, value) for name in shares if (value := getattr(getattr(owner, name), "value", 0)) > 1]
    return [f"`{name}` must be a share of the figures, 0 < {name} ≤ 1, not {value:g}" for name, value in above]
