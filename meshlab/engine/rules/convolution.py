"""The rule of convolutions and their gradients shards batch, features and the axes that windows slide along.

    forward          x[batch, height, in] * w[tall, in, out]        → y[batch, height, out]    in is summed
    input gradient   ∂y[batch, height, out] * w[tall, out, in]      → ∂x[batch, height, in]    out is summed
    filter gradient  x[in, height, batch] * ∂y[batch, height, out]  → ∂w[in, tall, out]        batch, height are summed

JAX has one primitive for all three: a gradient is a convolution whose axes have changed roles. What differs is which of
the three arrays has the filter's axes. Where it is the right operand, shards of `height` go through, and each device
reads a halo around its shard of the left operand. Where it is the result, each device sums over its own shards of
`height`, the left one with the same halo, and has a partial sum.

The sizes do not say which of the three it is: a filter of one element gives the same sizes as one that is as large as
the image. The order of the axes does: data have their batch before their features, and JAX's gradient of a filter swaps
batch and features. In any other order the sliding axes are gathered.

A group is never split: the features of the left operand, the filter and the result are in the order of the groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jax.lax import ConvDimensionNumbers

from ..code.operations import Operation
from ..collectives.device import Device
from .halo import Slide
from .matmuls import of_convolution
from .per_shard import ShardedOperation, per_shard
from .table import AxisFactors, Factors, Facts, Shape, local_params, rule
from .traits import multiplying

# Factors of batch and features. Each sliding axis has three: of the left operand, the right one, the result.
_BATCH, _SUMMED, _FEATURES, _WITHIN, _APART, _FIRST = range(6)


@rule("conv_general_dilated", traits=multiplying(of_convolution))
def _convolution(operation: Operation, facts: Facts) -> Factors:
    params = operation.params
    (left, right, result), limits = _features(params, facts.operands)
    summed, unsharded, sliding = {_SUMMED}, {_WITHIN, _APART}, set()
    for j, slide in enumerate(_slides(params, facts.operands, facts.results)):
        own, other, third = range(_FIRST + 3 * j, _FIRST + 3 * j + 3)
        if slide is None:
            unsharded |= {own, other, third}
            left, right, result = (*left, own), (*right, other), (*result, third)
            continue
        unsharded.add(other)
        if _filter_is_result(params):
            summed.add(own)
            left, right, result = (*left, own), (*right, own), (*result, other)
        else:
            left, right, result = (*left, own), (*right, other), (*result, own)
        if not slide.still:
            limits[own] = slide.most_parts
        if slide.reaches:
            sliding.add(own)
    if facts.uniform[0]:
        # A uniform array is computed where it is read: no halo is sent.
        unsharded |= sliding
    numbers = params["dimension_numbers"]
    return Factors(
        (_in_order(left, numbers.lhs_spec), _in_order(right, numbers.rhs_spec)),
        (_in_order(result, numbers.out_spec),),
        summed=frozenset(summed),
        per_shard=frozenset(sliding - unsharded),
        unsharded=frozenset(unsharded),
        limits=limits,
        propagating=frozenset(left[2:]) - unsharded,
    )


def _features(
    params: dict[str, Any], operands: Sequence[Shape]
) -> tuple[tuple[AxisFactors, AxisFactors, AxisFactors], dict[int, int]]:
    """Returns the factors of batch and features of the operands (the right one's result features first) and the result.

    Axes of one factor and one size are one dim. The channels of a depthwise convolution are one; those before and
    behind other groups are two, so where they are equally many they have factors of their own, and are unsharded.

    Returns:
        The factors, and their limits.
    """
    numbers: ConvDimensionNumbers = params["dimension_numbers"]
    in_batch = params["batch_group_count"] > 1
    groups = max(params["batch_group_count"], params["feature_group_count"])
    if groups == 1:
        return ((_BATCH, _SUMMED), (_FEATURES, _SUMMED), (_BATCH, _FEATURES)), {}
    before, after = operands[0][numbers.lhs_spec[0 if in_batch else 1]], operands[1][numbers.rhs_spec[0]]
    alike = before == groups or before != after
    grouped, limits = (_FEATURES, {_FEATURES: groups}) if alike else (_APART, {_FEATURES: 1})
    if in_batch:
        return ((grouped, _SUMMED), (_FEATURES, _SUMMED), (_WITHIN, _FEATURES)), limits
    return ((_BATCH, grouped), (_FEATURES, _WITHIN), (_BATCH, _FEATURES)), limits


def _in_order(factors: AxisFactors, spec: Sequence[int]) -> AxisFactors:
    """Puts the factors of batch, features and sliding axes in the order of an array's axes."""
    placed = dict(zip(spec, factors, strict=True))
    return tuple(placed[axis] for axis in range(len(spec)))


def _swapped(spec: Sequence[int]) -> bool:
    return spec[0] > spec[1]


def _filter_is_result(params: dict[str, Any]) -> bool:
    """Says whether this is the gradient of a filter: batch and features of both operands are swapped."""
    numbers: ConvDimensionNumbers = params["dimension_numbers"]
    return _swapped(numbers.lhs_spec) and _swapped(numbers.rhs_spec)


def _slides(params: dict[str, Any], operands: Sequence[Shape], results: Sequence[Shape]) -> Iterator[Slide | None]:
    """Yields the windows of the left operand along each sliding axis; None where it must be unsharded.

    In a filter's gradient an element of the right operand is a window's position, and one of the result an element of
    the windows: element k of the result is the sum over i of left[i + k] · right[i].
    """
    numbers: ConvDimensionNumbers = params["dimension_numbers"]
    by_result = _filter_is_result(params)
    known = by_result or not (_swapped(numbers.lhs_spec) or _swapped(numbers.out_spec))
    options = (params[name] for name in ("window_strides", "lhs_dilation", "rhs_dilation", "padding"))
    specs = (numbers.lhs_spec[2:], numbers.rhs_spec[2:], numbers.out_spec[2:])
    for i, j, k, stride, spread, dilation, (before, _) in zip(*specs, *options, strict=True):
        left, right, result = operands[0][i], operands[1][j], results[0][k]
        if not known or (by_result and left == result > right):
            # The filter is as large as the image, and has one position: nothing slides.
            yield None
        elif by_result:
            yield Slide(left, right, (result - 1) * stride + 1, dilation, spread, before)
        else:
            yield Slide(left, result, (right - 1) * dilation + 1, stride, spread, before)


@local_params("conv_general_dilated")
def _groups_of_shards(params: dict[str, Any], operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    numbers: ConvDimensionNumbers = params["dimension_numbers"]
    (left, right), (result,) = operands, results
    return params | {
        "feature_group_count": left[numbers.lhs_spec[1]] // right[numbers.rhs_spec[1]],
        "batch_group_count": left[numbers.lhs_spec[0]] // result[numbers.out_spec[0]],
    }


@per_shard("conv_general_dilated", summary="windows slide along {dims}")
def _with_halos(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    block, other = operands
    axes = sharded.params["dimension_numbers"].lhs_spec[2:]
    padding = list(sharded.params["padding"])
    for j, slide in enumerate(_slides(sharded.params, sharded.operand_shapes, sharded.result_shapes)):
        split = sharded.split(axes[j])
        if split and slide is not None and not slide.still:
            block, padding[j] = slide.covered(device, block, axes[j], split)
    return sharded.run([block, other], device.sizes, padding=tuple(padding))
