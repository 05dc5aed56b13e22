"""Finds the cheapest chain of collectives from one spec to another: A* over the specs between.

    [x]     →  [y+z+x]      slice y+z, then a permute: a quarter of what gathering x first sends
    [·, x+y+z] → [x, y+z]   all-to-all of z, which leaves [z, x+y], then a permute, which changes what every axis splits

Who has less to send sends less, so slices and reduce-scatters come first, all-gathers last, and between the two blocks
change places; a permute moves all of them at once to any other mesh axes that cut the value into as many blocks. Any
move may end at a spec that only a later permute makes right. An axis of the value is cut by mesh axes that start or
target name, into numbers of parts that divide what either cuts it into: so parts are even on the way as well.

Whichever of two mesh axes is summed over first, as much is sent in all, and the second sends less: so the later axes of
a mesh go first, which are placed inside nodes and slices, and between those only their share is sent.

Each device sends at least what it lacks, which steers the search: most reshards are found in the first few specs.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

from ..specs.in_time import without
from ..specs.spec import Axes, Grid, Spec, common, with_splits
from .kinds import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, COLLECTIVE_PERMUTE, REDUCE_SCATTER, SLICE, Kind
from .permutation import MeshShape, crossed
from .reshard import Reshard, ReshardStep, cost

# Of up to so many mesh axes that differ in size all permutes are tried.
_FEW = 3


def reshard(start: Spec, target: Spec, sizes: Mapping[str, int]) -> Reshard:
    """Returns the cheapest reshard of a value from `start` to `target`.

    The target may leave the value partial over some of the axes that it is partial over already.
    """
    if start == target:
        return Reshard(start, ())
    mesh, looped = tuple(sizes.items()), _in_iteration(start, target, sizes)
    if not looped:
        return Reshard(start, _cheapest(start, target, mesh))
    # In an iteration its block is a smaller value, which devices share as they share any other.
    ends = (functools.reduce(without, looped.values(), spec) for spec in (start, target))
    steps = (step._replace(result=_looped(step.result, looped)) for step in _cheapest(*ends, mesh))
    return Reshard(start, tuple(steps))


def _in_iteration(start: Spec, target: Spec, sizes: Mapping[str, int]) -> dict[int, str]:
    """Returns the axes of a value of which both specs say that an axis in time splits them, with that axis."""
    pairs = enumerate(zip(start.splits, target.splits, strict=True))
    in_time = sizes.in_time if isinstance(sizes, Grid) else ()
    return {i: axis for i, splits in pairs for axis in in_time if all(axis in split for split in splits)}


def _looped(spec: Spec, looped: Mapping[int, str]) -> Spec:
    """Returns a spec with axes in time behind those that split axes of the value."""
    return with_splits(spec, {i: (*spec.splits[i], axis) for i, axis in looped.items()})


@functools.lru_cache(maxsize=65536)
def _cheapest(start: Spec, target: Spec, mesh: MeshShape) -> tuple[ReshardStep, ...]:
    """Returns the chain that sends the fewest bytes to a target that is partial over no more than `start`.

    Of those that send as many it is the shortest, and of these the one that sums least over the first mesh axes.
    """
    search, count = _Search(start, target, dict(mesh)), itertools.count()
    waiting: list[tuple] = [(search.least(start), 0, (0.0,) * len(mesh), next(count), 0.0, start, ())]
    settled: set[Spec] = set()
    while waiting:
        _, length, summed, _, sent, spec, steps = heapq.heappop(waiting)
        if spec == target:
            return tuple(_crossing(start, steps, mesh))
        if spec in settled:
            continue
        settled.add(spec)
        for step in search.moves(spec):
            if step.result not in settled:
                # Sums that are equal but for rounding are equal, so that the shorter chain wins.
                sends = cost(spec, step, search.sizes)
                bound = round(sent + sends + search.least(step.result), 12)
                over = search.summed(summed, step, sends)
                rest = sent + sends, step.result, (*steps, step)
                heapq.heappush(waiting, (bound, length + 1, over, next(count), *rest))
    raise AssertionError(f"no reshard leads from {start} to {target}")


def _crossing(start: Spec, steps: Iterable[ReshardStep], mesh: MeshShape) -> Iterator[ReshardStep]:
    """Adds to each permute the mesh axes that its blocks cross."""
    for step in steps:
        yield step if step.axes else step._replace(axes=crossed(start, step.result, mesh))
        start = step.result


class _Search:
    """The moves between one start and one target, and what is at least sent from a spec on."""

    def __init__(self, start: Spec, target: Spec, sizes: dict[str, int]):
        self.target, self.sizes, self.order = target, sizes, tuple(sizes)
        self.named = tuple(dict.fromkeys((*start.axes, *start.partial, *target.axes)))
        # Where all axes are as long, a permute can wait until those that the target does not name are to be gathered.
        # Else it may have to go before an all-to-all; of many axes those are too many permutes to try.
        late = len({sizes[a] for a in self.named}) == 1 or len(self.named) > _FEW
        self.others = tuple(a for a in self.named if not late or a not in target.axes)
        self.size = 1 / self.count(target.axes)
        self.parts = tuple(math.lcm(*map(self.count, pair)) for pair in zip(start.splits, target.splits, strict=True))

    def count(self, axes: Iterable[str]) -> int:
        """Counts the parts into which mesh axes cut."""
        return math.prod(self.sizes[a] for a in axes)

    def least(self, spec: Spec) -> float:
        """Returns a lower bound of what a device sends from a spec to the target, per byte of the whole value.

        Of a sum over n devices each element takes n - 1 messages to one device and one more to each other that needs
        it; what is free can divide the first among as many devices. Of the rest a device gets what it lacks.
        """
        to_sum = [a for a in spec.partial if a not in self.target.partial]
        if to_sum:
            used, n = {*spec.axes, *spec.partial}, self.count(to_sum)
            shared = n * self.count(spec.axes) * self.count(a for a in self.named if a not in used)
            return self.size + (n - 2) / shared
        there = 1.0
        for have, want in zip(spec.splits, self.target.splits, strict=True):
            same = common(have, want)
            if same < len(have):
                if same < len(want):
                    return self.size  # some device has nothing of what it needs
                there /= self.count(have[same:])
        return self.size * (1 - there)

    def moves(self, spec: Spec) -> Iterator[ReshardStep]:
        """Yields the moves from a spec that may lead on: of those that are as good, the first is taken."""
        yield from self.sums(spec)
        yield from self.slices(spec)
        yield from self.exchanges(spec)
        yield from self.permutes(spec)
        yield from self.gathers(spec)

    def fits(self, i: int, split: Axes) -> bool:
        """Says whether an axis of the value may be cut so on the way."""
        return self.parts[i] % self.count(split) == 0

    def onto(self, kind: Kind, spec: Spec, axes: Iterable[str], partial: Axes | None = None) -> Iterator[ReshardStep]:
        """Yields moves that split an axis of the value over more mesh axes, in any order."""
        for more in _sequences(axes):
            for i, have in enumerate(spec.splits):
                if self.fits(i, have + more):
                    left = spec.partial if partial is None else tuple(a for a in partial if a not in more)
                    yield ReshardStep(kind, more, i, -1, with_splits(spec, {i: have + more}, left))

    def sums(self, spec: Spec) -> Iterator[ReshardStep]:
        """Yields reduce-scatters, and all-reduces of what the target does not split, over all axes at once."""
        to_sum = tuple(a for a in spec.partial if a not in self.target.partial)
        yield from self.onto(REDUCE_SCATTER, spec, to_sum, spec.partial)
        for over in dict.fromkeys((tuple(a for a in to_sum if a not in self.target.axes), to_sum)):
            if over:
                left = tuple(a for a in spec.partial if a not in over)
                yield ReshardStep(ALL_REDUCE, over, -1, -1, with_splits(spec, {}, left))

    def summed(self, before: tuple[float, ...], step: ReshardStep, sends: float) -> tuple[float, ...]:
        """Adds what a step sends to the sums over the first of its mesh axes, in the order of the mesh."""
        if not step.kind.sums:
            return before
        first = min(map(self.order.index, step.axes))
        return (*before[:first], round(before[first] + sends, 12), *before[first + 1 :])

    def slices(self, spec: Spec) -> Iterator[ReshardStep]:
        used = {*spec.axes, *spec.partial}
        yield from self.onto(SLICE, spec, [a for a in self.target.axes if a not in used])

    def exchanges(self, spec: Spec) -> Iterator[ReshardStep]:
        """Yields all-to-alls: the minor-most mesh axes of one axis of the value go to the end of another's."""
        for j, have in enumerate(spec.splits):
            for keep in range(len(have)):
                for i, others in enumerate(spec.splits):
                    if i != j and self.fits(i, others + have[keep:]):
                        moved = {j: have[:keep], i: others + have[keep:]}
                        yield ReshardStep(ALL_TO_ALL, have[keep:], i, j, with_splits(spec, moved))

    def permutes(self, spec: Spec) -> Iterator[ReshardStep]:
        """Yields moves of blocks, as large as they are, to where the target is begun, or gathered from."""
        for splits in self.relabelled(spec, 0, frozenset(spec.partial)):
            if splits != spec.splits:
                yield ReshardStep(COLLECTIVE_PERMUTE, (), -1, -1, Spec(splits, spec.partial))

    def relabelled(self, spec: Spec, i: int, used: frozenset[str]) -> Iterator[tuple[Axes, ...]]:
        """Yields splits of the axes of the value from `i` on, into as many parts as they have, by unused mesh axes."""
        if i == len(spec.splits):
            yield ()
            return
        want, count = self.target.splits[i], self.count(spec.splits[i])
        begun = [want[:k] for k in range(len(want), -1, -1)]
        longer = (first + more for first in begun for more in _sequences(a for a in self.others if a not in first))
        for split in dict.fromkeys((*begun, spec.splits[i], *longer)):
            if self.count(split) == count and used.isdisjoint(split):
                yield from ((split, *rest) for rest in self.relabelled(spec, i + 1, used.union(split)))

    def gathers(self, spec: Spec) -> Iterator[ReshardStep]:
        """Yields all-gathers, of the first axis last: parts of that lie one behind the other, others are transposed."""
        for i in reversed(range(len(spec.splits))):
            have = spec.splits[i]
            for keep in range(len(have)):
                yield ReshardStep(ALL_GATHER, have[keep:], i, -1, with_splits(spec, {i: have[:keep]}))


def _sequences(axes: Iterable[str]) -> Iterator[Axes]:
    """Yields all sequences of one axis or more."""
    axes = tuple(axes)
    return itertools.chain.from_iterable(itertools.permutations(axes, k) for k in range(1, len(axes) + 1))
