"""What compilers for different devices do otherwise, as far as memory goes."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Backend:
    """How one compiler lays out memory.

    Attributes:
        platform: "cpu", "gpu" or "tpu".
        step: what is taken from the heap is a multiple of so many bytes.
    """

    platform: str
    step: int


CPU = Backend("cpu", 64)
BACKENDS = {"cpu": CPU, "gpu": Backend("gpu", 256), "tpu": Backend("tpu", 512)}
