"""All-reduces that the TPU compiler substitutes for other collectives, among all devices of some slices.

    v5e:4x4, 16 devices         a reduce-scatter is an all-reduce, of which each device keeps its part
    v5e:2x8, 16 devices         it stays a reduce-scatter
    v5p:4x4x4, 64 devices       an all-gather, too: each device puts its part among zeros, and they are summed
    v5e:8x8, 64 devices         so are those of arrays of up to 16 MiB

An all-reduce sends twice as much, and each device holds its whole result. Plans keep reduce-scatters, since a device
needs its part alone: the substitution is a matter of one compiler.

The rules were read from programs that libtpu 0.0.42 compiled, and are tested against those of
`benchmarks/substitutes.py`. They concern parts that are whole tiles of the array in memory; the compiler may make
all-reduces of others anywhere, but these are small.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ...engine.collectives.kinds import ALL_GATHER, KINDS, REDUCE_SCATTER, Kind
from ...engine.plans.plan_data import Plan
from .hardware import Torus
from .placed import Placement

# Reduce-scatters over at most _FEW devices are never substituted. All-gathers over at least _MANY are: those of at most
# _SMALL bytes, and along three axes of a torus all.
_FEW, _MANY, _SMALL = 4, 64, 16 * 2**20


def most_summed(kind: Kind, placement: Placement | None, axes: Sequence[str]) -> float:
    """Returns the most bytes of the full array for which an all-reduce substitutes a collective over mesh axes.

    0 where none is substituted, infinity where all are.
    """
    if placement is None or not isinstance(torus := placement.hardware.network, Torus):
        return 0
    if placement.count > 1 or not _is_among_all(placement, axes):
        return 0
    devices = math.prod(placement.shape) * placement.hardware.devices_per_chip
    if kind is REDUCE_SCATTER and torus.reduce_scatter_as_all_reduce and devices > _FEW and _is_even(placement.shape):
        return math.inf
    if kind is ALL_GATHER and torus.all_gather_as_all_reduce and devices >= _MANY:
        return math.inf if sum(size > 1 for size in placement.shape) > 2 else _SMALL
    return 0


def substituted(plan: Plan, placement: Placement) -> Mapping[str, int]:
    """Counts the collectives of a plan that all-reduces substitute: {"reduce-scatter over data": 9}."""
    counts: Counter[str] = Counter()
    for collective in plan.collectives:
        kind = KINDS[collective.kind]
        most = most_summed(kind, placement, collective.axes)
        parts = math.prod(plan.grid[axis] for axis in collective.axes) if kind.shard else 1
        if collective.payload_bytes * parts <= most and most:
            counts[f"{collective.kind} over {'+'.join(collective.axes)}"] += collective.times
    return counts


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
