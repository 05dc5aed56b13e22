"""Finds the chain of collectives that reshards a value from one spec to another.

    partial over x          →  sharded over x   one reduce-scatter
    partial over x          →  replicated       one all-reduce
    sharded over x          →  replicated       one all-gather
    axis 0 over x           →  axis 1 over x    one all-to-all
    axis 0 over x           →  axis 0 over y    one collective-permute, where both have as many devices
    replicated              →  sharded over x   a slice: every device keeps its part, nothing moves

Of all chains of such moves the one is taken that sends the fewest bytes; of those that send as many, the shortest. The
list of steps is what is counted, drawn and run.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from .permutation import crossed
from .spec import Axes, Spec, local_shape, padded_shape


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


def reshard(start: Spec, target: Spec, sizes: Mapping[str, int]) -> Reshard:
    """Returns the cheapest reshard of a value from `start` to `target`.

    The target may leave the value partial over some of the axes that it is partial over already.

    Args:
        start: the spec that the value has.
        target: the spec that it must have.
        sizes: the mesh axes' sizes.
    """
    return Reshard(start, () if start == target else _cheapest(start, target, tuple(sizes.items())))


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
        total += _cost(spec, step, sizes)
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
    for i, (have, want) in enumerate(zip(spec.splits, target.splits, strict=True)):
        keep = next((k for k, (a, b) in enumerate(zip(have, want, strict=False)) if a != b), min(len(have), len(want)))
        if have[keep:]:
            spec = _with(spec, {i: have[:keep]})
            moves.append(ReshardStep("all-gather", have[keep:], i, -1, spec))
    return Reshard(reshard.start, tuple(moves))


def _cost(spec: Spec, step: ReshardStep, sizes: Mapping[str, int]) -> float:
    if step.kind == "slice":
        return 0.0
    return wire_factor(step.kind, math.prod(sizes[a] for a in step.axes)) / math.prod(sizes[a] for a in spec.axes)


@functools.lru_cache(maxsize=65536)
def _cheapest(start: Spec, target: Spec, mesh: tuple[tuple[str, int], ...]) -> tuple[ReshardStep, ...]:
    """Returns the cheapest steps, by Dijkstra's algorithm over the specs between."""
    sizes, count = dict(mesh), itertools.count()
    waiting: list[tuple] = [(0.0, 0, next(count), start, ())]
    settled: set[Spec] = set()
    while waiting:
        cost, length, _, spec, steps = heapq.heappop(waiting)
        if spec == target:
            return steps
        if spec in settled:
            continue
        settled.add(spec)
        for step in _moves(spec, start, target, sizes):
            if step.result not in settled:
                # Sums that are equal but for rounding are equal, so that the shorter chain wins.
                total = round(cost + _cost(spec, step, sizes), 12)
                heapq.heappush(waiting, (total, length + 1, next(count), step.result, (*steps, step)))
    raise AssertionError(f"no reshard leads from {start} to {target}")


def _moves(spec: Spec, start: Spec, target: Spec, sizes: Mapping[str, int]) -> Iterator[ReshardStep]:
    """Yields the moves from a spec that may lead on; each axis is sharded as the start or the target begins."""
    used, to_sum = {*spec.axes, *spec.partial}, set(spec.partial) - set(target.partial)
    if to_sum:
        yield from _sums(spec, target, to_sum)
    for i, (have, want) in enumerate(zip(spec.splits, target.splits, strict=True)):
        if want[: len(have)] == have:
            more = tuple(itertools.takewhile(lambda a: a not in used, want[len(have) :]))
            if more:
                yield ReshardStep("slice", more, i, -1, _with(spec, {i: have + more}))
        elif have:
            yield from _gathers(spec, i, start.splits[i], want)
        if have and want != have:
            yield from _all_to_alls(spec, i, target)
    yield from _permutes(spec, target, sizes)


def _with(spec: Spec, changed: Mapping[int, Axes], partial: Iterable[str] | None = None) -> Spec:
    splits = tuple(changed.get(i, split) for i, split in enumerate(spec.splits))
    return Spec(splits, spec.partial if partial is None else tuple(sorted(partial)))


def _sums(spec: Spec, target: Spec, to_sum: set[str]) -> Iterator[ReshardStep]:
    """Yields reduce-scatters to where the target is sharded, and all-reduces of the rest, over all axes at once."""
    for i, (have, want) in enumerate(zip(spec.splits, target.splits, strict=True)):
        more = tuple(itertools.takewhile(lambda a: a in to_sum, want[len(have) :]))
        if want[: len(have)] == have and more:
            left = set(spec.partial).difference(more)
            yield ReshardStep("reduce-scatter", more, i, -1, _with(spec, {i: have + more}, left))
    for over in dict.fromkeys((tuple(sorted(to_sum - set(target.axes))), tuple(sorted(to_sum)))):
        if over:
            yield ReshardStep("all-reduce", over, -1, -1, _with(spec, {}, set(spec.partial).difference(over)))


def _gathers(spec: Spec, i: int, first: Axes, want: Axes) -> Iterator[ReshardStep]:
    have = spec.splits[i]
    for keep in range(len(have)):
        if have[:keep] in (first[:keep], want[:keep]):
            yield ReshardStep("all-gather", have[keep:], i, -1, _with(spec, {i: have[:keep]}))


def _all_to_alls(spec: Spec, j: int, target: Spec) -> Iterator[ReshardStep]:
    """Yields moves of the minor-most mesh axes of one axis of the value to the end of another's."""
    have = spec.splits[j]
    for keep in range(len(have)):
        moved = have[keep:]
        for i, (mine, want) in enumerate(zip(spec.splits, target.splits, strict=True)):
            if i != j and want[: len(mine)] == mine and want[len(mine) : len(mine) + len(moved)] == moved:
                yield ReshardStep("all-to-all", moved, i, j, _with(spec, {j: have[:keep], i: mine + moved}))


def _permutes(spec: Spec, target: Spec, sizes: Mapping[str, int]) -> Iterator[ReshardStep]:
    """Yields the move of blocks, as large as they are, to the devices that the target begins with."""
    changed: dict[int, Axes] = {}
    for i, (have, want) in enumerate(zip(spec.splits, target.splits, strict=True)):
        if have != want[: len(have)]:
            count = math.prod(sizes[a] for a in have)
            counts = itertools.accumulate((sizes[a] for a in want), operator.mul, initial=1)
            fitting = next((k for k, n in enumerate(counts) if n == count), None)
            if fitting is not None:
                changed[i] = want[:fitting]
    result = _with(spec, changed)
    if changed and len({*result.axes, *result.partial}) == len(result.axes) + len(result.partial):
        yield ReshardStep("collective-permute", crossed(spec, result, tuple(sizes.items())), -1, -1, result)
