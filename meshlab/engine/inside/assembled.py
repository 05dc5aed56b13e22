"""Puts together what the devices hold of a value: the whole of it, and the addends of a partial sum.

    shards     [devices, *loops, *local shape]            each device's own
    addends    [parts, *loops, *shape]                    whose sum the value is; None where it is no partial sum
    whole      [*loops, *shape]

The blocks of an axis in time meet in the value, as those of an axis of devices do; the iterations of every other loop
are axes in front of it. Replicas are taken from the first device that has them.

A block keeps the elements that were cut for it, wherever it is moved: `[x+t] → [t]` gathers block 0 of all shards of
`x`, which do not lie side by side (`plans/cuts_in_time.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..plans.plan_data import Plan
from ..running.padding import cut
from ..running.run import mesh_axes
from ..specs.in_time import part_in_time
from ..specs.spec import Spec
from .probing import Tap


class Blocks(NamedTuple):
    """How an axis of a value lies in blocks that devices share otherwise than they were cut.

    Attributes:
        axis: of the value.
        size: of all of it.
        times: how many blocks there are.
        cut: how many shards each was cut from.
        shards: how many it is in now.
        over: the axis in time.
    """

    axis: int
    size: int
    times: int
    cut: int
    shards: int
    over: str

    def whole(self, place: Any, block: Any) -> Any:
        """Returns where elements of a block lie in the whole, by their places in it: of each shard it has a part."""
        part = self.size // (self.cut * self.times)
        return place // part * (part * self.times) + block * part + place % part

    def places(self) -> np.ndarray:
        """Returns where all elements lie in the whole, shard by shard, and block by block: `[size]`."""
        length = self.size // (self.shards * self.times)
        shard, block, place = np.indices((self.shards, self.times, length))
        return self.whole(shard * length + place, block).ravel()

    def runs(self, shard: int, block: int) -> list[tuple[int, int, int]]:
        """Returns the elements of one shard of one block that lie side by side in the whole.

        Returns:
            For each run (start, stop) in the whole, and where it starts in the shard.
        """
        places = self.places().reshape(self.shards, self.times, -1)[shard, block]
        starts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1)]
        lengths = np.diff([*starts, len(places)])
        return [(int(places[at]), int(places[at] + count), int(at)) for at, count in zip(starts, lengths, strict=True)]


def blocks_of(plan: Plan, tap: Tap) -> Blocks | None:
    """Returns how a value lies in such blocks; None of all others, whose blocks lie side by side in a shard."""
    cut = plan.planned.cuts.get((plan.program.original_of.get(tap.number, tap.number), tap.spec))
    if cut is None:
        return None
    (over,) = plan.mesh.in_time
    axis, _ = part_in_time(tap.spec, over)
    assert axis is not None
    now = [each for each in tap.spec.splits[axis] if each != over]
    shards, before = (math.prod(plan.grid[each] for each in axes) for axes in (now, cut))
    return Blocks(axis, plan.program.code.shapes[tap.number][axis], plan.grid[over], before, shards, over)


class Laid(NamedTuple):
    """What devices hold, by axes that have a meaning.

    Attributes:
        array: the axes of loops, of addends, of splits, of replicas, then those of a shard.
        loops: how many axes of loops there are, whose iterations are apart.
        addends: of the mesh axes that the value is a partial sum over.
        splits: of those that split it, in the spec's order.
        replicas: of all others.
    """

    array: np.ndarray
    loops: int
    addends: int
    splits: int
    replicas: int


def laid(array: np.ndarray, tap: Tap, axes: Sequence[tuple[str, int]]) -> Laid:
    """Sorts the axes of what was taken: [devices, *loops, …].

    Args:
        array: what was taken.
        tap: of which value.
        axes: the mesh axes of devices and their sizes, major first.
    """
    names = [name for name, _ in axes]
    array = array.reshape(*(size for _, size in axes), *array.shape[1:])
    names += [loop.in_time if loop.in_time in tap.meeting else "" for loop in tap.loops]
    loops = [position for position, name in enumerate(names) if not name]
    addends = [names.index(axis) for axis in tap.spec.partial if axis in names]
    splits = [names.index(axis) for axis in tap.spec.axes if axis in names]
    replicas = [i for i in range(len(axes)) if i not in addends and i not in splits]
    order = [*loops, *addends, *splits, *replicas]
    array = array.transpose(*order, *range(len(names), array.ndim))
    return Laid(array, len(loops), len(addends), len(splits), len(replicas))


def addends(array: np.ndarray, plan: Plan, tap: Tap) -> np.ndarray:
    """Returns the addends of a value, each as large as all of it: [parts, *loops, *shape]; of no partial sum one.

    Args:
        array: what the devices of a plan hold: [devices, *loops, *local shape].
        plan: the plan.
        tap: of which value.
    """
    axes, shape, blocks = mesh_axes(plan.mesh), plan.program.code.shapes[tap.number], blocks_of(plan, tap)
    sorted_axes = laid(array, tap, axes)
    first = sorted_axes.array[(*(slice(None),) * sum(sorted_axes[1:4]), *(0,) * sorted_axes.replicas)]
    loops, parts = first.shape[: sorted_axes.loops], first.shape[sorted_axes.loops :][: sorted_axes.addends]
    rest = first.reshape(*loops, math.prod(parts), *first.shape[sorted_axes.loops + sorted_axes.addends :])
    front, rank = len(loops) + 1, len(tap.spec.splits)
    present = {name for name, _ in axes} | {loop.in_time for loop in tap.loops}
    counts = [sum(axis in present for axis in split) for split in tap.spec.splits]
    order, position = list(range(front)), front
    for axis, count in enumerate(counts):
        order += [*range(position, position + count), front + sorted_axes.splits + axis]
        position += count
    local = front + sorted_axes.splits
    joined = rest.transpose(*order, *range(local + rank, rest.ndim))
    sizes, position = [], front
    for count in counts:
        sizes.append(math.prod(joined.shape[position : position + count + 1]))
        position += count + 1
    joined = joined.reshape(*joined.shape[:front], *sizes, *joined.shape[position:])
    if blocks is not None:
        joined = joined.take(np.argsort(blocks.places()), front + blocks.axis)
    behind = joined.ndim - front - rank
    spec = Spec((*((),) * front, *tap.spec.splits, *((),) * behind))
    joined = np.asarray(cut(joined, (*joined.shape[:front], *shape, *joined.shape[front + rank :]), spec, plan.grid))
    return np.moveaxis(joined, len(loops), 0)
