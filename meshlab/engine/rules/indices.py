"""Gathers and scatters read or write windows of an array at the positions in an array of indices.

    array[8, 16] at indices[4, 1], along axis 0, in windows of [1, 16]  ↔  slices[4, 16]

A gather returns the slices, a scatter writes them. An axis of the array is one of four kinds:

- *batching*: it is an axis of the indices and of the slices as well, and runs through;
- taken in full: it is an axis of the slices, and runs through;
- *looked up*: the indices count along it, and windows are shorter than it is. Where it is sharded a device reads or
  writes its own shard;
- any other (cut at the front, without an index): it must be unsharded.

A window that is longer than one element may cross the edge of two shards. It is *unrolled* then: each of its elements
becomes a window of its own, with an index of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..collectives.device import Device
from .per_shard import ShardedOperation
from .table import AxisFactors, Shape


@dataclasses.dataclass(frozen=True)
class Windows:
    """Describes the windows of an array, and their order in the slices.

    Attributes:
        indexed: for each number of an index, the axis of the array that it counts along.
        batching: axes of the array that are axes of the indices as well, with their numbers there.
        slice_axes: axes of the array that are axes of the windows in the slices, with their numbers there.
        sizes: the windows' size along each axis of the array.
        positions: the axes of the slices that are axes of the indices, in their order there.
    """

    indexed: tuple[int, ...]
    batching: tuple[tuple[int, int], ...]
    slice_axes: Mapping[int, int]
    sizes: tuple[int, ...]
    positions: tuple[int, ...]

    def looked_up(self, array: Shape) -> tuple[int, ...]:
        """Returns the axes along which windows are shorter than the array, and positioned by the indices."""
        return tuple(axis for axis in self.indexed if self.sizes[axis] != array[axis])

    def unrolled(self, axis: int) -> tuple[Windows, int]:
        """Returns the windows with every element along an axis a window of its own, and the new axis of the indices."""
        axis_there = self.slice_axes[axis]
        fresh = sum(position < axis_there for position in self.positions)
        return dataclasses.replace(
            self,
            batching=tuple((d, i + (i >= fresh)) for d, i in self.batching),
            slice_axes={d: p for d, p in self.slice_axes.items() if d != axis},
            sizes=tuple(1 if d == axis else size for d, size in enumerate(self.sizes)),
            positions=tuple(sorted((*self.positions, axis_there))),
        ), fresh

    @property
    def dropped(self) -> tuple[int, ...]:
        """Returns the axes of the array that are not in the slices, without batching ones."""
        batching = {axis for axis, _ in self.batching}
        return tuple(d for d in range(len(self.sizes)) if d not in self.slice_axes and d not in batching)


class WindowFactors(NamedTuple):
    """Holds the factors of array, indices and slices: those looked up, those that count indices, those unsharded."""

    array: AxisFactors
    indices: AxisFactors
    slices: AxisFactors
    looked_up: frozenset[int]
    positions: frozenset[int]
    unsharded: frozenset[int]


def window_factors(windows: Windows, array: Shape, indices: Shape, slices: Shape) -> WindowFactors:
    """Says which axes of array, indices and slices are the same."""
    rank = len(array)
    shared = dict((i, axis) for axis, i in windows.batching)
    counted = tuple(shared.get(i, rank + i) for i in range(len(indices)))
    # A window along an axis is an axis of its own.
    cut = {d: rank + len(indices) + d for d in windows.slice_axes if windows.sizes[d] != array[d]}
    factors = dict(zip(windows.positions, counted, strict=False))
    factors |= {axis: cut.get(d, d) for d, axis in windows.slice_axes.items()}
    looked_up = frozenset(windows.looked_up(array))
    batching = frozenset(shared.values())
    unsharded = {d for d in range(rank) if windows.sizes[d] != array[d] and d not in batching and d not in looked_up}
    return WindowFactors(
        tuple(range(rank)),
        counted,
        tuple(factors[i] for i in range(len(slices))),
        looked_up,
        frozenset(counted[:-1]) - batching,
        frozenset((*unsharded, *cut.values(), counted[-1])),
    )


class LocalWindows(NamedTuple):
    """Describes the windows from the view of a device that has a shard of the array.

    Attributes:
        windows: the windows, unrolled along the axes that are sharded.
        starts: for each indexed axis where the windows begin, counted from this device's first element.
        mine: which windows are in this device's shard.
        inside: which windows are in the array at all.
        block: for each axis that is sharded, the size of a shard.
    """

    windows: Windows
    starts: dict[int, Any]
    mine: Any
    inside: Any
    block: dict[int, int]

    @property
    def indices(self) -> Any:
        """Returns where the windows begin, as an array of indices."""
        return jnp.stack(jnp.broadcast_arrays(*self.starts.values()), -1)


def local_windows(
    device: Device, sharded: ShardedOperation, windows: Windows, block: Shape, indices: Any, *, clipped: bool
) -> LocalWindows:
    """Counts indices from this device's first element, along all axes that are looked up and sharded.

    Args:
        device: the device.
        sharded: a gather or scatter, the array its first operand.
        windows: its windows.
        block: the shape of this device's shard of the array.
        indices: the indices' shard.
        clipped: whether windows that reach over the edge are moved inside.
    """
    shape = sharded.operand_shapes[0]
    most = np.array([shape[d] - windows.sizes[d] for d in windows.indexed])
    positions = signed(indices, max(shape))
    positions = jnp.clip(positions, 0, most.astype(positions.dtype)) if clipped else positions
    inside = jnp.all((positions >= 0) & (positions <= most.astype(positions.dtype)), -1)
    starts = {d: positions[..., i] for i, d in enumerate(windows.indexed)}
    mine, parts = jnp.ones_like(inside), {}
    for axis in windows.looked_up(shape):
        split = sharded.split(axis)
        if not split:
            continue
        if axis in windows.slice_axes:
            count = jnp.arange(windows.sizes[axis], dtype=positions.dtype)
            windows, fresh = windows.unrolled(axis)
            starts = {d: jnp.expand_dims(s, fresh) for d, s in starts.items()}
            mine, inside = jnp.expand_dims(mine, fresh), jnp.expand_dims(inside, fresh)
            starts[axis] += jnp.expand_dims(count, [i for i in range(inside.ndim) if i != fresh])
        parts[axis] = block[axis]
        here = starts[axis] - (device.index(split) * block[axis]).astype(positions.dtype)
        mine &= (here >= 0) & (here < block[axis])
        starts[axis] = here
    return LocalWindows(windows, starts, mine, inside, parts)


def signed(indices: Any, size: int) -> Any:
    """Returns indices along at most `size` as signed integers; those that are out of range stay so."""
    if jnp.issubdtype(indices.dtype, jnp.unsignedinteger):
        indices = jnp.minimum(indices, min(size, jnp.iinfo(indices.dtype).max))
        return indices.astype(jnp.int32)
    return indices.astype(jnp.promote_types(indices.dtype, jnp.int32))
