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

import math
from collections.abc import Mapping
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
    splits = list(start.splits)
    partial = set(start.partial)
    to_sum = partial - set(target.partial)
    moves: list[Hop] = []

    def record(kind: str, axes: Axes, axis: int, other: int = -1):
        moves.append(Hop(kind, axes, axis, other, Spec(tuple(splits), tuple(sorted(partial)))))

    def extend(summing: bool) -> bool:
        """Splits one axis further towards the target: by slices, or (`summing`) by reduce-scatter."""
        used = {a for split in splits for a in split}
        for i, want in enumerate(target.splits):
            have = splits[i]
            if want == have or want[: len(have)] != have:
                continue
            more = []
            for a in want[len(have) :]:
                if a in used or (a in partial) != summing or (summing and a not in to_sum):
                    break
                more.append(a)
            if more:
                splits[i] = have + tuple(more)
                partial.difference_update(more)
                to_sum.difference_update(more)
                record("reduce-scatter" if summing else "slice", tuple(more), i)
                return True
        return False

    def exchange() -> bool:
        """Moves the minor-most mesh axis of one axis of the value to the end of another's."""
        for j, have in enumerate(splits):
            if not have or target.splits[j][: len(have)] == have:
                continue
            for i, want in enumerate(target.splits):
                mine = splits[i]
                if i != j and want[: len(mine)] == mine and want[len(mine) : len(mine) + 1] == have[-1:]:
                    splits[j], splits[i] = have[:-1], mine + have[-1:]
                    record("all-to-all", have[-1:], i, j)
                    return True
        return False

    def gather() -> bool:
        for i, want in enumerate(target.splits):
            have = splits[i]
            if want[: len(have)] != have:
                keep = next((k for k, (a, b) in enumerate(zip(have, want, strict=False)) if a != b), len(want))
                splits[i] = have[:keep]
                record("all-gather", have[keep:], i)
                return True
        return False

    def reduce() -> bool:
        if not to_sum:
            return False
        axes = tuple(sorted(to_sum))
        partial.difference_update(axes)
        to_sum.clear()
        record("all-reduce", axes, -1)
        return True

    while extend(False) or extend(True) or reduce() or exchange() or gather():
        pass
    return tuple(moves)
