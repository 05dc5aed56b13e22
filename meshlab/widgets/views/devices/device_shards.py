"""Reads an array device by device: from each its own shard, to be drawn and to be held against the plan.

    read = read_shards(plan, "params/w1", array, strides=(1, 1, 1))
    read.pieces[0].ranges       ((0, 28), (0, 28), (0, 256)): what device 0 holds
    read.as_planned             each device holds the index ranges that the plan says
    read.replicas               what is said of devices that hold the same ranges

Nothing is gathered: where the plan is right, that can be seen here and was not made so here. Of large arrays every
n-th number along an axis is read, at the same indices of the whole array whatever the layout.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ....engine.devices import devices
from ....engine.running.run import stored

Ranges = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class Piece:
    """The numbers that one device holds.

    Attributes:
        device: its number.
        ranges: the index range of each axis, without padding.
        numbers: every n-th of them along each axis, at the multiples of n in the range.
    """

    device: int
    ranges: Ranges
    numbers: np.ndarray


@dataclasses.dataclass(frozen=True)
class Difference:
    """Two devices that should hold the same, and do not.

    Attributes:
        device: the one.
        other: the other, of a lower number.
        most: the greatest difference of two numbers; infinite where one of them is no number.
        share: the same as a share of their root mean square.
    """

    device: int
    other: int
    most: float
    share: float


@dataclasses.dataclass(frozen=True)
class Read:
    """What was read of an array.

    Attributes:
        pieces: one for each index range that is held, of the device with the lowest number.
        devices: how many devices were read.
        as_planned: whether each holds the index ranges that the plan says.
        replicas: how many of the devices hold what another one holds as well.
        differences: of each device that holds something else than the first with its index ranges.
        put_again: whether the array was not on the devices any more, or is padded there: it was put there to be read.
    """

    pieces: tuple[Piece, ...]
    devices: int
    as_planned: bool
    replicas: int
    differences: tuple[Difference, ...]
    put_again: bool


def read_shards(plan: Any, place: str, array: Any, strides: Sequence[int]) -> Read:
    """Reads the shard of each device that this process can read.

    Args:
        plan: the plan by which the array is stored.
        place: the place where it is stored.
        array: the array; one that is not on the devices yet is put there, as `plan.run` puts it.
        strides: n for each axis, of which every n-th number is read.
    """
    shape = plan.program.place(place).shape
    numbers = {device: number for number, device in enumerate(devices(plan.mesh.size, plan.mesh.order))}
    first: dict[Ranges, Piece] = {}
    differences: list[Difference] = []
    as_planned, count = True, 0
    on_devices = stored(plan, place, array)
    for shard in sorted(on_devices.addressable_shards, key=lambda each: numbers[each.device]):
        piece = _piece(numbers[shard.device], shard, shape, strides)
        count += 1
        as_planned = as_planned and piece.ranges == plan.shard(place, piece.device)
        known = first.setdefault(piece.ranges, piece)
        if known is not piece and not same_bits(piece.numbers, known.numbers):
            differences.append(difference_of(piece, known))
    again = not (
        isinstance(array, jax.Array)
        and array.shape == on_devices.shape
        and array.sharding.is_equivalent_to(on_devices.sharding, array.ndim)
    )
    return Read(tuple(first.values()), count, as_planned, count - len(first), tuple(differences), again)


def _piece(device: int, shard: Any, shape: Sequence[int], strides: Sequence[int]) -> Piece:
    """Reads a shard, without what is padding."""
    ranges, slices = [], []
    for index, size, length, stride in zip(shard.index, shape, shard.data.shape, strides, strict=True):
        start = min(index.start or 0, size)
        stop = min(start + length, size)
        begin = -(-start // stride) * stride - start
        ranges.append((start, stop))
        slices.append(slice(min(begin, stop - start), stop - start, stride))
    # What is left out is left out on the device, and does not travel.
    whole = all(one == slice(0, length, 1) for one, length in zip(slices, shard.data.shape, strict=True))
    data = shard.data if whole else shard.data[tuple(slices)]
    return Piece(device, tuple(ranges), np.asarray(jax.device_get(data)))


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Says whether two arrays are equal bit by bit."""
    return np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()


def difference_of(piece: Piece, known: Piece) -> Difference:
    """Returns how far two devices are apart that should hold the same."""
    wide = np.complex128 if np.iscomplexobj(known.numbers) else np.float64
    mine, other = piece.numbers.astype(wide), known.numbers.astype(wide)
    alike = (mine == other) | (np.isnan(mine) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        apart = np.where(alike, 0.0, np.abs(mine - other))
    most = float(np.max(np.where(np.isfinite(apart), apart, np.inf), initial=0.0))
    finite = np.abs(other[np.isfinite(other)])
    scale = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    return Difference(piece.device, known.device, most, most / (scale or 1.0))
