"""Rules of operations that move elements: transpose, broadcast, reshape, slice, pad, reverse, concatenate, split.

An axis that keeps all its elements runs through, and so does one that is reversed, or from which little is cut off. An
axis that is joined or cut is gathered, and the result has a new axis with a name of its own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..code.operations import Literal, Operation
from ..collectives.device import Device
from .gathering import addable, combined
from .halo import Slide
from .per_shard import ShardedOperation, per_shard
from .table import NONE, Factors, Facts, Shape, local_params, rule
from .traits import FIRST, bitcasting, broadcasting, concatenating, linear_in, moving, opaque

_ONE = frozenset((0,))


@rule("transpose", traits=moving(linear=FIRST, reads_part=False, keeps=True))
def _transpose(operation: Operation, facts: Facts) -> Factors:
    rank = len(facts.operands[0])
    return Factors((tuple(range(rank)),), (tuple(operation.params["permutation"]),), through=_ONE)


@rule("broadcast_in_dim", traits=broadcasting())
def _broadcast(operation: Operation, facts: Facts) -> Factors:
    source, result = facts.operands[0], facts.results[0]
    placed = operation.params["broadcast_dimensions"]
    operand = tuple(k if source[j] == result[k] else -1 for j, k in enumerate(placed))
    # A partial sum goes through where nothing is repeated: else more would have to be reduced behind it.
    through = _ONE if math.prod(source) == math.prod(result) else frozenset[int]()
    return Factors((operand, *((),) * (len(facts.operands) - 1)), (tuple(range(len(result))),), through=through)


@local_params("broadcast_in_dim")
def _broadcast_local(params: dict[str, Any], _operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    return params | {"shape": results[0], "sharding": None}


@rule("squeeze", traits=bitcasting(identity=False))
def _squeeze(operation: Operation, facts: Facts) -> Factors:
    rank = len(facts.operands[0])
    squeezed = {d % rank for d in operation.params["dimensions"]}
    return Factors((tuple(range(rank)),), (tuple(i for i in range(rank) if i not in squeezed),), through=_ONE)


@rule("reshape", traits=bitcasting(identity=False))
def _reshape(operation: Operation, facts: Facts) -> Factors:
    """Lets axes that keep their size run through, and the first axis of each group that is merged or split.

    [batch, heads, head] → [batch, heads*head]: shards of heads are shards of the merged axis, as long as the number of
    shards divides both sizes. Where they are single heads, shards of head are shards of the merged axis as well. Minor
    axes of anything else must be unsharded.
    """
    before, after = facts.operands[0], facts.results[0]
    operand, result = [-1] * len(before), [-1] * len(after)
    unsharded: set[int] = set()
    limits: dict[int, int] = {}
    minors: dict[int, int] = {}
    count = 0
    for left, right in aligned(before, after, operation.params["dimensions"]):
        operand[left[0]] = result[right[0]] = count
        if before[left[0]] != after[right[0]]:
            limits[count] = math.gcd(before[left[0]], after[right[0]])
        count += 1
        if len(left) == 1 or len(right) == 1:
            parts, place, sizes = (left, operand, before) if len(right) == 1 else (right, result, after)
            for axis in parts[1:]:
                place[axis] = minors[count - 1] = count
                limits[count] = sizes[axis]
                count += 1
            continue
        for axes, place in ((left, operand), (right, result)):
            for axis in axes[1:]:
                place[axis] = count
                unsharded.add(count)
                count += 1
    axes = (tuple(operand),), (tuple(result),)
    return Factors(*axes, unsharded=frozenset(unsharded), limits=limits, minors=minors, through=_ONE)


def aligned(before: Shape, after: Shape, order: Sequence[int] | None = None) -> list[tuple[list[int], list[int]]]:
    """Pairs the smallest runs of axes (those of size 1 left out) with equal products.

    Args:
        before: the operand's shape.
        after: the result's shape.
        order: in which the operand's axes are read; None for their own.
    """
    left = [i for i in (range(len(before)) if order is None else order) if before[i] != 1]
    right = [i for i, s in enumerate(after) if s != 1]
    runs = []
    i = j = 0
    while i < len(left):
        axes, others = [left[i]], [right[j]]
        a, b = before[left[i]], after[right[j]]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                axes.append(left[i])
                a, i = a * before[left[i]], i + 1
            else:
                others.append(right[j])
                b, j = b * after[right[j]], j + 1
        runs.append((axes, others))
    return runs


@local_params("reshape")
def _reshape_local(params: dict[str, Any], _operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    return params | {"new_sizes": results[0], "sharding": None}


def _cut(facts: Facts, slides: Sequence[Slide | None]) -> Factors:
    """Lets axes run through, but for those from which elements are cut off or to which some are added.

    There operand and result have factors of their own, which are unsharded; or a common one, which is sharded, where
    devices need little of their neighbours: at most a quarter of the axis, while gathering would send half of it.
    """
    rank = len(slides)
    separate = [s is not None and (facts.uniform[0] or not _is_near(s)) for s in slides]
    near = {i: s for i, s in enumerate(slides) if s is not None and not separate[i]}
    result = tuple(i + rank if separate[i] else i for i in range(rank))
    scalars = ((),) * (len(facts.operands) - 1)
    return Factors(
        (tuple(range(rank)), *scalars),
        (result,),
        per_shard=frozenset(i for i, slide in near.items() if slide.reaches),
        unsharded=frozenset(f for i in range(rank) if separate[i] for f in (i, i + rank)),
        limits={i: slide.most_parts for i, slide in near.items()},
    )


def _is_near(slide: Slide) -> bool:
    most = slide.most_parts
    reach = slide.reach(most)
    return most > 1 and 4 * (reach.left + reach.right) <= slide.size


def _sliced(params: Mapping[str, Any], before: Shape, after: Shape) -> list[Slide | None]:
    """Returns for each axis that a slice shortens the elements that it takes, as windows of one."""
    strides = params["strides"] or (1,) * len(before)
    options = zip(before, after, params["start_indices"], strides, strict=True)
    return [Slide(a, b, 1, stride, before=-start) if a != b else None for a, b, start, stride in options]


def _padded(params: Mapping[str, Any], before: Shape, after: Shape) -> list[Slide | None]:
    """Returns for each axis that a pad changes the elements of the result, as windows of one."""
    options = zip(before, after, params["padding_config"], strict=True)
    return [Slide(a, b, 1, 1, gap + 1, low) if any((low, high, gap)) else None for a, b, (low, high, gap) in options]


@rule("slice", traits=moving(linear=FIRST, reads_part=True, keeps=False))
def _slice(operation: Operation, facts: Facts) -> Factors:
    slides = _sliced(operation.params, facts.operands[0], facts.results[0])
    factors = _cut(facts, slides)
    if not facts.little:
        return factors
    cut = addable(operation, frozenset(i for i, slide in enumerate(slides) if slide and i in factors.unsharded), True)
    is_bool = operation.equation.invars[0].aval.dtype == bool
    return dataclasses.replace(
        factors, summed=NONE if is_bool else cut, per_shard=factors.per_shard | cut, unsharded=factors.unsharded - cut
    )


@local_params("slice")
def _slice_local(params: dict[str, Any], _operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    # Of what is sharded all is taken: a shard that is padded may be longer than the whole axis.
    strides = params["strides"] or (1,) * len(results[0])
    limits = zip(params["start_indices"], strides, results[0], strict=True)
    ends = tuple(start + (size - 1) * stride + 1 if size else start for start, stride, size in limits)
    return params | {"limit_indices": ends}


@per_shard("slice", summary="elements are taken along {dims}")
def _slice_blocks(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    """Takes near elements from neighbours; a few far ones are a sum over the devices, one of which has them."""
    (block,), params = operands, sharded.params
    starts, strides = list(params["start_indices"]), list(params["strides"] or (1,) * operands[0].ndim)
    limits = [block.shape[i] if sharded.split(i) else limit for i, limit in enumerate(params["limit_indices"])]
    mine, over = jnp.asarray(True), ()
    for axis, slide in enumerate(_sliced(params, sharded.operand_shapes[0], sharded.result_shapes[0])):
        split, size = sharded.split(axis), block.shape[axis]
        if slide is None or not split:
            continue
        if _is_near(slide):
            block, _ = slide.covered(device, block, axis, split)
        else:
            places = starts[axis] + jnp.arange(slide.windows) * strides[axis] - device.index(split) * size
            block, strides[axis] = jnp.take(block, places, axis, mode="clip"), 1
            mine &= lax.expand_dims((places >= 0) & (places < size), [i for i in range(block.ndim) if i != axis])
            over += split
        starts[axis], limits[axis] = 0, block.shape[axis]
    part = lax.slice(block, starts, limits, strides)
    return [combined(device, part, mine, over) if over else part]


@rule("pad", traits=moving(linear=linear_in({0, 1}), reads_part=False, keeps=False))
def _pad(operation: Operation, facts: Facts) -> Factors:
    return _cut(facts, _padded(operation.params, facts.operands[0], facts.results[0]))


@per_shard("pad", summary="{dims} {are} padded or cut")
def _pad_blocks(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    (block, filler), config = operands, list(sharded.params["padding_config"])
    number = sharded.operation.inputs[1]
    fill = None if isinstance(number, Literal) and number.is_zero else filler
    for axis, slide in enumerate(_padded(sharded.params, sharded.operand_shapes[0], sharded.result_shapes[0])):
        if slide is not None and sharded.split(axis):
            block, around = slide.covered(device, block, axis, sharded.split(axis), fill=fill)
            config[axis] = (*around, config[axis][2])
    return [lax.pad(block, filler, config)]


@rule("rev", traits=moving(linear=FIRST, reads_part=False, keeps=False))
def _reverse(operation: Operation, facts: Facts) -> Factors:
    """Swaps the shards, first and last, each of them reversed; a uniform array is unchanged."""
    axes = tuple(range(len(facts.operands[0])))
    reversed_axes = NONE if facts.uniform[0] else frozenset(operation.params["dimensions"])
    return Factors((axes,), (axes,), per_shard=reversed_axes)


@per_shard("rev", summary="{dims} {are} reversed")
def _reverse_blocks(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    (block,), axes = operands, sharded.params["dimensions"]
    # A single element is its own reverse, which other operations may send as well.
    long = tuple(axis for axis in axes if block.shape[axis] != 1)
    own = lax.rev(block, long) if long else block
    return [device.mirror(own, tuple(a for axis in axes for a in sharded.split(axis)))]


@rule("concatenate", traits=concatenating())
def _concatenate(operation: Operation, facts: Facts) -> Factors:
    rank, along = len(facts.results[0]), operation.params["dimension"]

    def axes(fresh: int) -> tuple[int, ...]:
        return tuple(fresh if i == along else i for i in range(rank))

    count = len(facts.operands)
    fresh = frozenset(range(rank, rank + count + 1))
    return Factors(tuple(axes(rank + k) for k in range(count)), (axes(rank + count),), unsharded=fresh)


@rule("split", traits=opaque(linear=FIRST, multiplies=None, reads_part=True))
def _split(operation: Operation, facts: Facts) -> Factors:
    rank, along = len(facts.operands[0]), operation.params["axis"]
    pieces = tuple(tuple(rank if i == along else i for i in range(rank)) for _ in facts.results)
    return Factors((tuple(range(rank)),), pieces, unsharded=frozenset((along, rank)))
