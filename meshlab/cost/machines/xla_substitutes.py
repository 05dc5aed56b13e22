"""What a compiler sends in place of a collective: on TPUs some among all devices of a slice are all-reduces.

    v5e:4x4, 16 devices         a reduce-scatter is an all-reduce, of which each device keeps its part
    v5e:2x8, 16 devices         it is what it is called
    v5p:4x4x4, 64 devices       an all-gather, too, is one: each device puts its part among zeros, and they are added
    v5e:8x8, 64 devices         so it is of arrays of up to 16 MiB

An all-reduce sends twice as much, and its array lies whole on each device. By the plan a device needs its part alone,
which is why plans have reduce-scatters, as their users wrote them: what is sent instead is a matter of one compiler.

The rules were read in programs that libtpu 0.0.42 compiled, and are held against those of `benchmarks/substitutes.py`.
They are of parts that are whole tiles of the array as it lies in memory; others may be made all-reduces anywhere, but
these are small.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ...engine.plans.data import Plan
from .hardware import Torus
from .placement import Placement

# Up to so many devices reduce-scatters are what they are called, and from so many on all-gathers may not be: those of
# so many bytes, and along three axes all.
_FEW, _MANY, _SMALL = 4, 64, 16 * 2**20


def most_summed(kind: str, placement: Placement | None, axes: Sequence[str]) -> float:
    """Returns up to how many bytes of the full array an all-reduce is compiled for a collective.

    Args:
        kind: of the collective.
        placement: how the mesh lies on a machine; None where it lies on none.
        axes: the mesh axes that it runs over.

    Returns:
        Bytes: 0 where each is what it is called, infinity where none is.
    """
    if placement is None or not isinstance(torus := placement.hardware.network, Torus):
        return 0
    if placement.count > 1 or not _is_among_all(placement, axes):
        return 0
    devices = math.prod(placement.shape) * placement.hardware.devices_per_chip
    if kind == "reduce-scatter" and torus.sums_whole and devices > _FEW and _is_even(placement.shape):
        return math.inf
    if kind == "all-gather" and torus.gathers_by_adding and devices >= _MANY:
        return math.inf if sum(size > 1 for size in placement.shape) > 2 else _SMALL
    return 0


def substituted(plan: Plan, placement: Placement) -> Mapping[str, int]:
    """Counts those of a plan's collectives for which all-reduces are compiled: {"reduce-scatter over data": 9}."""
    found: Counter[str] = Counter()
    for each in plan.collectives:
        most = most_summed(each.kind, placement, each.axes)
        parts = math.prod(plan.grid[axis] for axis in each.axes) if each.kind == "all-gather" else 1
        if each.payload_bytes * parts <= most and most:
            found[f"{each.kind} over {'+'.join(each.axes)}"] += each.times
    return found


def _is_among_all(placement: Placement, axes: Sequence[str]) -> bool:
    """Whether a collective runs over all devices of a slice."""
    return all(leg.size == 1 for axis in placement.axes if axis not in axes for leg in placement.legs[axis])


def _is_even(shape: Sequence[int]) -> bool:
    """Whether a slice is as long along its first axis as along its second, or k x 2k x 2k or k x k x 2k in any order.

    The latter are those of which Google makes twisted tori (https://docs.cloud.google.com/tpu/docs/v4).
    """
    first, second, *_ = (*shape, 1)
    if first == second:
        return first > 1
    small, middle, large = (1, 1, *sorted(shape))[-3:]
    return small > 1 and large == 2 * small and middle in (small, large)
