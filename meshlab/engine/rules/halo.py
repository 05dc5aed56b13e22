"""A halo is the part of its neighbours' shards that a device needs, because windows reach over the edges of its own.

A convolution with a filter of 3 reads one element to either side. So a device sends its last element to the next device
and its first one to the device before:

    0 1 | 2 3 | 4 5 | 6 7        in blocks of 2 on 4 devices
    · 0 1 2 | 1 2 3 4 | 3 4 5 6 | 5 6 7 ·        extended by one to either side; · is the fill

A halo wider than a shard comes from several devices. Where it is wider than half of the axis, the axis is gathered.

`Slide` computes how far the windows of one device reach. Mostly that is the same for all devices: with a stride of 2, a
shard of 2n elements has n windows. Without padding at the ends it is not: 10 elements have 8 windows of 3, and shards
of 5 have 4 each. Then the windows of the second device begin one element before its shard, those of the first one with
it: all shards are extended by the widest halo that some device needs, and each device takes its part.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..collectives.device import Device
from ..specs.spec import Axes

Pair = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Reach:
    """Describes the elements of an axis that the windows of one device cover.

    Attributes:
        left: how many elements before the shard some device needs.
        right: how many behind it.
        start: where the first device's windows begin, counted from its shard's first element.
        drift: how much further than that those of each next device begin.
        length: how many elements they cover.
        padding: how many positions they cover before the first and behind the last element (gaps between elements).
    """

    left: int
    right: int
    start: int
    drift: int
    length: int
    padding: Pair


@dataclasses.dataclass(frozen=True)
class Slide:
    """Describes windows that slide along an axis.

    Attributes:
        size: the axis's size.
        windows: how many there are.
        span: how many positions a window covers, gaps included.
        stride: the distance between two windows, in positions.
        spread: the distance between two elements of the axis, in positions; between them are zeros.
        before: how many positions of padding are before the axis.
    """

    size: int
    windows: int
    span: int
    stride: int = 1
    spread: int = 1
    before: int = 0

    @property
    def still(self) -> bool:
        """Says whether every window is one element: such an axis may be sharded in any way, padded as well."""
        return self == Slide(self.size, self.size, 1)

    @property
    def most_parts(self) -> int:
        """Returns the number that the number of shards must divide, so that all devices do the same work.

        It is 1 where halos would be wider than half of the axis: between two devices that is as much as a shard.
        """
        gaps = self.spread // math.gcd(self.spread, self.stride)
        empty = not self.size or not self.windows or (self.spread > 1 and self.span < self.stride)
        if empty or self.windows % gaps:
            return 1
        most = math.gcd(self.size, self.windows // gaps)
        reach = self.reach(most)
        return most if 2 * (reach.left + reach.right) <= self.size else 1

    @property
    def reaches(self) -> bool:
        """Says whether a shard's windows reach into another shard."""
        if self.size * self.spread != self.windows * self.stride:
            return True
        reach = self.reach(1)
        return reach.left > 0 or reach.right > 0

    @property
    def beyond(self) -> bool:
        """Says whether a window reaches beyond the ends of the axis."""
        last = (self.windows - 1) * self.stride + self.span - self.before
        return self.before > 0 or last > (self.size - 1) * self.spread + 1

    def reach(self, parts: int) -> Reach:
        """Returns the reach of one of `parts` equal shards; their number must divide `most_parts`."""
        block, windows = self.size // parts, self.windows // parts
        positions = (windows - 1) * self.stride + self.span
        start = -(self.before // self.spread)
        skipped = start * self.spread + self.before
        length = (positions - 1 - skipped) // self.spread + 1
        drift = windows * self.stride // self.spread - block
        starts = (start, start + drift * (parts - 1))
        behind = positions - skipped - (length - 1) * self.spread - 1
        left, right = max(0, -min(starts)), max(0, max(starts) + length - block)
        return Reach(left, right, start, drift, length, (skipped, behind))

    def covered(self, device: Device, block: Any, axis: int, split: Axes, *, fill: Any = None) -> tuple[Any, Pair]:
        """Returns the elements that this device's windows cover.

        Args:
            device: this one.
            block: its shard.
            axis: along which the windows slide.
            split: the mesh axes that split it.
            fill: the number beyond the ends; None for zero.

        Returns:
            The elements, and how many positions the windows cover before and behind them.
        """
        reach = self.reach(_parts(device, split))
        wide = extended(device, block, axis, split, (reach.left, reach.right), fill=fill)
        begin = reach.left + reach.start
        if reach.drift:
            mine = lax.dynamic_slice_in_dim(wide, begin + reach.drift * device.index(split), reach.length, axis)
        else:
            mine = lax.slice_in_dim(wide, begin, begin + reach.length, axis=axis)
        return mine, reach.padding

    def added_back(self, device: Device, covered: Any, axis: int, split: Axes) -> Any:
        """Returns this device's shard of the sum over devices of the elements that each covers."""
        reach = self.reach(_parts(device, split))
        shape = list(covered.shape)
        shape[axis] = reach.left + self.size // _parts(device, split) + reach.right
        begin = reach.left + reach.start + (reach.drift * device.index(split) if reach.drift else 0)
        wide = lax.dynamic_update_slice_in_dim(jnp.zeros(shape, covered.dtype), covered, begin, axis)
        return gathered_in(device, wide, axis, split, (reach.left, reach.right))


def extended(device: Device, block: Any, axis: int, split: Axes, widths: Pair, *, fill: Any = None) -> Any:
    """Returns a shard with the elements before and behind it.

    Args:
        device: this one.
        block: its shard.
        axis: the axis that is extended.
        split: the mesh axes that split it.
        widths: by how many elements to the left and to the right.
        fill: the number beyond the ends of the axis; None for zero.
    """
    size, others = block.shape[axis], _parts(device, split) - 1
    beyond, index = (0, None) if fill is None else (fill, device.index(split))
    before, behind = [], []
    for distance, width in _distances(widths[0], size, others):
        edge = device.shift(lax.slice_in_dim(block, size - width, size, axis=axis), split, distance)
        before.append(edge if index is None else jnp.where(index >= distance, edge, beyond))
    for distance, width in _distances(widths[1], size, others):
        edge = device.shift(lax.slice_in_dim(block, 0, width, axis=axis), split, -distance)
        behind.append(edge if index is None else jnp.where(index <= others - distance, edge, beyond))
    ends = [_filled(block, axis, max(0, width - others * size), fill) for width in widths]
    parts = [ends[0], *reversed(before), block, *behind, ends[1]]
    return lax.concatenate([part for part in parts if part.shape[axis]], axis)


def gathered_in(device: Device, wide: Any, axis: int, split: Axes, widths: Pair) -> Any:
    """Returns this device's shard of the sum of all devices' extended shards.

    It is the transpose of `extended`: elements beyond the ends are dropped.
    """
    others = _parts(device, split) - 1
    size = wide.shape[axis] - sum(widths)
    block = lax.slice_in_dim(wide, widths[0], widths[0] + size, axis=axis)
    for distance, width in _distances(widths[0], size, others):
        stop = widths[0] - (distance - 1) * size
        edge = device.shift(lax.slice_in_dim(wide, stop - width, stop, axis=axis), split, -distance)
        block += _placed(edge, axis, size, size - width)
    for distance, width in _distances(widths[1], size, others):
        start = widths[0] + distance * size
        edge = device.shift(lax.slice_in_dim(wide, start, start + width, axis=axis), split, distance)
        block += _placed(edge, axis, size, 0)
    return block


def _parts(device: Device, split: Axes) -> int:
    return math.prod(device.sizes[axis] for axis in split)


def _distances(width: int, size: int, most: int) -> list[Pair]:
    """Returns for each device that a halo comes from its distance, and how many elements it sends."""
    count = min(-(-width // size), most)
    return [(distance, min(size, width - (distance - 1) * size)) for distance in range(1, count + 1)]


def _filled(block: Any, axis: int, width: int, fill: Any) -> Any:
    shape = (*block.shape[:axis], width, *block.shape[axis + 1 :])
    return jnp.full(shape, 0 if fill is None else fill, block.dtype)


def _placed(edge: Any, axis: int, size: int, start: int) -> Any:
    """Puts an edge in its place in a shard of zeros."""
    around = [(0, 0, 0)] * edge.ndim
    around[axis] = (start, size - start - edge.shape[axis], 0)
    return lax.pad(edge, jnp.zeros((), edge.dtype), around)
