"""Halos: what a device must see of its neighbours' blocks, because windows slide over the edges of its own.

A convolution with a filter of 3 looks one element to either side. So a device sends its last element to the next device
and its first one to the device before:

    0 1 | 2 3 | 4 5 | 6 7        in blocks of 2 on 4 devices
    · 0 1 2 | 1 2 3 4 | 3 4 5 6 | 5 6 7 ·        extended by one to either side; · is the fill

A halo wider than a block comes from several devices. One that is wider than half of the axis is not worth its permutes:
there the axis is gathered.

How far the windows of one device's part reach is arithmetic on sizes (`Slide`). Mostly it is the same for all devices:
with a stride of 2, a block of 2n elements has n windows. Where nothing pads the ends it is not: 10 elements have 8
windows of 3, and blocks of 5 have 4 each. Then the windows of the second device begin one element before its block,
those of the first one where it begins: all blocks are extended by what some device needs, and each takes its part.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..specs.spec import Axes
from .local_forms import Device

Pair = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Reach:
    """What the windows of one device's part cover, in elements of the axis.

    Attributes:
        left: how many elements before the block some device needs.
        right: how many behind it.
        start: where the first device's windows begin, counted from its block's first element.
        drift: how much further than that those of each next device begin.
        length: how many elements they cover.
        padding: what the windows cover before the first and behind the last of them (gaps between spread elements).
    """

    left: int
    right: int
    start: int
    drift: int
    length: int
    padding: Pair


@dataclasses.dataclass(frozen=True)
class Slide:
    """Windows that slide along an axis.

    Attributes:
        size: of the axis.
        windows: how many there are.
        span: how many positions a window covers, gaps included.
        stride: how many positions a window lies behind the one before it.
        spread: how far apart the elements of the axis are; between them are zeros.
        before: how many positions stand before the axis.
    """

    size: int
    windows: int
    span: int
    stride: int = 1
    spread: int = 1
    before: int = 0

    @property
    def still(self) -> bool:
        """Whether every window is one element: such an axis may be split in any way, padded as well."""
        return self == Slide(self.size, self.size, 1)

    @property
    def most_parts(self) -> int:
        """The number that a number of parts must divide, so that all devices do the same with different elements.

        It is 1 where halos would be wider than half of the axis: between two devices that is as much as a block.
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
        """Whether a part needs anything of another one."""
        if self.size * self.spread != self.windows * self.stride:
            return True
        whole = self.reach(1)
        return whole.left > 0 or whole.right > 0

    @property
    def beyond(self) -> bool:
        """Whether a window looks beyond the ends of the axis."""
        last = (self.windows - 1) * self.stride + self.span - self.before
        return self.before > 0 or last > (self.size - 1) * self.spread + 1

    def reach(self, parts: int) -> Reach:
        """Returns what one of so many equal parts covers, a number that fits (`most_parts`)."""
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
        """Returns the elements that the windows of this device's part cover.

        Args:
            device: this one.
            block: its shard.
            axis: along which the windows slide.
            split: the mesh axes that split it.
            fill: what stands beyond the ends; None for zeros.

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
        """Returns this device's block of the sum of what all devices have for the elements that they cover."""
        reach = self.reach(_parts(device, split))
        shape = list(covered.shape)
        shape[axis] = reach.left + self.size // _parts(device, split) + reach.right
        begin = reach.left + reach.start + (reach.drift * device.index(split) if reach.drift else 0)
        wide = lax.dynamic_update_slice_in_dim(jnp.zeros(shape, covered.dtype), covered, begin, axis)
        return gathered_in(device, wide, axis, split, (reach.left, reach.right))


def extended(device: Device, block: Any, axis: int, split: Axes, widths: Pair, *, fill: Any = None) -> Any:
    """Returns a block with what lies before and behind it.

    Args:
        device: this one.
        block: its shard.
        axis: which is extended.
        split: the mesh axes that split it.
        widths: by how many elements to the left and to the right.
        fill: what stands beyond the ends of the whole axis; None for zeros.
    """
    size, others = block.shape[axis], _parts(device, split) - 1
    beyond, index = (0, None) if fill is None else (fill, device.index(split))
    before, behind = [], []
    for hop, width in _hops(widths[0], size, others):
        edge = device.permute(lax.slice_in_dim(block, size - width, size, axis=axis), split, hop)
        before.append(edge if index is None else jnp.where(index >= hop, edge, beyond))
    for hop, width in _hops(widths[1], size, others):
        edge = device.permute(lax.slice_in_dim(block, 0, width, axis=axis), split, -hop)
        behind.append(edge if index is None else jnp.where(index <= others - hop, edge, beyond))
    ends = [_filled(block, axis, max(0, width - others * size), fill) for width in widths]
    parts = [ends[0], *reversed(before), block, *behind, ends[1]]
    return lax.concatenate([part for part in parts if part.shape[axis]], axis)


def gathered_in(device: Device, wide: Any, axis: int, split: Axes, widths: Pair) -> Any:
    """Returns a block, to which is added what other devices have for it in their extended blocks.

    It is the transpose of `extended`: what stands beyond the ends is dropped.
    """
    others = _parts(device, split) - 1
    size = wide.shape[axis] - sum(widths)
    block = lax.slice_in_dim(wide, widths[0], widths[0] + size, axis=axis)
    for hop, width in _hops(widths[0], size, others):
        stop = widths[0] - (hop - 1) * size
        edge = device.permute(lax.slice_in_dim(wide, stop - width, stop, axis=axis), split, -hop)
        block += _placed(edge, axis, size, size - width)
    for hop, width in _hops(widths[1], size, others):
        start = widths[0] + hop * size
        edge = device.permute(lax.slice_in_dim(wide, start, start + width, axis=axis), split, hop)
        block += _placed(edge, axis, size, 0)
    return block


def _parts(device: Device, split: Axes) -> int:
    return math.prod(device.sizes[axis] for axis in split)


def _hops(width: int, size: int, most: int) -> list[Pair]:
    """How far away the devices are that a halo comes from, and how many elements each of them gives."""
    count = min(-(-width // size), most)
    return [(hop, min(size, width - (hop - 1) * size)) for hop in range(1, count + 1)]


def _filled(block: Any, axis: int, width: int, fill: Any) -> Any:
    shape = (*block.shape[:axis], width, *block.shape[axis + 1 :])
    return jnp.full(shape, 0 if fill is None else fill, block.dtype)


def _placed(edge: Any, axis: int, size: int, start: int) -> Any:
    """An edge in its place in a block of zeros."""
    around = [(0, 0, 0)] * edge.ndim
    around[axis] = (start, size - start - edge.shape[axis], 0)
    return lax.pad(edge, jnp.zeros((), edge.dtype), around)
