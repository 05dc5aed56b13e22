"""How tokens fall on experts: an assumption, of which a plan says nothing.

    "balanced"          all experts are chosen equally often
    "zipf:1.2"          the first most often, the n-th in proportion to n ** -1.2
    (412, 9, 77, …)     measured: how often each was chosen

Every device that sends is taken to choose alike: counts are those of all tokens together.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...engine.errors import shown

BALANCED, ZIPF = "balanced", "zipf"
Load = str | tuple[float, ...]


def read_load(load: Any) -> Load:
    """Returns how tokens fall on experts as it is compared and kept: a text, or a tuple of counts.

    Raises:
        ValueError: it is neither, or no such numbers; the message says what it must be.
    """
    if isinstance(load, str):
        exponent(load)
        return load
    try:
        counts = np.asarray(load, np.float64)
    except (TypeError, ValueError):
        counts = np.zeros(())
    if counts.ndim != 1 or not np.isfinite(counts).all() or (counts < 0).any() or not counts.sum() > 0:
        raise ValueError(_wrong(load))
    return tuple(map(float, counts))


def exponent(load: str) -> float:
    """Returns the exponent of Zipf's law that a text says; 0 of "balanced".

    Raises:
        ValueError: it says none.
    """
    law, _, text = load.partition(":")
    if load == BALANCED:
        return 0.0
    try:
        power = float(text)
    except ValueError:
        power = math.nan
    if law != ZIPF or not 0 <= power < math.inf:
        raise ValueError(_wrong(load))
    return power


def _wrong(load: Any) -> str:
    return (
        f'load must be "balanced", "zipf:1.2" with any exponent of at least 0, or one count for each expert, at least'
        f" one of them above 0; not {shown(load)}."
    )


@functools.lru_cache(maxsize=1024)
def rows_of(load: Load, count: int, parts: int) -> np.ndarray:
    """Returns how many rows each part of so many experts gets, as multiples of the mean.

    Args:
        load: as `read_load` returns it, of as many experts.
        count: how many there are.
        parts: of them, in their order, all of one size.
    """
    counts = np.array(load) if isinstance(load, tuple) else np.arange(1.0, count + 1) ** -exponent(load)
    return counts.reshape(parts, -1).sum(1) / counts.sum() * parts
