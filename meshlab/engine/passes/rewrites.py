"""Builds operations that replace others: a constant, a reshape of a value that exists already, or no elements.

x.mean(0) * 0 → zeros        x.var's own mean [1, b] → the mean [b], reshaped
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from ..code.operations import Input, Literal, Operation
from ..jax_compat import opened

Shape = tuple[int, ...]


def constant(operation: Operation, number: np.ndarray) -> Operation:
    result = operation.equation.outvars[0].aval
    equation = _equation(lambda: lax.full(result.shape, number, result.dtype))
    return _instead(operation, equation, [Literal(atom.val) for atom in equation.invars])


def reshape(operation: Operation, value: int, shape: Shape) -> Operation:
    result = operation.equation.outvars[0].aval
    given = jax.ShapeDtypeStruct(shape, result.dtype)
    return _instead(operation, _equation(lambda x: lax.reshape(x, result.shape), given), [value])


def concatenation(operation: Operation, operands: Sequence[int], value: int) -> Operation:
    """Joins some of the operands of a concatenation, by their numbers, to a value of its own."""
    given = [jax.ShapeDtypeStruct((a := operation.equation.invars[i].aval).shape, a.dtype) for i in operands]
    equation = _equation(lambda *pieces: lax.concatenate(pieces, operation.params["dimension"]), *given)
    joined = _instead(operation, equation, [operation.inputs[i] for i in operands])
    return dataclasses.replace(joined, outputs=(value,))


def empty(line: Operation, value: int, shape: Shape, dtype: Any) -> Operation:
    """Makes a value without elements, at the source line of an operation."""
    equation = _equation(lambda: lax.full(shape, 0, dtype))
    operation = _instead(line, equation, [Literal(atom.val) for atom in equation.invars])
    return dataclasses.replace(operation, outputs=(value,), blocks=())


def applied(line: Operation, function: Callable, given: tuple[int, Shape, Any], made: int) -> Operation:
    """Applies a function of one equation to a value, given with its shape and dtype, at the line of an operation."""
    value, shape, dtype = given
    operation = _instead(line, _equation(function, jax.ShapeDtypeStruct(shape, dtype)), [value])
    return dataclasses.replace(operation, outputs=(made,), blocks=())


def _instead(operation: Operation, equation: Any, inputs: Sequence[Input]) -> Operation:
    return dataclasses.replace(operation, name=equation.primitive.name, equation=equation, inputs=tuple(inputs))


def _equation(function: Callable, *given: Any) -> Any:
    (equation,) = opened(jax.make_jaxpr(function)(*given)).equations
    return equation
