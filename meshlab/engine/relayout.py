"""Relayouts: the chain of collectives that takes a value from one spec to another.

    partial over x, whole   →  split over x     one reduce-scatter
    partial over x          →  whole            one all-reduce
    split over x            →  whole            one all-gather
    axis 0 over x           →  axis 1 over x    one all-to-all
    whole                   →  split over x     a slice: every device keeps its part, nothing moves

Of several moves that a relayout needs, those that shrink the shard go first (slices, then reduce-scatters), and those
that grow it last (all-gathers), so that what travels is as small as it can be. The list of hops is what is counted,
drawn and run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .spec import Axes, Spec

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


class Hop(NamedTuple):
    """One move of a relayout.

    Attributes:
        kind: "slice" (local) or a collective.
        axes: the mesh axes, major first.
        axis: the axis of the value that becomes split (slice, reduce-scatter, all-to-all) or whole (all-gather).
        other: all-to-all only: the axis of the value that becomes whole.
        result: the spec after the hop.
    """

    kind: str
    axes: Axes
    axis: int
    other: int
    result: Spec


def wire_factor(kind: str, n: int) -> float:
    """What one device sends, per byte of its operand, among `n` devices on a ring.

    Source: the bandwidth-optimal ring algorithms (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009):
    all-reduce 2(n-1)/n, reduce-scatter and all-to-all (n-1)/n, all-gather n-1; a permute sends its operand once.
    """
    if n == 1:
        return 0.0
    return {
        "all-reduce": 2 * (n - 1) / n,
        "reduce-scatter": (n - 1) / n,
        "all-to-all": (n - 1) / n,
        "all-gather": float(n - 1),
        "collective-permute": 1.0,
    }[kind]


def wire_bytes(kind: str, payload: int, axes: Axes, sizes: Mapping[str, int]) -> float:
    """Bytes that one device sends for a collective with an operand of `payload` bytes over mesh `axes`."""
    return payload * wire_factor(kind, math.prod(sizes[a] for a in axes))


def resolution(spec: Spec, wanted: Spec | None) -> Spec:
    """The spec that a partial sum is resolved to: its own splits, and those of `wanted` that extend them."""
    if wanted is None:
        return spec.resolved()
    used = set(spec.axes)
    splits = []
    for have, want in zip(spec.splits, wanted.splits, strict=True):
        more = want[len(have) :]
        if want[: len(have)] == have and more and not used.intersection(more):
            used.update(more)
            splits.append(want)
        else:
            splits.append(have)
    return Spec(tuple(splits))


def hops(start: Spec, target: Spec) -> tuple[Hop, ...]:
    """Returns the moves that take a value from `start` to `target`.

    The target may leave the value partial over some of the axes that it is partial over already.
    """
    route = _Route(start, target)
    while route.slice() or route.scatter() or route.reduce() or route.exchange() or route.gather():
        pass
    return tuple(route.moves)


class _Route:
    """A relayout on its way: each method makes one move towards the target, and says whether there was one to make."""

    def __init__(self, start: Spec, target: Spec):
        self.target = target.splits
        self.splits = list(start.splits)
        self.partial = set(start.partial)
        self.to_sum = self.partial - set(target.partial)
        self.moves: list[Hop] = []

    def record(self, kind: str, axes: Axes, axis: int, other: int = -1) -> bool:
        self.partial.difference_update(axes if kind in ("all-reduce", "reduce-scatter") else ())
        self.to_sum.difference_update(axes)
        result = Spec(tuple(self.splits), tuple(sorted(self.partial)))
        self.moves.append(Hop(kind, axes, axis, other, result))
        return True

    def slice(self) -> bool:
        """Keeps this device's part of what is whole."""
        return self.extend("slice", lambda axis: axis not in self.partial)

    def scatter(self) -> bool:
        """Sums, and keeps this device's part of the sum."""
        return self.extend("reduce-scatter", lambda axis: axis in self.to_sum)

    def extend(self, kind: str, allowed: Callable[[str], bool]) -> bool:
        used = {a for split in self.splits for a in split}
        for i, want in enumerate(self.target):
            have = self.splits[i]
            if want == have or want[: len(have)] != have:
                continue
            more = tuple(itertools.takewhile(lambda a: a not in used and allowed(a), want[len(have) :]))
            if more:
                self.splits[i] = have + more
                return self.record(kind, more, i)
        return False

    def reduce(self) -> bool:
        """Sums what is to be whole, over all axes at once."""
        return bool(self.to_sum) and self.record("all-reduce", tuple(sorted(self.to_sum)), -1)

    def exchange(self) -> bool:
        """Moves the minor-most mesh axis of one axis of the value to the end of another's."""
        for j, have in enumerate(self.splits):
            if not have or self.target[j][: len(have)] == have:
                continue
            for i, want in enumerate(self.target):
                mine = self.splits[i]
                if i != j and want[: len(mine)] == mine and want[len(mine) : len(mine) + 1] == have[-1:]:
                    self.splits[j], self.splits[i] = have[:-1], mine + have[-1:]
                    return self.record("all-to-all", have[-1:], i, j)
        return False

    def gather(self) -> bool:
        """Makes an axis whole as far as it is split otherwise than the target."""
        for i, (have, want) in enumerate(zip(self.splits, self.target, strict=True)):
            if want[: len(have)] != have:
                shared = (k for k, (a, b) in enumerate(zip(have, want, strict=False)) if a != b)
                keep = next(shared, len(want))
                self.splits[i] = have[:keep]
                return self.record("all-gather", have[keep:], i)
        return False
