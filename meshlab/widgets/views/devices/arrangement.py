"""The arrangement of the sites of a mesh as nested blocks on a plane: cells in lines and rows, blocks of blocks.

    arranged = arrange(sites_of(mesh))
    arranged.counts             cells along each level; their product is how many cells are drawn
    arranged.cell(i)            the box of level positions that a cell covers

Of more than `MOST` devices a cell covers several, and a window shows a part of them: what is drawn is never more.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

from .sites import Level, Sites

# The most cells of one picture, and the longest line of a mesh axis that is drawn on no machine.
MOST, LINE = 512, 32
# Width over height that a picture should have, and the least gap between blocks, in cells.
SHAPE, GAP = 1.75, 0.5

Window = Sequence[tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Tier:
    """A level as it is arranged.

    Attributes:
        level: the level.
        low: the first position in the window.
        high: the position behind the last.
        step: how many positions one cell, or one block, covers.
        columns: how many are side by side before the next row begins.
        straight: whether neighbours are drawn side by side, as cells of one line.
        wide: the width of one of its blocks, in cells.
        tall: the height of one of its blocks, in cells.
        gap: between its blocks, in cells.
    """

    level: Level
    low: int
    high: int
    step: int
    columns: int = 1
    straight: bool = True
    wide: float = 1.0
    tall: float = 1.0
    gap: float = 0.0

    @property
    def count(self) -> int:
        """The number of cells, or blocks, along it."""
        return -(-(self.high - self.low) // self.step)

    @property
    def rows(self) -> int:
        return -(-self.count // self.columns)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of all of them, in cells."""
        wide = self.columns * self.wide + (self.columns - 1) * self.gap
        return wide, self.rows * self.tall + (self.rows - 1) * self.gap

    def at(self, number: int) -> tuple[float, float]:
        """Returns the upper left corner of one of them, in cells."""
        row, column = divmod(number, self.columns)
        return column * (self.wide + self.gap), row * (self.tall + self.gap)


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """All tiers, outermost first."""

    tiers: tuple[Tier, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of cells, or blocks, along each level."""
        return tuple(tier.count for tier in self.tiers)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height, in cells."""
        return self.tiers[0].size

    @property
    def whole(self) -> bool:
        """Whether each cell is one device, and all of them are drawn."""
        return all(tier.step == 1 and tier.high - tier.low == tier.level.size for tier in self.tiers)

    def numbers(self) -> itertools.product[tuple[int, ...]]:
        """Returns the number of each cell along each tier, the innermost fastest."""
        return itertools.product(*map(range, self.counts))

    def at(self, numbers: Sequence[int]) -> tuple[float, float]:
        """Returns the upper left corner of a cell, or of a block where the inner numbers are left out, in cells."""
        corners = [tier.at(number) for tier, number in zip(self.tiers, numbers, strict=False)]
        return sum(x for x, _ in corners), sum(y for _, y in corners)

    def box(self, numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Returns the positions that a cell covers along each level: (first, behind the last)."""
        return tuple(
            (tier.low + number * tier.step, min(tier.high, tier.low + (number + 1) * tier.step))
            for tier, number in zip(self.tiers, numbers, strict=True)
        )


def arrange(sites: Sites, window: Window | None = None, gap: float = GAP) -> Arrangement:
    """Arranges the devices of a mesh, or those of a part of it.

    Args:
        sites: where the devices stand.
        window: the positions along each level that are shown; all of them where it is None.
        gap: between blocks, in cells.

    Returns:
        The tiers. The last two axes of a torus, or of a mesh, run to the right and down; what is outside of them are
        blocks, side by side so that all together is about as wide as a slide.
    """
    shown = list(window) if window else [(0, level.size) for level in sites.levels]
    steps = steps_of([high - low for low, high in shown], MOST)
    tiers: list[Tier] = []
    wide, tall, flat = 1.0, 1.0, 0
    for level, (low, high), step in reversed(list(zip(sites.levels, shown, steps, strict=True))):
        tier = Tier(level, low, high, step, wide=wide, tall=tall)
        tier, flat = _columns(tier, flat, gap, LINE if len(shown) > 1 else LINE // 2)
        tiers.append(tier)
        wide, tall = tier.size
    return Arrangement(tuple(reversed(tiers)))


def steps_of(sizes: Sequence[int], most: int) -> list[int]:
    """Returns how many positions one cell covers along each of several sizes, so that cells are at most `most`."""
    steps = [1] * len(sizes)
    while math.prod(-(-size // step) for size, step in zip(sizes, steps, strict=True)) > most:
        longest = max(range(len(sizes)), key=lambda i: (-(-sizes[i] // steps[i]), -i))
        steps[longest] *= 2
    return steps


def _columns(tier: Tier, flat: int, gap: float, line: int) -> tuple[Tier, int]:
    """Chooses the lines of a tier; `flat` counts the directions that neighbours have taken: right, then down."""
    count = tier.count
    if tier.level.place == "chip":
        return dataclasses.replace(tier, columns=count, wide=1 / count), flat
    apart = tier.level.place in ("nodes", "slice")
    if flat < 2 and not apart and (tier.level.place == "torus" or count <= line):
        return dataclasses.replace(tier, columns=count if flat == 0 else 1), flat + 1
    folded = dataclasses.replace(tier, straight=False, gap=gap if flat or apart else 0.0)
    fits = [dataclasses.replace(folded, columns=c) for c in range(1, count + 1) if count % c == 0]
    return min(fits, key=_stretch), max(flat, 2)


def _stretch(tier: Tier) -> float:
    wide, tall = tier.size
    return abs(math.log(wide / tall / SHAPE))
