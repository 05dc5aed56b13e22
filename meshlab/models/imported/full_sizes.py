"""The sizes that all imported models have, small: each divides by 2 and 4, and all but `heads` by 8."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of a small model; `embed` divided by `heads` is the size of a head."""

    batch: int = 8
    seq: int = 16
    embed: int = 16
    heads: int = 4
    ffn: int = 32
    vocab: int = 32
    layers: int = 2
