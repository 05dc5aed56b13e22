"""The place of a layout among all ways to compute: how many are certainly faster, and how many certainly slower.

    rank = choice.rank("batch:data ffn:model")
    print(rank)        of 384 ways to compute it 5 are certainly faster, 350 certainly slower

Certainly faster is a way of which a layout was met that fits and takes less time; certainly slower is one whose kernels
alone take longer. Those between the two were not looked at.
"""

from __future__ import annotations

import dataclasses

from ..best_first.search import Search


@dataclasses.dataclass(frozen=True)
class Rank:
    """The place of a layout among all ways to compute.

    Attributes:
        seconds: of a step under it.
        faster: ways to compute that are certainly faster, however they are stored best.
        slower: ways to compute that are certainly slower, however they are stored.
        ways: all of them.
    """

    seconds: float
    faster: int
    slower: int
    ways: int

    def __str__(self):
        return (
            f"of {self.ways:,} ways to compute it {self.faster:,} are certainly faster, and {self.slower:,} certainly"
            " slower"
        )


def rank(search: Search, seconds: float) -> Rank:
    """Returns the place of a layout that takes so many seconds."""
    # Orders of axes are no ways of their own.
    faster = {
        frozenset((dim, frozenset(axes)) for dim, axes in price.layout.dim_rules)
        for price in search.met.values()
        if price.seconds < seconds and search.fits(price)
    }
    slower = int((search.bounds > seconds).sum())
    return Rank(seconds, len(faster), slower, int(search.bounds.size))
