"""Builds the terms of a program's values, operation by operation (see `terms`)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from ..code.operations import Code, Input, Literal, Operation
from ..jax_compat import has_effects, own_params
from ..rules import ELEMENTWISE
from .data_movement import MOVERS, repeated
from .identities import elementwise
from .terms import Number, Terms, positions, squeezed, text

# Parameters that the result's type implies; and those that a scatter's name implies, but for `scatter` itself, which
# applies a function of the user's.
_IN_TYPE = frozenset("weak_type sharding out_sharding".split())
_IN_NAME = frozenset("update_jaxpr update_consts".split())


class ValueTerms:
    """Maps every value met so far to its term."""

    def __init__(self, code: Code):
        self.shapes, self.dtypes = code.shapes, code.dtypes
        self.terms = Terms()
        self.of: dict[int, Number] = {}

    def read(self, value: int) -> Number:
        """Returns the term of a value; a value not met before is a term of its own."""
        if value not in self.of:
            self.of[value] = self.terms.value(value, self.shapes[value], self.dtypes[value])
        return self.of[value]

    def read_as(self, value: Input, dtype: Any) -> Number:
        """Returns the term of an input; a literal takes the dtype that it is read as."""
        return self.terms.constant(value.value, dtype) if isinstance(value, Literal) else self.read(value)

    def write(self, operation: Operation) -> tuple[Number, ...]:
        """Stores and returns the terms of an operation's results."""
        results = self._results(operation) or tuple(
            self.terms.value(o, self.shapes[o], self.dtypes[o]) for o in operation.outputs
        )
        self.of.update(zip(operation.outputs, results, strict=True))
        return results

    def number_of(self, number: Number) -> np.ndarray | None:
        """Returns a constant's number; None for any other term."""
        return self.terms.number_of(number)

    def is_repeated(self, number: Number) -> bool:
        return self.terms[number].name in ("const", "broadcast")

    def _results(self, operation: Operation) -> tuple[Number, ...] | None:
        """Returns the terms of an operation's results; None where nothing is known of them."""
        equation = operation.equation
        key = params_key(equation)
        if operation.blocks or has_effects(equation) or key is None or not operation.outputs:
            return None
        if all(0 in self.shapes[o] and isinstance(self.dtypes[o], np.dtype) for o in operation.outputs):
            # Without elements it is whatever number it is said to be.
            return tuple(self.terms.constant(0, self.dtypes[o]) for o in operation.outputs)
        inputs = [self.read_as(i, v.aval.dtype) for i, v in zip(operation.inputs, equation.invars, strict=True)]
        simplified = self._simplified(operation, inputs, key)
        if simplified is not None:
            return (simplified,)
        shapes = tuple([tuple(v.aval.shape) for v in equation.invars])
        name = f"as written: {operation.name}"  # those of `data_movement` have other parameters
        return tuple(
            self.terms.make(name, (key, shapes, i), inputs, squeezed(self.shapes[o]), self.dtypes[o])
            for i, o in enumerate(operation.outputs)
        )

    def _simplified(self, operation: Operation, inputs: list[Number], key: Hashable) -> Number | None:
        """Returns the simplified term of the one result; None where there is no rule for the primitive."""
        name, output, number = operation.name, operation.outputs[0], None
        if name in MOVERS:
            number = MOVERS[name](self.terms, operation, inputs)
        elif name in ELEMENTWISE:
            aligned = self._aligned(operation, inputs, self.shapes[output])
            if aligned:
                number = elementwise(self.terms, name, aligned, self.dtypes[output], key)
        if number is None or self.terms[number].dtype != text(self.dtypes[output]):
            return None
        return self._broadcast(number, output)

    def _broadcast(self, number: Number, output: int) -> Number:
        """Broadcasts a term of constants alone to the shape of a value."""
        term, shape = self.terms[number], squeezed(self.shapes[output])
        if term.shape or not shape or term.name == "const":
            return number
        return self.terms.make("broadcast", (), (number,), shape, term.dtype)

    def _aligned(self, operation: Operation, inputs: list[Number], shape: tuple[int, ...]) -> list[Number]:
        """Returns the operands in the shape of the result; none where they do not have its axes."""
        aligned = []
        for number, variable in zip(inputs, operation.equation.invars, strict=True):
            own = variable.aval.shape
            if own == shape or self.terms[number].name == "const":
                aligned.append(number)
                continue
            if own and len(own) != len(shape):
                return []
            where = positions(shape)
            axes = tuple([where[axis] for axis, size in enumerate(own) if size != 1])
            aligned.append(repeated(self.terms, number, axes, squeezed(shape)))
        return aligned


def params_key(equation: Any) -> Hashable:
    """Returns an equation's parameters in a form that compares and hashes; None where they cannot be compared."""
    if not equation.params:
        return ()
    key = []
    implied = _IN_TYPE if equation.primitive.name == "scatter" else _IN_TYPE | _IN_NAME
    for name, value in sorted(own_params(equation).items()):
        if name in implied or value is None:
            continue
        try:
            hash(value)
        except TypeError:
            return None
        if callable(value):
            return None
        key.append((name, type(value).__name__, value))
    return tuple(key)
