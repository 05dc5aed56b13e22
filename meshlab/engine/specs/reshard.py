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
from collections.abc import Mapping
from typing import NamedTuple

from .spec import Axes, Spec, common, local_shape, padded_shape, with_splits


class ReshardStep(NamedTuple):
    """One step of a reshard: a collective, or a slice that every device takes of its shard.

    Attributes:
        kind: "slice" (local) or a collective.
        axes: the mesh axes, major first.
        axis: the axis of the value that becomes sharded (slice, reduce-scatter, all-to-all) or replicated (all-gather).
        other: all-to-all only: the axis of the value that becomes replicated.
        result: the spec after the step.
    """

    kind: str
    axes: Axes
    axis: int
    other: int
    result: Spec


class Reshard(NamedTuple):
    """The steps that take a value from one spec to another."""

    start: Spec
    steps: tuple[ReshardStep, ...]


def wire_factor(kind: str, n: int) -> float:
    """Returns the bytes that one device sends, per byte of its operand, among `n` devices on a ring.

    Source: the bandwidth-optimal ring algorithms (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009):
    all-reduce 2(n-1)/n, reduce-scatter and all-to-all (n-1)/n, all-gather n-1; a permute sends its operand once.
    """
    if n == 1:
        return 0.0
    return {
        "all-reduce": 2 * (n - 1) / n,
        "reduce-scatter": (n - 1) / n,
        "all-to-all": (n - 1) / n,
        "all-gather": float(n - 1),
        "collective-permute": 1.0,
    }[kind]


def wire_bytes(kind: str, payload: int, axes: Axes, sizes: Mapping[str, int]) -> float:
    """Returns the bytes that one device sends for a collective over mesh `axes` with an operand of `payload` bytes."""
    return payload * wire_factor(kind, math.prod(sizes[a] for a in axes))


def reduced_spec(spec: Spec, target: Spec | None) -> Spec:
    """Returns the spec that a partial sum is reduced to: its own splits, and those of `target` that extend them."""
    if target is None:
        return spec.reduced()
    used = set(spec.axes)
    splits = []
    for have, want in zip(spec.splits, target.splits, strict=True):
        more = want[len(have) :]
        if want[: len(have)] == have and more and not used.intersection(more):
            used.update(more)
            splits.append(want)
        else:
            splits.append(have)
    return Spec(tuple(splits))


def sent_shape(shape: tuple[int, ...], start: Spec, step: ReshardStep, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the shape of a step's operand on one device: its shard, padded where the value is cut unevenly."""
    local = local_shape(shape, start, sizes)
    if step.kind in ("reduce-scatter", "all-to-all", "slice") and not start.splits[step.axis]:
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
    if not any(step.kind in ("all-to-all", "collective-permute") for step in reshard.steps):
        return None
    spec, target, moves = reshard.start, reshard.steps[-1].result, []
    if to_sum := tuple(a for a in spec.partial if a not in target.partial):
        spec = with_splits(spec, {}, target.partial)
        moves.append(ReshardStep("all-reduce", to_sum, -1, -1, spec))
    for i, (have, want) in enumerate(zip(spec.splits, target.splits, strict=True)):
        if have[(same := common(have, want)) :]:
            spec = with_splits(spec, {i: have[:same]})
            moves.append(ReshardStep("all-gather", have[same:], i, -1, spec))
    return Reshard(reshard.start, tuple(moves))


def cost(spec: Spec, step: ReshardStep, sizes: Mapping[str, int]) -> float:
    """Returns the bytes that a device sends for a step from `spec`, per byte of the unsharded value."""
    if step.kind == "slice":
        return 0.0
    # A permute sends its operand, over whichever axes.
    n = 2 if step.kind == "collective-permute" else math.prod(sizes[a] for a in step.axes)
    return wire_factor(step.kind, n) / math.prod(sizes[a] for a in spec.axes)
