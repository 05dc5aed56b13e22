"""Builds operations that replace others: a constant, a reshape of a value that exists already, or no elements.

x.mean(0) * 0 → zeros        x.var's own mean [1, b] → the mean [b], reshaped

A `Replacing` collects them, where several take the place of others and make values of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from ..code.operations import Block, Code, Input, Literal, Operation
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


class Replacing:
    """Collects the operations that replace others, and the values that they make, numbered behind all others.

    Attributes:
        before: the operations that come in front of one.
        instead: those in its place.
        shapes, dtypes: of the new values.
    """

    def __init__(self, code: Code):
        self.code = code
        self.before: dict[Operation, list[Operation]] = {}
        self.instead: dict[Operation, list[Operation]] = {}
        self.shapes: list[Shape] = []
        self.dtypes: list[Any] = []

    def shape(self, value: int) -> Shape:
        known = self.code.shapes
        return known[value] if value < len(known) else self.shapes[value - len(known)]

    def dtype(self, value: int) -> Any:
        known = self.code.dtypes
        return known[value] if value < len(known) else self.dtypes[value - len(known)]

    def new(self, shape: Shape, dtype: Any) -> int:
        """Adds a value, and returns its number."""
        self.shapes.append(tuple(shape))
        self.dtypes.append(dtype)
        return len(self.code.shapes) + len(self.shapes) - 1

    def jaxpr(self, function: Callable[..., Any], reads: Sequence[int]) -> Any:
        """Returns the jaxpr of a function of some values; with 64 bits, which the program may have been traced with."""
        given = [jax.ShapeDtypeStruct(self.shape(value), self.dtype(value)) for value in reads]
        with jax.enable_x64(True):
            return opened(jax.make_jaxpr(function)(*given))

    def replaced(self) -> Code:
        """Returns the code with the operations in their places, and the values that they make."""
        shapes, dtypes = (*self.code.shapes, *self.shapes), (*self.code.dtypes, *self.dtypes)
        return dataclasses.replace(self.code, block=self._block(self.code.block), shapes=shapes, dtypes=dtypes)

    def _block(self, block: Block) -> Block:
        operations: list[Operation] = []
        for operation in block.operations:
            operations += self.before.get(operation, ())
            if operation in self.instead:
                operations += self.instead[operation]
            elif operation.blocks:
                inside = tuple(map(self._block, operation.blocks))
                operations.append(dataclasses.replace(operation, blocks=inside))
            else:
                operations.append(operation)
        return Block(block.inputs, tuple(operations), block.outputs)
