"""Backends: what each platform's compiler does that matters for memory."""

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
    """The passes of one compiler, as far as they matter for memory; most are named after XLA's.

    Attributes:
        platform: "cpu", "gpu" or "tpu".
        alignment: sizes and offsets in the heap are multiples of as many bytes.
        float_normalization: whether 16-bit floats are computed in 32 bits.
        combine_threshold: the most bytes of all-reduces that are combined into one.
        library_rewriter: whether a library computes large reductions, and small ones along long axes have two stages.
        layout_assignment: whether matmuls, convolutions and gathers read transposed copies of arrays whose axes are in
            another order in memory.
        tiled_layouts: whether arrays are stored in tiles of 4 KiB; see `tiled_bytes`.
        matmul_fusion: whether matmuls and convolutions are fused with their operands and with elementwise readers.
        recomputation: whether memory traffic decides what is fused: what is expensive, or padded, is computed again in
            each of its readers, rather than stored for them, but nothing in what only gives it another shape.
        bfloat16_propagation: whether 32-bit floats that only matmuls read, which round them, are stored in 16 bits.
        memory_scheduler: whether steps run in the order with the least peak, and all-reduces in place; else breadth
            first.
        asynchronous: whether what waits for a collective, and no other waits for, runs behind the last collective.
        copies_after_order: whether a loop's carry is copied only where a step that runs later reads it.
        carried_order: whether a loop carries arrays in the order in which what it writes into them is made.
        rolled_hash: whether the rounds of Threefry are a loop, which stores what it counts; else they are fused.
        fragmentation: whether the gaps between buffers count.
        tuple_tables: whether the tables of addresses of operations with several results count.

    The passes of XLA for TPUs were read from programs that libtpu 0.0.42 compiled; its peak is that of live bytes. XLA
    for CPUs has no 16-bit arithmetic and combines all it can; XLA for GPUs combines up to 30 MiB
    (`xla_gpu_all_reduce_combine_threshold_bytes`, openxla/xla, xla/debug_options_flags.cc), and fuses by what a fusion
    saves, which memory traffic decides (`PriorityFusion`): exponentials of a softmax are computed again, and what is
    read under another shape is stored for all that do.
    """

    platform: str
    alignment: int
    float_normalization: bool = False
    combine_threshold: float = math.inf
    library_rewriter: bool = False
    layout_assignment: bool = False
    tiled_layouts: bool = False
    matmul_fusion: bool = False
    recomputation: bool = False
    bfloat16_propagation: bool = False
    memory_scheduler: bool = False
    asynchronous: bool = False
    copies_after_order: bool = False
    carried_order: bool = False
    rolled_hash: bool = False
    fragmentation: bool = True
    tuple_tables: bool = False

    @property
    def matmul(self) -> str:
        """The kind of the node of a matmul or a convolution."""
        return "matmul" if self.matmul_fusion else "opaque"


CPU = Backend(
    "cpu",
    64,
    float_normalization=True,
    library_rewriter=True,
    layout_assignment=True,
    rolled_hash=True,
    tuple_tables=True,
)
BACKENDS = {
    "cpu": CPU,
    "gpu": Backend(
        "gpu", 256, combine_threshold=30 * 2**20, recomputation=True, asynchronous=True, copies_after_order=True
    ),
    "tpu": Backend(
        "tpu",
        512,
        combine_threshold=30 * 2**20,
        tiled_layouts=True,
        matmul_fusion=True,
        bfloat16_propagation=True,
        memory_scheduler=True,
        copies_after_order=True,
        carried_order=True,
        fragmentation=False,
    ),
}
# Bytes of the smallest array in a TPU's memory; the columns of a tile, and its rows by bytes of an element.
_LEAST, _COLUMNS, _ROWS = 512, 128, {4: 8, 2: 16, 1: 32}


def tiled_bytes(shape: Sequence[Numbers], each: float) -> Numbers:
    """Returns the bytes of an array in a TPU's memory: two of its axes are tiled, those that waste least.

    Tiles are 8 rows of 128 32-bit elements (16 of 16 bits, 32 of 8 bits); of fewer rows, the next power of 2. The
    arguments of 70 plans that libtpu compiled for v5e have exactly these sizes.

    Args:
        shape: of the array; of many arrays, where its sizes are arrays.
        each: bytes of one element.
    """
    if len(shape) < 2:
        return np.maximum(1, np.ceil(math.prod(shape) * each / _LEAST)) * _LEAST
    elements, rows = math.prod(shape), _ROWS.get(int(each), 8)
    if isinstance(elements, int) and elements > np.iinfo(np.int64).max:
        elements, shape = float(elements), tuple(map(float, shape))
    tiles = (
        elements // np.maximum(a * b, 1) * _height(a, rows) * np.ceil(b / _COLUMNS) * _COLUMNS
        for a, b in itertools.permutations(shape, 2)
    )
    return np.maximum(_LEAST, functools.reduce(np.minimum, tiles) * each)


def _height(size: Numbers, rows: int) -> Numbers:
    """The number of rows with padding."""
    few = np.exp2(np.ceil(np.log2(np.maximum(size, 1))))
    return np.where(size >= rows, np.ceil(size / rows) * rows, few)
