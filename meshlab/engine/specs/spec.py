"""A spec says how one value is sharded on the mesh.

A spec says, for each axis of a value, which mesh axes split it (major first), and over which mesh axes the value is a
**partial** sum: every device holds an addend, and the value is the sum of them over those axes.

    Spec((("data",), ()), ())            # [batch, hidden]: batch sharded over `data`, hidden replicated
    Spec(((), ()), ("model",))           # replicated, but only an addend: still to be summed over `model`

A mesh axis stands at most once in a spec. Mesh axes of size 1 never stand in one: they shard nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

Axes = tuple[str, ...]
# The mesh axes of each dim of some rules.
AxesByDim = Mapping[str, Axes]
Padded = Mapping[int | tuple[int, str], int]


class Spec(NamedTuple):
    """Says for each axis of a value which mesh axes shard it, and over which the value is partial.

    Attributes:
        splits: for each axis of the value the mesh axes that split it, major first.
        partial: the mesh axes over which the value is a partial sum, sorted.
    """

    splits: tuple[Axes, ...]
    partial: Axes = ()

    @property
    def axes(self) -> Axes:
        """The mesh axes that shard some axis of the value."""
        return tuple(axis for split in self.splits for axis in split)

    def reduced(self) -> Spec:
        """Returns the spec after its partial sum is reduced: the same splits, with nothing left to sum."""
        return Spec(self.splits) if self.partial else self

    def __str__(self):
        inside = ", ".join("+".join(split) or "·" for split in self.splits)
        return f"[{inside}]" + (f" partial over {'+'.join(self.partial)}" if self.partial else "")


def replicated(rank: int) -> Spec:
    return Spec(((),) * rank)


class Grid(dict[str, int]):
    """Maps mesh axes to their sizes, and sizes of dims to those that they are padded to.

    Attributes:
        in_time: the mesh axes in time, whose parts meet on one device.
        padded: the padded size of each size that the axes which shard it do not divide, wherever it is sharded; that of
            (size, axis in time) is what an axis of the value is padded to that this axis alone splits.
        uneven: by mesh axis, how many elements each part has of what it shards, where not all have as many: the layers
            of stages. Parts are as long as the longest.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        padded: Padded = MappingProxyType({}),
        in_time: Iterable[str] = (),
        uneven: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    ):
        super().__init__(sizes)
        self.padded, self.in_time, self.uneven = padded, frozenset(in_time), uneven
        self.pads = bool(padded or uneven)
        self._uneven_sizes = frozenset(map(sum, uneven.values()))

    def padded_size(self, size: int, split: Axes) -> int:
        """Returns what an axis of a value is padded to that is sharded over mesh axes."""
        if split and split[0] in self.uneven:
            return len(self.uneven[split[0]]) * max(self.uneven[split[0]])
        if not split or size not in self.padded:
            return size
        return self.padded.get((size, split[0]), self.padded[size])

    def may_pad(self, size: int) -> bool:
        """Says whether an axis of a value of this size is padded where some mesh axes shard it."""
        return size in self.padded or size in self._uneven_sizes

    def part_sizes(self, size: int, split: Axes) -> tuple[int, ...]:
        """Returns how many elements each part has, without padding, of an axis that is sharded over mesh axes."""
        if split and split[0] in self.uneven:
            return self.uneven[split[0]]
        count = math.prod(self[axis] for axis in split)
        part = self.padded_size(size, split) // count
        return tuple(max(0, min(part, size - number * part)) for number in range(count))

    def part_range(self, size: int, split: Axes, where: Mapping[str, int]) -> tuple[int, int]:
        """Returns which elements of an axis that is sharded over mesh axes one part has: (start, stop).

        Args:
            size: of the axis, without padding.
            split: the mesh axes, major first.
            where: the coordinate on each of them.
        """
        number = 0
        for axis in split:
            number = number * self[axis] + where[axis]
        parts = self.part_sizes(size, split)
        return sum(parts[:number]), sum(parts[: number + 1])

    @functools.cached_property
    def key(self) -> tuple:
        """Equal for two grids that are equal."""
        return (*self.items(), *self.padded.items(), self.in_time, *self.uneven.items())


def padded_shape(shape: tuple[int, ...], spec: Spec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the shape that the shards of a value make up together: with padding where it is sharded unevenly."""
    if not isinstance(sizes, Grid) or not sizes.pads:
        return shape
    return tuple(sizes.padded_size(size, split) for size, split in zip(shape, spec.splits, strict=True))


def local_shape(shape: tuple[int, ...], spec: Spec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the shape of one device's shard of a value of `shape`; `sizes` are the mesh axes'."""
    return tuple(
        size // math.prod(sizes[a] for a in split) if split else size
        for size, split in zip(padded_shape(shape, spec, sizes), spec.splits, strict=True)
    )


def split_count(spec: Spec, sizes: Mapping[str, int]) -> int:
    """Counts the different shards of a value."""
    return math.prod(sizes[a] for a in spec.axes)


def common(have: Axes, want: Axes) -> int:
    """Counts the mesh axes, major first, that two splits begin with alike."""
    return next((k for k, (a, b) in enumerate(zip(have, want, strict=False)) if a != b), min(len(have), len(want)))


def with_splits(spec: Spec, changed: Mapping[int, Axes], partial: Axes | None = None) -> Spec:
    """Returns a spec with other splits of some axes, by their numbers, and with another partial sum if one is given."""
    splits = tuple(changed.get(i, split) for i, split in enumerate(spec.splits))
    return Spec(splits, spec.partial if partial is None else partial)


def fitting(axes: Axes, limit: int, sizes: Mapping[str, int]) -> Axes:
    """Returns the first of some mesh axes, as long as the number of parts divides `limit`."""
    count = 1
    for position, axis in enumerate(axes):
        count *= sizes[axis]
        if limit % count:
            return axes[:position]
    return axes
