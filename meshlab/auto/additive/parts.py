"""The parts of layouts that an integer program has variables for: of few sets of dims, of which none contains another.

A set of dims stands for everything whose cost depends on these dims alone, so a hundred equal layers need one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .choices import Dims, Space, Splits

Parts = Mapping[Dims, tuple[Splits, ...]]


def parts_of(space: Space, sets: Iterable[Dims]) -> Parts:
    """The legal parts of the largest sets, which no other contains."""
    largest: list[Dims] = []
    for dims in sorted(set(sets), key=lambda s: (-len(s), sorted(s))):
        if not any(dims <= other for other in largest):
            largest.append(dims)
    return {dims: tuple(space.splits(dims)) for dims in largest}
