"""Rules of reductions over windows: pooling, its gradient, and its derivative.

    reduce_window_max       x[height] → y[height_2]                 the greatest of each window
    select_and_scatter_add  ∂y[height_2], x[height] → ∂x[height]    its gradient: each goes to where the greatest stands
    select_and_gather_add   ∂x[height], x[height] → ∂y[height_2]    its derivative: each comes from there

Windows that lie in one block need nothing of others. Where they reach over its edge, a device asks its neighbours for
the elements that they cover; beyond the ends stands what changes nothing: zero for a sum, -inf for a maximum. In the
gradient of a maximum a device serves the windows of its own part, and hands on what falls into its neighbours' blocks.

A single window over all of an axis does not slide: it is a sum, partial where the axis is split, or a maximum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..code.operations import Operation
from .halo import Pair, Slide
from .local_forms import Device, Local, local_form
from .neutral import idle
from .rank import extreme
from .table import NONE, Factors, Facts, Shape, local_params, rule
from .traits import FIRST, NOWHERE, opaque

_EXTREMES = ("reduce_window_max", "reduce_window_min")


def _slides(params: dict[str, Any], before: Shape, after: Shape) -> list[Slide]:
    """The windows along each axis of an array, which are as many as the axis of the result is long."""
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
    """The axes that a single window covers."""
    return frozenset(
        axis
        for axis, slide in enumerate(slides)
        if slide.windows == slide.spread == params["window_dilation"][axis] == 1
        and 0 <= slide.before <= slide.span - slide.size
    )


# Rules


def _factors(facts: Facts, slides: Sequence[Slide], *, free: bool, full: frozenset[int] = NONE) -> Factors:
    """The axes of all arrays are one by one the same; what else there is are scalars.

    Args:
        facts: the operation's.
        slides: the windows along each axis.
        free: whether the array that is looked at is one number everywhere: it is made where it is needed, so that
            nobody has edges to send.
        full: the axes that one window covers.
    """
    axes = tuple(range(len(slides)))
    reaching = full | {axis for axis, slide in enumerate(slides) if slide.reaches}
    return Factors(
        tuple(axes[: len(shape)] for shape in facts.operands),
        (axes,) * len(facts.results),
        exchanged=NONE if free else reaching,
        whole=reaching if free else NONE,
        limits={axis: slide.most_parts for axis, slide in enumerate(slides) if not slide.still and axis not in full},
    )


@rule("reduce_window_sum", traits=opaque(linear=FIRST, multiplies=None, joins="sum"))
def _sums(operation: Operation, facts: Facts) -> Factors:
    before, after = facts.operands[0], facts.results[0]
    slides = _slides(operation.params, before, after)
    full = _full(operation.params, slides)
    made = _factors(facts, slides, free=facts.uniform[0], full=full)
    # A partial sum goes through where that does not make it larger.
    through = frozenset((0,)) if math.prod(after) <= math.prod(before) else NONE
    return dataclasses.replace(made, summed=full - made.whole, exchanged=made.exchanged - full, through=through)


@rule("reduce_window_max", traits=opaque(linear=NOWHERE, multiplies=None, joins="max"))
@rule("reduce_window_min", traits=opaque(linear=NOWHERE, multiplies=None, joins="min"))
def _extremes(operation: Operation, facts: Facts) -> Factors:
    slides = _slides(operation.params, facts.operands[0], facts.results[0])
    return _factors(facts, slides, free=facts.uniform[0], full=_full(operation.params, slides))


@rule("reduce_window", traits=opaque(linear=NOWHERE, multiplies=None))
def _reductions(operation: Operation, facts: Facts) -> Factors:
    slides = _slides(operation.params, facts.operands[0], facts.results[0])
    made = _factors(facts, slides, free=all(facts.uniform))
    if idle(operation):
        return made
    # What a start that changes the result does beyond the ends is known to the compiler alone.
    beyond = frozenset(axis for axis, slide in enumerate(slides) if slide.beyond)
    return dataclasses.replace(made, exchanged=made.exchanged - beyond, whole=made.whole | beyond)


@rule("select_and_gather_add", traits=opaque(linear=FIRST, multiplies=None))
def _choices(operation: Operation, facts: Facts) -> Factors:
    return _factors(facts, _slides(operation.params, facts.operands[0], facts.results[0]), free=all(facts.uniform))


@rule("select_and_scatter_add", traits=opaque(linear=FIRST, multiplies=None))
def _selections(operation: Operation, facts: Facts) -> Factors:
    source, operand = facts.operands
    return _factors(facts, _slides(operation.params, operand, source), free=facts.uniform[1])


@local_params("reduce_window_sum", *_EXTREMES)
def _windows_of_shards(params: dict[str, Any], operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    # A window over all of an axis is one over all of its block.
    full = _full(params, _slides(params, operands[0], results[0]))
    dimensions, padding = params["window_dimensions"], params["padding"]
    return params | {
        "window_dimensions": tuple(operands[0][i] if i in full else size for i, size in enumerate(dimensions)),
        "padding": tuple((0, 0) if i in full else pads for i, pads in enumerate(padding)),
    }


# Local forms


def _covered(
    device: Device,
    local: Local,
    slides: Sequence[Slide],
    arrays: Sequence[tuple[Any, Any]],
    full: frozenset[int] = NONE,
) -> tuple[list[Any], dict[int, Pair]]:
    """Returns what the windows of a device's part cover.

    Args:
        device: this one.
        local: the operation.
        slides: the windows along each axis.
        arrays: shards, each with what stands beyond its ends (None for zeros).
        full: the axes that one window covers: nothing slides there.

    Returns:
        What they cover of each array, and the padding that is left along the axes that are split or full.
    """
    blocks = [block for block, _ in arrays]
    padding: dict[int, Pair] = dict.fromkeys(full, (0, 0))
    for axis, slide in enumerate(slides):
        split = local.split(axis)
        if split and not slide.still and axis not in full:
            for i, (_, fill) in enumerate(arrays):
                blocks[i], padding[axis] = slide.covered(device, blocks[i], axis, split, fill=fill)
    return blocks, padding


def _run(device: Device, local: Local, operands: Sequence[Any], padding: Mapping[int, Pair]) -> list[Any]:
    """Runs the primitive with another padding along some axes."""
    changed = tuple(padding.get(axis, pads) for axis, pads in enumerate(local.params["padding"]))
    return local.run(operands, device.sizes, padding=changed)


def _greatest(dtype: Any, sign: int = 1) -> np.ndarray:
    """The greatest number of a dtype or, for sign -1, the least."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return np.asarray(sign * np.inf, dtype)
    if jnp.issubdtype(dtype, jnp.bool_):
        return np.asarray(sign > 0)
    limits = jnp.iinfo(dtype)
    return np.asarray(limits.max if sign > 0 else limits.min, dtype)


