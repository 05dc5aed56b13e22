"""Operations that make the same as others, of less: of nothing, or of a value that is there already.

sort(x) * 0 → zeros          x.var's own mean [1, b] → the mean [b], reshaped          stack([x, y])[0] → x, reshaped
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from .code import Input, Literal, Operation

Shape = tuple[int, ...]


def constant(operation: Operation, number: np.ndarray) -> Operation:
    """What makes one number everywhere, in the place of an operation."""
    result = operation.equation.outvars[0].aval
    equation = _equation(lambda: lax.full(result.shape, number, result.dtype))
    return _instead(operation, equation, [Literal(atom.val) for atom in equation.invars])


def reshape(operation: Operation, value: int, shape: Shape) -> Operation:
    """What gives a value of another shape, in the place of an operation."""
    result = operation.equation.outvars[0].aval
    given = jax.ShapeDtypeStruct(shape, result.dtype)
    return _instead(operation, _equation(lambda x: lax.reshape(x, result.shape), given), [value])


def cut(operation: Operation, value: int, shape: Shape, ranges: Sequence[range]) -> Operation:
    """What takes a part of a value, in the place of an operation."""
    starts, stops, steps = zip(*((r.start, r.stop, r.step) for r in ranges), strict=True)
    given = jax.ShapeDtypeStruct(shape, operation.equation.outvars[0].aval.dtype)
    return _instead(operation, _equation(lambda x: lax.slice(x, starts, stops, steps), given), [value])


def repeat(
    line: Operation, value: Input, given: Shape, axes: Sequence[int], made: int, shape: Shape, dtype: Any
) -> Operation:
    """What makes `made`, a value repeated along the other axes of a shape, at the line of an operation."""
    operand = jax.ShapeDtypeStruct(given, dtype)
    equation = _equation(lambda x: lax.broadcast_in_dim(x, shape, axes), operand)
    return dataclasses.replace(
        line, name=equation.primitive.name, equation=equation, inputs=(value,), outputs=(made,), blocks=()
    )


def empty(line: Operation, made: int, shape: Shape, dtype: Any) -> Operation:
    """What makes `made`, which has no elements, at the line of an operation."""
    equation = _equation(lambda: lax.full(shape, 0, dtype))
    inputs = tuple(Literal(atom.val) for atom in equation.invars)
    return dataclasses.replace(
        line, name=equation.primitive.name, equation=equation, inputs=inputs, outputs=(made,), blocks=()
    )


def _instead(operation: Operation, equation: Any, inputs: Sequence[Input]) -> Operation:
    return dataclasses.replace(operation, name=equation.primitive.name, equation=equation, inputs=tuple(inputs))


def _equation(function: Callable, *given: Any) -> Any:
    (equation,) = jax.make_jaxpr(function)(*given).jaxpr.eqns
    return equation
