"""Says what a reshard is: the chain of collectives that takes a value from one spec to another, and what it sends.

    partial over x          →  sharded over x   one reduce-scatter
    partial over x          →  replicated       one all-reduce
    sharded over x          →  replicated       one all-gather
    axis 0 over x           →  axis 1 over x    one all-to-all
    axis 0 over x           →  axis 0 over y    one collective-permute, where both have as many devices
    replicated              →  sharded over x   a slice: every device keeps its part, nothing moves

`chains.py` finds the cheapest. The list of steps is what is counted, drawn and run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..specs.spec import Axes, Spec, common, local_shape, padded_shape, with_splits
from .kinds import ALL_GATHER, ALL_REDUCE, Kind


class ReshardStep(NamedTuple):
    """One step of a reshard: a collective, or a slice that every device takes of its shard.

    Attributes:
        kind: of the collective; or `SLICE`, which each device takes of its own shard.
        axes: the mesh axes, major first.
        axis: the axis of the value that becomes sharded (slice, reduce-scatter, all-to-all) or replicated (all-gather).
        other: all-to-all only: the axis of the value that becomes replicated.
        result: the spec after the step.
    """

    kind: Kind
    axes: Axes
    axis: int
    other: int
    result: Spec


class Reshard(NamedTuple):
    start: Spec
    steps: tuple[ReshardStep, ...]


def reduced_spec(spec: Spec, target: Spec | None, in_time: Collection[str] = ()) -> Spec:
    """Returns the spec that a partial sum is reduced to: its own splits, and those of `target` that extend them.

    An axis in time stays behind those that extend a split: they share the block of an iteration.
    """
    if target is None:
        return spec.reduced()
    used = set(spec.axes)
    splits = []
    for have, want in zip(spec.splits, target.splits, strict=True):
        block = have[-1:] if have[-1:] == want[-1:] and set(have[-1:]) <= set(in_time) else ()
        first, wanted = have[: len(have) - len(block)], want[: len(want) - len(block)]
        more = wanted[len(first) :]
        if wanted[: len(first)] == first and more and not used.intersection(more):
            used.update(more)
            splits.append(want)
        else:
            splits.append(have)
    return Spec(tuple(splits))


def sent_shape(shape: tuple[int, ...], start: Spec, step: ReshardStep, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the shape of a step's operand on one device: its shard, padded where the value is cut unevenly."""
    local = local_shape(shape, start, sizes)
    if step.kind.cuts and not start.splits[step.axis]:
        padded = padded_shape(shape, step.result, sizes)[step.axis]
        return (*local[: step.axis], padded, *local[step.axis + 1 :])
    return local


def price(reshard: Reshard, sizes: Mapping[str, int]) -> float:
    """Returns the wire bytes of a reshard, per byte of the unsharded value."""
    total, spec = 0.0, reshard.start
    for step in reshard.steps:
        total += cost(spec, step, sizes)
        spec = step.result
    return total


def gather_then_slice(reshard: Reshard) -> Reshard | None:
    """Returns the gather-then-slice alternative to a reshard that moves blocks, without its slices, which are free.

    Returns:
        The alternative; None where the reshard is that already, or does not move blocks.
    """
    if not any(step.kind.moves_blocks for step in reshard.steps):
        return None
    spec, target, moves = reshard.start, reshard.steps[-1].result, []
    if to_sum := tuple(a for a in spec.partial if a not in target.partial):
        spec = with_splits(spec, {}, target.partial)
        moves.append(ReshardStep(ALL_REDUCE, to_sum, -1, -1, spec))
    for i, (have, want) in enumerate(zip(spec.splits, target.splits, strict=True)):
        if have[(same := common(have, want)) :]:
            spec = with_splits(spec, {i: have[:same]})
            moves.append(ReshardStep(ALL_GATHER, have[same:], i, -1, spec))
    return Reshard(reshard.start, tuple(moves))


def cost(spec: Spec, step: ReshardStep, sizes: Mapping[str, int]) -> float:
    """Returns the bytes that a device sends for a step from `spec`, per byte of the unsharded value."""
    return step.kind.sent(math.prod(sizes[a] for a in step.axes)) / math.prod(sizes[a] for a in spec.axes)
