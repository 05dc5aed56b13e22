"""Specs: how one value lies on the mesh.

A spec says, for each axis of a value, which mesh axes split it (major first), and over which mesh axes the value is a
**partial** sum: every device holds an addend, and the value is the sum of them over those axes.

    Spec((("data",), ()), ())            # [batch, hidden]: batch split over `data`, hidden whole
    Spec(((), ()), ("model",))           # whole on every device, but only an addend: still to be summed over `model`

A mesh axis stands at most once in a spec. Mesh axes of size 1 never stand in one: they split nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

Axes = tuple[str, ...]


class Spec(NamedTuple):
    """How a value lies on the mesh.

    Attributes:
        splits: for each axis of the value the mesh axes that split it, major first.
        partial: the mesh axes over which the value is a partial sum, sorted.
    """

    splits: tuple[Axes, ...]
    partial: Axes = ()

    @property
    def axes(self) -> Axes:
        """The mesh axes that split some axis of the value."""
        return tuple(axis for split in self.splits for axis in split)

    def resolved(self) -> Spec:
        """The same splits, with nothing left to sum."""
        return Spec(self.splits) if self.partial else self

    def __str__(self):
        inside = ", ".join("+".join(split) or "·" for split in self.splits)
        return f"[{inside}]" + (f" partial over {'+'.join(self.partial)}" if self.partial else "")


def whole(rank: int) -> Spec:
    """The spec of a value of `rank` axes that every device holds whole."""
    return Spec(((),) * rank)


class Grid(dict[str, int]):
    """The mesh axes' sizes, and what is padded on them.

    Attributes:
        padded: for sizes that the axes which split them do not divide, what they are padded to wherever they are split.
    """

    def __init__(self, sizes: Mapping[str, int], padded: Mapping[int, int] = MappingProxyType({})):
        super().__init__(sizes)
        self.padded = padded

    @property
    def key(self) -> tuple:
        """What two grids are equal by."""
        return (*self.items(), *self.padded.items())


def padded_shape(shape: tuple[int, ...], spec: Spec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the shape of a whole value as its shards make it up: with padding where it is split unevenly."""
    padded = sizes.padded if isinstance(sizes, Grid) else {}
    if not padded:
        return shape
    return tuple(padded.get(n, n) if split else n for n, split in zip(shape, spec.splits, strict=True))


def local_shape(shape: tuple[int, ...], spec: Spec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the shape of one device's shard of a value of `shape`; `sizes` are the mesh axes'."""
    return tuple(
        size // math.prod(sizes[a] for a in split) if split else size
        for size, split in zip(padded_shape(shape, spec, sizes), spec.splits, strict=True)
    )


def split_count(spec: Spec, sizes: Mapping[str, int]) -> int:
    """Returns the number of different shards that a value is cut into."""
    return math.prod(sizes[a] for a in spec.axes)
