"""What gathers and scatters have in common: windows of an array, where an array of indices says.

    array[8, 16] at indices[4, 1], along axis 0, in windows of [1, 16]  ↔  slices[4, 16]

The slices are what a gather makes and what a scatter writes. An axis of the array is one of four things:

- *batching*: it stands in the indices and in the slices as well, and runs through;
- taken in full: it stands in the slices, and runs through;
- *looked up*: the indices count along it, and windows are shorter than it is. Where it is split a device sees to what
  lies in its own part;
- anything else (cut at the front, without an index): it must be whole.

A window that is longer than one element may lie on the edge of two parts. It is *unrolled* then: each of its elements
becomes a window of its own, with an index of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .local_forms import Device, Local
from .table import AxisFactors, Shape


@dataclasses.dataclass(frozen=True)
class Windows:
    """Where the windows of an array lie, and in which order they stand in the slices.

    Attributes:
        indexed: for each number of an index, the axis of the array that it counts along.
        batching: axes of the array that stand in the indices as well, and which they are there.
        places: for each axis of the array that stands in the slices as an axis of windows, which one it is there.
        sizes: the windows' size along each axis of the array.
        positions: the axes of the slices that stand in the indices, in their order there.
    """

    indexed: tuple[int, ...]
    batching: tuple[tuple[int, int], ...]
    places: Mapping[int, int]
    sizes: tuple[int, ...]
    positions: tuple[int, ...]

    def looked_up(self, array: Shape) -> tuple[int, ...]:
        """The axes along which windows are shorter than the array, and placed by the indices."""
        return tuple(axis for axis in self.indexed if self.sizes[axis] != array[axis])

    def unrolled(self, axis: int) -> tuple[Windows, int]:
        """The same windows with every element along an axis a window of its own, and the new axis of the indices."""
        place = self.places[axis]
        fresh = sum(position < place for position in self.positions)
        return dataclasses.replace(
            self,
            batching=tuple((d, i + (i >= fresh)) for d, i in self.batching),
            places={d: p for d, p in self.places.items() if d != axis},
            sizes=tuple(1 if d == axis else size for d, size in enumerate(self.sizes)),
            positions=tuple(sorted((*self.positions, place))),
        ), fresh

    @property
    def dropped(self) -> tuple[int, ...]:
        """The axes of the array that do not stand in the slices, batching ones aside."""
        batching = {axis for axis, _ in self.batching}
        return tuple(d for d in range(len(self.sizes)) if d not in self.places and d not in batching)


class WindowFactors(NamedTuple):
    """The factors of array, indices and slices; which are looked up; which count indices; which must be whole."""

    array: AxisFactors
    indices: AxisFactors
    slices: AxisFactors
    looked_up: frozenset[int]
    positions: frozenset[int]
    whole: frozenset[int]


def window_factors(windows: Windows, array: Shape, indices: Shape, slices: Shape) -> WindowFactors:
    """Says which axes of array, indices and slices are the same."""
    rank = len(array)
    shared = dict((i, axis) for axis, i in windows.batching)
    counted = tuple(shared.get(i, rank + i) for i in range(len(indices)))
    # What is cut out of an axis is an axis of its own.
    cut = {d: rank + len(indices) + d for d in windows.places if windows.sizes[d] != array[d]}
    made = dict(zip(windows.positions, counted, strict=False))
    made |= {place: cut.get(d, d) for d, place in windows.places.items()}
    looked_up = frozenset(windows.looked_up(array))
    batching = frozenset(shared.values())
    held = {d for d in range(rank) if windows.sizes[d] != array[d] and d not in batching and d not in looked_up}
    return WindowFactors(
        tuple(range(rank)),
        counted,
        tuple(made[i] for i in range(len(slices))),
        looked_up,
        frozenset(counted[:-1]) - batching,
        frozenset((*held, *cut.values(), counted[-1])),
    )


class Own(NamedTuple):
    """The windows as a device sees them that has a part of what is looked up.

    Attributes:
        windows: unrolled along the axes that are split.
        starts: for each indexed axis where the windows begin, counted from this device's first element.
        mine: which windows lie in this device's part.
        inside: which windows lie in the whole array.
        block: for each axis that is split, the size of a part.
    """

    windows: Windows
    starts: dict[int, Any]
    mine: Any
    inside: Any
    block: dict[int, int]

    @property
    def indices(self) -> Any:
        """Where the windows begin, as an array of indices."""
        return jnp.stack(jnp.broadcast_arrays(*self.starts.values()), -1)


def own_windows(device: Device, local: Local, windows: Windows, block: Shape, indices: Any, *, clipped: bool) -> Own:
    """Counts indices from this device's first element, along all axes that are looked up and split.

    Args:
        device: the device.
        local: a gather or scatter, the array its first operand.
        windows: its windows.
        block: the shape of this device's part of the array.
        indices: the indices' shard.
        clipped: whether windows that reach over the edge are moved inside.
    """
    shape = local.operand_shapes[0]
    most = np.array([shape[d] - windows.sizes[d] for d in windows.indexed])
    asked = signed(indices, max(shape))
    asked = jnp.clip(asked, 0, most.astype(asked.dtype)) if clipped else asked
    inside = jnp.all((asked >= 0) & (asked <= most.astype(asked.dtype)), -1)
    starts = {d: asked[..., i] for i, d in enumerate(windows.indexed)}
    mine, parts = jnp.ones_like(inside), {}
    for axis in windows.looked_up(shape):
        split = local.split(axis)
        if not split:
            continue
        if axis in windows.places:
            count = jnp.arange(windows.sizes[axis], dtype=asked.dtype)
            windows, fresh = windows.unrolled(axis)
            starts = {d: jnp.expand_dims(s, fresh) for d, s in starts.items()}
            mine, inside = jnp.expand_dims(mine, fresh), jnp.expand_dims(inside, fresh)
            starts[axis] += jnp.expand_dims(count, [i for i in range(inside.ndim) if i != fresh])
        parts[axis] = block[axis]
        here = starts[axis] - (device.index(split) * block[axis]).astype(asked.dtype)
        mine &= (here >= 0) & (here < block[axis])
        starts[axis] = here
    return Own(windows, starts, mine, inside, parts)


def signed(indices: Any, size: int) -> Any:
    """Indices along at most `size` as signed integers: those that are out of range stay out of range."""
    if jnp.issubdtype(indices.dtype, jnp.unsignedinteger):
        indices = jnp.minimum(indices, min(size, jnp.iinfo(indices.dtype).max))
        return indices.astype(jnp.int32)
    return indices.astype(jnp.promote_types(indices.dtype, jnp.int32))
