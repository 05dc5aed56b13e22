"""Rules of reductions over windows (pooling, its gradient and derivative) shard the axes that windows slide along.

    reduce_window_max       x[height] → y[height_2]                 the maximum of each window
    select_and_scatter_add  ∂y[height_2], x[height] → ∂x[height]    its gradient: added where the maximum is
    select_and_gather_add   ∂x[height], x[height] → ∂y[height_2]    its derivative: taken from where the maximum is

Windows inside one shard need no communication. Where they reach over its edge, the device gets a halo from its
neighbours; beyond the ends are neutral elements: zero for a sum, -inf for a maximum. In the gradient of a maximum a
device computes its own windows, and sends the sums that fall into its neighbours' shards.

A single window over an entire axis does not slide: it is a sum, partial where the axis is sharded, or a maximum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..code.operations import Operation
from ..collectives.device import Device
from .halo import Pair, Slide
from .neutral import idle, neutral
from .per_shard import ShardedOperation, per_shard
from .rank import extreme
from .table import NONE, Factors, Facts, Shape, local_params, rule
from .traits import FIRST, NOWHERE, opaque

_EXTREMES = ("reduce_window_max", "reduce_window_min")


def _slides(params: dict[str, Any], before: Shape, after: Shape) -> list[Slide]:
    """Returns the windows along each axis of an array, as many as the result's axis is long."""
    ones = (1,) * len(before)
    spreads, gaps = (params.get(name, ones) for name in ("base_dilation", "window_dilation"))
    options = (params["window_dimensions"], params["window_strides"], params["padding"])
    return [
        Slide(size, count, (window - 1) * gap + 1, stride, spread, low)
        for size, count, window, stride, (low, _), spread, gap in zip(
            before, after, *options, spreads, gaps, strict=True
        )
    ]


def _full(params: dict[str, Any], slides: Sequence[Slide]) -> frozenset[int]:
    """Returns the axes that a single window covers."""
    return frozenset(
        axis
        for axis, slide in enumerate(slides)
        if slide.windows == slide.spread == params["window_dilation"][axis] == 1
        and 0 <= slide.before <= slide.span - slide.size
    )


# Rules


def _factors(facts: Facts, slides: Sequence[Slide], *, free: bool, full: frozenset[int] = NONE) -> Factors:
    """Returns the factors of an operation whose arrays have the same axes; the other operands are scalars.

    Args:
        facts: the operation's.
        slides: the windows along each axis.
        free: whether the array that windows cover is uniform: it is computed where it is read, and no halo is sent.
        full: the axes that one window covers.
    """
    axes = tuple(range(len(slides)))
    reaching = full | {axis for axis, slide in enumerate(slides) if slide.reaches}
    return Factors(
        tuple(axes[: len(shape)] for shape in facts.operands),
        (axes,) * len(facts.results),
        per_shard=NONE if free else reaching,
        unsharded=reaching if free else NONE,
        limits={axis: slide.most_parts for axis, slide in enumerate(slides) if not slide.still and axis not in full},
    )


@rule("reduce_window_sum", traits=opaque(linear=FIRST, multiplies=None, joins="sum"))
def _sums(operation: Operation, facts: Facts) -> Factors:
    before, after = facts.operands[0], facts.results[0]
    slides = _slides(operation.params, before, after)
    full = _full(operation.params, slides)
    factors = _factors(facts, slides, free=facts.uniform[0], full=full)
    # A partial sum goes through where that does not make it larger.
    through = frozenset((0,)) if math.prod(after) <= math.prod(before) else NONE
    summed, remaining = full - factors.unsharded, factors.per_shard - full
    return dataclasses.replace(factors, summed=summed, per_shard=remaining, through=through)


@rule("reduce_window_max", traits=opaque(linear=NOWHERE, multiplies=None, joins="max"))
@rule("reduce_window_min", traits=opaque(linear=NOWHERE, multiplies=None, joins="min"))
def _extremes(operation: Operation, facts: Facts) -> Factors:
    slides = _slides(operation.params, facts.operands[0], facts.results[0])
    return _factors(facts, slides, free=facts.uniform[0], full=_full(operation.params, slides))


@rule("reduce_window", traits=opaque(linear=NOWHERE, multiplies=None))
def _reductions(operation: Operation, facts: Facts) -> Factors:
    slides = _slides(operation.params, facts.operands[0], facts.results[0])
    factors = _factors(facts, slides, free=all(facts.uniform))
    if idle(operation):
        return factors
    # How often a start value that is not neutral is joined beyond the ends is up to the compiler.
    beyond = frozenset(axis for axis, slide in enumerate(slides) if slide.beyond)
    return dataclasses.replace(factors, per_shard=factors.per_shard - beyond, unsharded=factors.unsharded | beyond)


@rule("select_and_gather_add", traits=opaque(linear=FIRST, multiplies=None))
def _choices(operation: Operation, facts: Facts) -> Factors:
    return _factors(facts, _slides(operation.params, facts.operands[0], facts.results[0]), free=all(facts.uniform))


