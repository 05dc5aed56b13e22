"""Folds padding into the windows that read it, and transposes into the matmuls that read them.

    pad(x[8]) → [17], then sums of two neighbours → [16]        the gradient of a mean over windows, as JAX writes it
    sums over windows of x[8], spread by 2, padded by (1, 1) → [16]

An axis of 17 cannot be split in two, so the padding would gather it. As a part of the windows it costs nothing: devices
exchange edges, and beyond the ends there is nothing anyway. The same holds for a causal convolution (`jnp.pad` before,
and nothing behind), and for the gradient of one, which cuts off the padding.

A matmul reads its axes in any order, so `x @ table.T` is a matmul with the table itself: a sharded table is gathered
once, for the matmul and for the lookup of embeddings.

This runs before axes are named, so that an axis has one name before and after the padding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import jax_compat
from ..code.operations import Block, Code, Operation, use_counts
from .find_rolls import Producers, as_shift, number

# The number that each reduction ignores: for a maximum the least of its dtype, which for floats alone is -inf.
_IGNORED = {
    "conv_general_dilated": 0,
    "reduce_window_sum": 0,
    "reduce_window_max": -np.inf,
    "reduce_window_min": np.inf,
}


def fold(code: Code) -> Code:
    """Returns the same code with padding and transposes folded; operations that this makes dead are left in it."""
    return dataclasses.replace(code, block=_fold(code.block, use_counts(code)))


def _fold(block: Block, uses: Sequence[int]) -> Block:
    producers: dict[int, Operation] = {}
    operations = []
    for original in block.operations:
        blocks = tuple(_fold(inner, uses) for inner in original.blocks)
        operation = dataclasses.replace(original, blocks=blocks) if blocks else original
        operation = _fold_pad_before(operation, producers)
        operation = _fold_cut_after(operation, producers, uses)
        operation = _fold_transposes(operation, producers)
        operation = as_shift(operation, producers)
        operations.append(operation)
        producers.update(dict.fromkeys(operation.outputs, operation))
    return Block(block.inputs, tuple(operations), block.outputs)


def _fold_pad_before(operation: Operation, producers: Producers) -> Operation:
    """Folds a pad into the windows that read it."""
    value = operation.inputs[0] if operation.name in _IGNORED else None
    pad = producers.get(value) if isinstance(value, int) else None
    if pad is None or pad.name != "pad" or number(pad.inputs[1], producers) != _IGNORED[operation.name]:
        return operation
    config, params = pad.params["padding_config"], operation.params
    axes, spread_name = _sliding(operation)
    if any(tuple(one) != (0, 0, 0) for axis, one in enumerate(config) if axis not in axes):
        return operation
    spreads = [s * (config[axis][2] + 1) for axis, s in zip(axes, params[spread_name], strict=True)]
    padding = [
        (low + config[axis][0] * s, high + config[axis][1] * s)
        for axis, s, (low, high) in zip(axes, params[spread_name], params["padding"], strict=True)
    ]
    if operation.name != "conv_general_dilated" and min(map(min, padding)) < 0:
        return operation
    changed = {spread_name: tuple(spreads), "padding": tuple(padding)}
    return _changed(operation, (pad.inputs[0], *operation.inputs[1:]), pad.equation.invars[0], changed)


def _sliding(operation: Operation) -> tuple[Sequence[int], str]:
    """Returns the axes of the first operand along which windows slide, and the parameter that spreads its elements."""
    if operation.name == "conv_general_dilated":
        return operation.params["dimension_numbers"].lhs_spec[2:], "lhs_dilation"
    return range(len(operation.equation.invars[0].aval.shape)), "base_dilation"


def _changed(operation: Operation, inputs: tuple[Any, ...], first: Any, params: dict[str, Any]) -> Operation:
    integers = {name: tuple(_integers(one) for one in value) for name, value in params.items()}
    invars = [first, *operation.equation.invars[1:]]
    equation = jax_compat.changed(operation.equation, invars=invars, params=operation.params | integers)
    return dataclasses.replace(operation, inputs=inputs, equation=equation)


def _integers(value: Any) -> Any:
    return tuple(map(int, value)) if isinstance(value, tuple) else int(value)


def _fold_cut_after(operation: Operation, producers: Producers, uses: Sequence[int]) -> Operation:
    """Folds a negative pad, which cuts off the ends of a convolution's result, into the convolution's padding."""
    value = operation.inputs[0] if operation.name == "pad" else None
    convolution = producers.get(value) if isinstance(value, int) else None
    if convolution is None or convolution.name != "conv_general_dilated" or uses[convolution.outputs[0]] != 1:
        return operation
    config, params = operation.params["padding_config"], convolution.params
    numbers = params["dimension_numbers"]
    axes = numbers.out_spec[2:]
    inside = all(tuple(one) == (0, 0, 0) for axis, one in enumerate(config) if axis not in axes)
    if not inside or any(low > 0 or high > 0 or gap for low, high, gap in config):
        return operation
    left, right = (convolution.equation.invars[i].aval.shape for i in (0, 1))
    result = operation.equation.outvars[0].aval.shape
    padding = []
    for j, axis in enumerate(axes):
        stride, spread, dilation = (params[n][j] for n in ("window_strides", "lhs_dilation", "rhs_dilation"))
        low = params["padding"][j][0] + config[axis][0] * stride
        span = (right[numbers.rhs_spec[2 + j]] - 1) * dilation + 1
        covered = (result[axis] - 1) * stride + span
        padding.append((low, covered - low - (left[numbers.lhs_spec[2 + j]] - 1) * spread - 1))
    changed = _changed(convolution, convolution.inputs, convolution.equation.invars[0], {"padding": tuple(padding)})
    equation = jax_compat.changed(changed.equation, outvars=operation.equation.outvars)
    return dataclasses.replace(changed, outputs=operation.outputs, equation=equation)


def _fold_transposes(operation: Operation, producers: Producers) -> Operation:
    """Folds transposes into the matmul that reads them, if the result's axes keep their order."""
    if operation.name != "dot_general":
        return operation
    inputs, invars = list(operation.inputs), list(operation.equation.invars)
    contracted, batched = (list(map(tuple, pair)) for pair in operation.params["dimension_numbers"])
    for side, value in enumerate(operation.inputs):
        transpose = producers.get(value) if isinstance(value, int) else None
        if transpose is None or transpose.name != "transpose":
            continue
        order = transpose.params["permutation"]
        free = [order[a] for a in range(len(order)) if a not in (*contracted[side], *batched[side])]
        if free == sorted(free):
            inputs[side], invars[side] = transpose.inputs[0], transpose.equation.invars[0]
            contracted[side] = tuple(int(order[a]) for a in contracted[side])
            batched[side] = tuple(int(order[a]) for a in batched[side])
    numbers = (tuple(contracted), tuple(batched))
    params = operation.params | {"dimension_numbers": numbers}
    equation = jax_compat.changed(operation.equation, invars=invars, params=params)
    return dataclasses.replace(operation, inputs=tuple(inputs), equation=equation)
