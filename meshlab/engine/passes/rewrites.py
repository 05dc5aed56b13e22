"""Operations that make the same as others, of less: of nothing, or of a value that is there already.

sort(x) * 0 → zeros          x.var's own mean [1, b] → the mean [b], reshaped          stack([x, y])[0] → x, reshaped
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from ..code.operations import Input, Literal, Operation
from ..jax_compat import opened

Shape = tuple[int, ...]


class Made(NamedTuple):
    """A value that an operation is to make: its number, shape and dtype."""

    number: int
    shape: Shape
    dtype: Any


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


def repeat(line: Operation, value: Input, given: Shape, axes: Sequence[int], made: Made) -> Operation:
    """What makes a value by repeating another one along the axes that are not `axes`, at the line of an operation."""
    operand = jax.ShapeDtypeStruct(given, made.dtype)
    equation = _equation(lambda x: lax.broadcast_in_dim(x, made.shape, axes), operand)
    return _at(line, equation, [value], made)


def empty(line: Operation, made: Made) -> Operation:
    """What makes a value without elements, at the line of an operation."""
    equation = _equation(lambda: lax.full(made.shape, 0, made.dtype))
    return _at(line, equation, [Literal(atom.val) for atom in equation.invars], made)


def _at(line: Operation, equation: Any, inputs: Sequence[Input], made: Made) -> Operation:
    return dataclasses.replace(_instead(line, equation, inputs), outputs=(made.number,), blocks=())


def _instead(operation: Operation, equation: Any, inputs: Sequence[Input]) -> Operation:
    return dataclasses.replace(operation, name=equation.primitive.name, equation=equation, inputs=tuple(inputs))


def _equation(function: Callable, *given: Any) -> Any:
    (equation,) = opened(jax.make_jaxpr(function)(*given)).equations
    return equation