@rule("select_and_scatter_add", traits=opaque(linear=FIRST, multiplies=None))
def _selections(operation: Operation, facts: Facts) -> Factors:
    source, operand = facts.operands
    return _factors(facts, _slides(operation.params, operand, source), free=facts.uniform[1])


@local_params("reduce_window_sum", *_EXTREMES)
def _windows_of_shards(params: dict[str, Any], operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    # A window over an entire axis is one over the entire shard.
    full = _full(params, _slides(params, operands[0], results[0]))
    dimensions, padding = params["window_dimensions"], params["padding"]
    return params | {
        "window_dimensions": tuple(operands[0][i] if i in full else size for i, size in enumerate(dimensions)),
        "padding": tuple((0, 0) if i in full else pads for i, pads in enumerate(padding)),
    }


# Per-shard implementations


def _covered(
    device: Device,
    sharded: ShardedOperation,
    slides: Sequence[Slide],
    arrays: Sequence[tuple[Any, Any]],
    full: frozenset[int] = NONE,
) -> tuple[list[Any], dict[int, Pair]]:
    """Returns the elements that a device's windows cover.

    Args:
        device: this one.
        sharded: the operation.
        slides: the windows along each axis.
        arrays: shards, each with the number beyond its ends (None for zero).
        full: the axes that one window covers: nothing slides there.

    Returns:
        The elements of each array, and the padding that is left along the axes that are sharded or full.
    """
    blocks = [block for block, _ in arrays]
    padding: dict[int, Pair] = dict.fromkeys(full, (0, 0))
    for axis, slide in enumerate(slides):
        split = sharded.split(axis)
        if split and not slide.still and axis not in full:
            for i, (_, fill) in enumerate(arrays):
                blocks[i], padding[axis] = slide.covered(device, blocks[i], axis, split, fill=fill)
    return blocks, padding


def _run(device: Device, sharded: ShardedOperation, operands: Sequence[Any], padding: Mapping[int, Pair]) -> list[Any]:
    changed = tuple(padding.get(axis, pads) for axis, pads in enumerate(sharded.params["padding"]))
    return sharded.run(operands, device.sizes, padding=changed)


@per_shard("reduce_window_sum", summary="windows slide along {dims}")
def _sum_own_windows(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    slides = _slides(sharded.params, sharded.operand_shapes[0], sharded.result_shapes[0])
    full = _full(sharded.params, slides)
    blocks, padding = _covered(device, sharded, slides, [(operands[0], None)], full)
    return _run(device, sharded, blocks, padding)


@per_shard("reduce_window_max", summary="the greatest value in windows along {dims} is taken")
@per_shard("reduce_window_min", summary="the least value in windows along {dims} is taken")
def _extremes_of_own_windows(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    kind = sharded.operation.name[-3:]
    slides = _slides(sharded.params, sharded.operand_shapes[0], sharded.result_shapes[0])
    fill = neutral(sharded.operation.name, operands[0].dtype)
    full = _full(sharded.params, slides)
    blocks, padding = _covered(device, sharded, slides, [(operands[0], fill)], full)
    results = _run(device, sharded, blocks, padding)
    over = tuple(sorted(a for axis in full for a in sharded.split(axis)))
    return [extreme(device, own, over, kind) for own in results] if over else results


@per_shard("reduce_window", summary="windows slide along {dims}")
def _reduce_own_windows(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    count = len(operands) // 2
    slides = _slides(sharded.params, sharded.operand_shapes[0], sharded.result_shapes[0])
    # The start values of a reduction are also the padding beyond the ends.
    starts = operands[count:]
    blocks, padding = _covered(device, sharded, slides, list(zip(operands[:count], starts, strict=True)))
    return _run(device, sharded, [*blocks, *starts], padding)


@per_shard("select_and_gather_add", summary="the chosen values of windows along {dims} are taken")
def _select_from_own_windows(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    tangent, operand = operands
    slides = _slides(sharded.params, sharded.operand_shapes[0], sharded.result_shapes[0])
    fill = _never_selected(sharded, operand)
    blocks, padding = _covered(device, sharded, slides, [(tangent, None), (operand, fill)])
    return _run(device, sharded, blocks, padding)


@per_shard("select_and_scatter_add", summary="values go to the chosen places of windows along {dims}")
def _scatter_from_own_windows(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    source, operand = operands
    slides = _slides(sharded.params, sharded.operand_shapes[1], sharded.operand_shapes[0])
    (block,), padding = _covered(device, sharded, slides, [(operand, _never_selected(sharded, operand))])
    (result,) = _run(device, sharded, [source, block], padding)
    for axis, slide in reversed(list(enumerate(slides))):
        split = sharded.split(axis)
        if split and not slide.still:
            result = slide.added_back(device, result, axis, split)
    return [result]


def _never_selected(sharded: ShardedOperation, operand: Any) -> np.ndarray:
    """Returns the number that no window selects: the least if it takes the maximum, the greatest if the minimum."""
    return neutral(
        "reduce_window_max" if sharded.params["select_prim"].name == "ge" else "reduce_window_min", operand.dtype
    )
