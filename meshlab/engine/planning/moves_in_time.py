"""Says at which specs a value stops on its way into an iteration over an axis in time, or out of it.

    partial over data, micro   →  [model]            stops at [model] partial over micro
    [data+micro]               →  [·]                stops at [data]
    [·]                        →  [data+micro]       stops at [data]
    [·]                        →  [micro]            stops at [data], and at [data+micro] if blocks are cut behind data
    [micro] partial over data  →  [data]             a reduce-scatter to [data+micro]: blocks are joined behind the loop

So a collective goes over devices, or leaves the loop, and never both. Blocks are cut, and joined, in one spec for all
values of a dim, for then they have the same elements wherever these meet; how devices share them inside of an iteration
is free (`plans/cuts_in_time.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

from ..code.operations import Operation
from ..collectives.chains import reshard
from ..collectives.reshard import price, reduced_spec
from ..legality.legal_rules import LegalRules
from ..programs.spread_names import Names
from ..specs.in_time import minus, part_in_time, without, without_all
from ..specs.spec import Grid, Spec, with_splits


class MovesInTime:
    """The moves of values on the axes in time of one layout."""

    def __init__(self, rules: LegalRules, sizes: Grid):
        self.rules, self.axes, self.sizes = rules, rules.in_time, sizes

    def way(self, names: Names, available: Sequence[Spec], target: Spec) -> tuple[tuple[Spec, ...], list[Spec]]:
        """Returns the specs from which a value may start to a target, and the stops of the way that sends least."""
        over = set(target.partial).difference(self.axes)
        starts = usable([spec for spec in available if over <= set(spec.partial)], target, self.axes)
        ways = [(start, *self.stops(names, start, target), target) for start in starts]
        _, *stops, _ = min(ways, key=self.sent)
        return tuple(start for start, *between, _ in ways if not between), stops

    def stops(self, names: Names, start: Spec, target: Spec) -> Iterator[Spec]:
        """Yields the specs at which a value stops: where its blocks are cut or joined, or where it is whole in time."""
        if self.joined(start, target) and not set(start.partial) <= {*self.axes, *target.partial}:
            # Summed over devices while it is a block.
            start = reduced_spec(start, self.of_block(names, start, target), self.axes)
            yield start
        if any(part_in_time(start, axis)[0] != part_in_time(target, axis)[0] for axis in self.axes):
            if (cut := self.cut(names, target)) is not None:
                yield from (each for each in (without_all(cut, self.axes), cut) if each != start)
                return
            if (cut := self.cut(names, start)) is not None:
                yield from (each for each in (cut, without_all(cut, self.axes)) if each != target)
                return
        at = stop(start, target, self.axes)
        if at is not None:
            yield at

    def joined(self, start: Spec, target: Spec) -> bool:
        """Whether a value is split over an axis in time, and no longer so in a target spec."""
        return any(axis in start.axes and axis not in target.axes for axis in self.axes)

    def cut(self, names: Names, spec: Spec) -> Spec | None:
        """Returns the spec in which a value's blocks are cut, where devices share them otherwise in a spec."""
        for axis in self.axes:
            place, _ = part_in_time(spec, axis)
            front = None if place is None else self.rules.fronts.get(names[place] or "")
            if place is None or front is None or spec.splits[place][:-1] == front or set(front) & set(spec.partial):
                continue
            others = {i: minus(split, front) for i, split in enumerate(spec.splits)}
            return with_splits(spec, {**others, place: (*front, axis)})
        return None

    def of_block(self, names: Names, spec: Spec, target: Spec) -> Spec:
        """Returns a target spec of all blocks as one block has it: where [micro] is to be [data], [data+micro]."""
        for axis in self.axes:
            place, _ = part_in_time(spec, axis)
            front = None if place is None else self.rules.fronts.get(names[place] or "")
            if place is not None and front and axis not in target.axes and target.splits[place] == front:
                target = with_splits(target, {place: (*front, axis)})
        return target

    def cut_indices(self, operation: Operation, names: Names, target: Spec) -> Spec | None:
        """Returns the spec in which blocks of indices are cut; None for what is alike in all blocks."""
        places = [part_in_time(target, axis)[0] for axis in self.axes]
        counts = operation.name == "iota" and operation.params["dimension"] in places
        return self.cut(names, target) if counts else None

    def sent(self, way: Sequence[Spec]) -> float:
        """Returns the wire bytes of the moves from spec to spec, per byte of the unsharded value."""
        return sum(price(reshard(*ends, self.sizes), self.sizes) for ends in itertools.pairwise(way))


def stop(start: Spec, target: Spec, in_time: Collection[str]) -> Spec | None:
    """Returns the spec on the way to a target at which a value changes between an iteration's and all iterations'.

    Up to a stop only devices communicate, or from there on; None where the way has none.

        partial over data, micro   →  [model]            stops at [model] partial over micro
        [data+micro]               →  [·]                stops at [data]
        [·]                        →  [data+micro]       stops at [data]
    """
    for axis in in_time:
        (split, partial), (wanted, stays) = part_in_time(start, axis), part_in_time(target, axis)
        if (split, partial) == (wanted, stays):
            continue
        if partial and not stays and wanted is None:
            at: Spec = Spec(target.splits, tuple(sorted((*target.partial, axis))))
        elif wanted is not None:
            at = without(target, axis)
        else:
            at = without(start, axis)
        return None if at in (start, target) else at
    return None


def usable(available: Sequence[Spec], target: Spec, in_time: Collection[str]) -> tuple[Spec, ...]:
    """Returns the specs from which a value is moved to a target: those alike on axes in time, else those of all."""
    for axis in in_time:
        alike = tuple(spec for spec in available if part_in_time(spec, axis) == part_in_time(target, axis))
        whole = tuple(spec for spec in available if part_in_time(spec, axis) == (None, False))
        available = alike or whole or tuple(available)
    return tuple(available)
