"""Builds operations that replace others: a constant, or a reshape, slice or broadcast of a value that exists already.

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


class Output(NamedTuple):
    """Describes the value that an operation computes: its number, shape and dtype."""

    number: int
    shape: Shape
    dtype: Any


def constant(operation: Operation, number: np.ndarray) -> Operation:
    """Replaces an operation by one that fills its result with a number."""
    result = operation.equation.outvars[0].aval
    equation = _equation(lambda: lax.full(result.shape, number, result.dtype))
    return _instead(operation, equation, [Literal(atom.val) for atom in equation.invars])


def reshape(operation: Operation, value: int, shape: Shape) -> Operation:
    """Replaces an operation by a reshape of a value."""
    result = operation.equation.outvars[0].aval
    given = jax.ShapeDtypeStruct(shape, result.dtype)
    return _instead(operation, _equation(lambda x: lax.reshape(x, result.shape), given), [value])


def cut(operation: Operation, value: int, shape: Shape, ranges: Sequence[range]) -> Operation:
    """Replaces an operation by a slice of a value."""
    starts, stops, steps = zip(*((r.start, r.stop, r.step) for r in ranges), strict=True)
    given = jax.ShapeDtypeStruct(shape, operation.equation.outvars[0].aval.dtype)
    return _instead(operation, _equation(lambda x: lax.slice(x, starts, stops, steps), given), [value])


def repeat(line: Operation, value: Input, shape: Shape, axes: Sequence[int], output: Output) -> Operation:
    """Broadcasts a value, whose axes become `axes` of the output, at the source line of an operation."""
    operand = jax.ShapeDtypeStruct(shape, output.dtype)
    equation = _equation(lambda x: lax.broadcast_in_dim(x, output.shape, axes), operand)
    return _at(line, equation, [value], output)


def empty(line: Operation, output: Output) -> Operation:
    """Makes a value without elements, at the source line of an operation."""
    equation = _equation(lambda: lax.full(output.shape, 0, output.dtype))
    return _at(line, equation, [Literal(atom.val) for atom in equation.invars], output)


def _at(line: Operation, equation: Any, inputs: Sequence[Input], output: Output) -> Operation:
    return dataclasses.replace(_instead(line, equation, inputs), outputs=(output.number,), blocks=())


def _instead(operation: Operation, equation: Any, inputs: Sequence[Input]) -> Operation:
    return dataclasses.replace(operation, name=equation.primitive.name, equation=equation, inputs=tuple(inputs))


def _equation(function: Callable, *given: Any) -> Any:
    (equation,) = opened(jax.make_jaxpr(function)(*given)).equations
    return equation
