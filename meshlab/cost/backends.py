"""What compilers for different devices do otherwise, as far as memory goes."""

from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Backend:
    """How one compiler lays out memory.

    Attributes:
        platform: "cpu", "gpu" or "tpu".
        step: what is taken from the heap is a multiple of so many bytes.
        widens: whether 16-bit floats are computed in 32 bits.
        combines: all-reduces are made one up to so many bytes together.

    XLA for CPUs has no 16-bit arithmetic and combines all it can; XLA for GPUs combines up to 30 MiB
    (`xla_gpu_all_reduce_combine_threshold_bytes`, openxla/xla, xla/debug_options_flags.cc).
    """

    platform: str
    step: int
    widens: bool = False
    combines: float = math.inf


CPU = Backend("cpu", 64, widens=True)
BACKENDS = {
    "cpu": CPU,
    "gpu": Backend("gpu", 256, combines=30 * 2**20),
    "tpu": Backend("tpu", 512, combines=30 * 2**20),
}
