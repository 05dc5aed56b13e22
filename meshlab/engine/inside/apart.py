"""Compares one value of two plans number by number, on each device: where it is wrong, and by how much."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..plans.plan_data import Plan
from .assembled import addends, blocks_of
from .own_order import own_order
from .probing import Probing, Tap
from .search import Hit
from .watch import take

# Above this many bytes on all devices a value is not read.
_MOST_BYTES = 2**30
# A device has other numbers where they are off by more than this share of the greatest difference.
_SHARE = 1e-3


class Apart(NamedTuple):
    """Where two plans differ in a value.

    Attributes:
        devices: those that hold other numbers than they should; none of a partial sum, or where nothing was read.
        most: the greatest difference of two numbers; None where nothing was read.
    """

    devices: tuple[int, ...] = ()
    most: float | None = None


def apart(plan: Plan, other: Plan, arrays: Sequence[Any], hit: Hit, runs: Callable[..., Probing] = Probing) -> Apart:
    """Compares what the devices of a plan hold of a value with what it is in another plan."""
    tap, value = hit.tap, plan.program.value(hit.tap.number)
    loops = math.prod(loop.times or 1 for loop in tap.loops)
    if value.nbytes * plan.mesh.size * loops > _MOST_BYTES or tap.number in own_order(plan.program):
        return Apart()
    wanted = frozenset((tap.number,))
    taps, _, taken = take(plan, arrays, wanted, runs)
    others, _, expected = take(other, arrays, wanted)
    mine = _wide(next(array for each, array in zip(taps, taken, strict=True) if each.where == tap.where))
    right = addends(_wide(expected[0]), other, others[0]).sum(0)[_iterations(others[0], hit)]
    if tap.spec.partial:
        whole = addends(mine, plan, tap).sum(0)[_iterations(tap, hit)]
        return Apart(most=_greatest(whole, right))
    each = [_on_device(device, mine, hit, right, plan) for device in range(plan.mesh.size)]
    return Apart(tuple(device for device, off in enumerate(each) if off > _SHARE * max(each)), max(each))


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _iterations(tap: Tap, hit: Hit) -> tuple[int, ...]:
    """Returns the iteration of a hit among the axes in front of a value: those of the program's own loops, and others.

    The axes in time that split a value, or add it up, have none there; of all others one iteration is like another.
    """
    own = iter([i for i, loop in zip(hit.iterations, hit.tap.loops, strict=True) if not loop.in_time])
    return tuple(0 if loop.in_time else next(own) for loop in tap.apart)


def _on_device(device: int, mine: np.ndarray, hit: Hit, right: np.ndarray, plan: Plan) -> float:
    """Returns how far a device's shard of a value is off at most: any block of it, where it has several in time."""
    tap, off = hit.tap, 0.0
    if (blocks := blocks_of(plan, tap)) is not None:
        right = right.take(blocks.places(), blocks.axis)
    in_time = [
        range(loop.times or 0) if loop.in_time else (i,) for i, loop in zip(hit.iterations, tap.loops, strict=True)
    ]
    for iterations in itertools.product(*in_time):
        where = dict(plan.mesh.coordinates(device))
        where |= {loop.in_time: i for i, loop in zip(iterations, tap.loops, strict=True) if loop.in_time}
        block, axes = mine[(device, *iterations)], zip(right.shape, tap.spec.splits, strict=False)
        part = right[tuple(slice(*plan.grid.part_range(size, split, where)) for size, split in axes)]
        off = max(off, _greatest(block[tuple(map(slice, part.shape))], part))
    return off


def _greatest(one: np.ndarray, other: np.ndarray) -> float:
    """Returns the greatest difference of two numbers; infinity where one alone is no number."""
    with np.errstate(invalid="ignore"):
        off = np.where(one == other, 0.0, np.abs(one - other))
    off = np.where(np.isnan(one) & np.isnan(other), 0.0, np.where(np.isnan(off), np.inf, off))
    return float(off.max(initial=0.0))