@local_form("reduce_window_sum", told="windows slide along {dims}")
def _sum_own_windows(device: Device, local: Local, operands: Sequence[Any]) -> list[Any]:
    slides = _slides(local.params, local.operand_shapes[0], local.result_shapes[0])
    full = _full(local.params, slides)
    blocks, padding = _covered(device, local, slides, [(operands[0], None)], full)
    return _run(device, local, blocks, padding)


@local_form("reduce_window_max", told="the greatest value in windows along {dims} is taken")
@local_form("reduce_window_min", told="the least value in windows along {dims} is taken")
def _extremes_of_own_windows(device: Device, local: Local, operands: Sequence[Any]) -> list[Any]:
    kind = local.operation.name[-3:]
    slides = _slides(local.params, local.operand_shapes[0], local.result_shapes[0])
    fill = _greatest(operands[0].dtype, -1 if kind == "max" else 1)
    full = _full(local.params, slides)
    blocks, padding = _covered(device, local, slides, [(operands[0], fill)], full)
    results = _run(device, local, blocks, padding)
    over = tuple(sorted(a for axis in full for a in local.split(axis)))
    return [extreme(device, own, over, kind) for own in results] if over else results


@local_form("reduce_window", told="windows slide along {dims}")
def _reduce_own_windows(device: Device, local: Local, operands: Sequence[Any]) -> list[Any]:
    count = len(operands) // 2
    slides = _slides(local.params, local.operand_shapes[0], local.result_shapes[0])
    # A reduction starts from its first values, and they stand beyond the ends as well.
    starts = operands[count:]
    blocks, padding = _covered(device, local, slides, list(zip(operands[:count], starts, strict=True)))
    return _run(device, local, [*blocks, *starts], padding)


@local_form("select_and_gather_add", told="the chosen values of windows along {dims} are taken")
def _select_from_own_windows(device: Device, local: Local, operands: Sequence[Any]) -> list[Any]:
    given, operand = operands
    slides = _slides(local.params, local.operand_shapes[0], local.result_shapes[0])
    fill = _never_selected(local, operand)
    blocks, padding = _covered(device, local, slides, [(given, None), (operand, fill)])
    return _run(device, local, blocks, padding)


@local_form("select_and_scatter_add", told="values go to the chosen places of windows along {dims}")
def _scatter_from_own_windows(device: Device, local: Local, operands: Sequence[Any]) -> list[Any]:
    source, operand = operands
    slides = _slides(local.params, local.operand_shapes[1], local.operand_shapes[0])
    (block,), padding = _covered(device, local, slides, [(operand, _never_selected(local, operand))])
    (result,) = _run(device, local, [source, block], padding)
    for axis, slide in reversed(list(enumerate(slides))):
        split = local.split(axis)
        if split and not slide.still:
            result = slide.added_back(device, result, axis, split)
    return [result]


def _never_selected(local: Local, operand: Any) -> np.ndarray:
    """What no window selects: the least number where it takes the greatest, and the other way round."""
    return _greatest(operand.dtype, -1 if local.params["select_prim"].name == "ge" else 1)
