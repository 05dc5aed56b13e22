"""The terms of a program's values, operation by operation (see `terms`)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from ..code.operations import Code, Input, Literal, Operation
from ..jax_compat import has_effects, own_params
from ..rules import ELEMENTWISE
from .algebra import Algebra
from .data_movement import REARRANGING, ranges_of, repeated
from .identities import IDENTITIES
from .terms import Number, Terms, places, squeezed, text

# Parameters that say what the result's type says as well; and what the names of scatters say, but for `scatter` itself,
# which applies a function of the user's.
_TOLD_ELSEWHERE = frozenset("weak_type sharding out_sharding".split())
_TOLD_BY_NAME = frozenset("update_jaxpr update_consts".split())


class ValueTerms:
    """The term of every value that was met so far, by number.

    Args:
        code: whose values they are.
    """

    def __init__(self, code: Code):
        self.shapes, self.dtypes = code.shapes, code.dtypes
        self.terms = Terms()
        self.algebra = Algebra(self.terms, IDENTITIES)
        self.of: dict[int, Number] = {}

    def read(self, value: int) -> Number:
        """The term of a value; of one that was not met before nothing else is known."""
        if value not in self.of:
            self.of[value] = self.terms.value(value, self.shapes[value], self.dtypes[value])
        return self.of[value]

    def read_as(self, value: Input, dtype: Any) -> Number:
        """The term of an input of a dtype, which a literal has as it is read."""
        return self.terms.constant(value.value, dtype) if isinstance(value, Literal) else self.read(value)

    def write(self, operation: Operation) -> tuple[Number, ...]:
        """The terms of what an operation makes, which are kept."""
        made = self._made(operation) or tuple(
            self.terms.value(o, self.shapes[o], self.dtypes[o]) for o in operation.outputs
        )
        self.of.update(zip(operation.outputs, made, strict=True))
        return made

    def number_of(self, number: Number) -> np.ndarray | None:
        """The number that a term is everywhere, if it is a constant."""
        return self.terms.number_of(number)

    def is_empty(self, number: Number) -> bool:
        """Whether a term has no elements."""
        return self.terms[number].name == "empty"

    def is_varying(self, number: Number) -> bool:
        """Whether a term is more than numbers repeated."""
        return self.terms[number].name not in ("const", "broadcast", "iota", "empty")

    def part(self, number: Number) -> tuple[Number, list[range]] | None:
        """For a part of another term, that term and the range of each axis."""
        term = self.terms[number]
        return (term.inputs[0], ranges_of(term)) if term.name == "slice" else None

    def repeating(self, number: Number) -> tuple[Number, tuple[int, ...]] | None:
        """For a term that repeats another one, that one and the axes that it has in the result."""
        term = self.terms[number]
        return (term.inputs[0], tuple(term.params)) if term.name == "broadcast" else None  # pyright: ignore[reportArgumentType]

    def _made(self, operation: Operation) -> tuple[Number, ...] | None:
        """The terms of an operation's results; None where nothing is known of them."""
        equation = operation.equation
        told = told_params(equation)
        if operation.blocks or has_effects(equation) or told is None or not operation.outputs:
            return None
        given = [self.read_as(i, v.aval.dtype) for i, v in zip(operation.inputs, equation.invars, strict=True)]
        special = self._special(operation, given, told)
        if special is not None:
            return tuple([self._spread(n, o) for n, o in zip(special, operation.outputs, strict=True)])
        shapes = tuple([tuple(v.aval.shape) for v in equation.invars])
        # Not to be taken for the terms that `rearranging` makes, whose parameters are others.
        name = f"as written: {operation.name}"
        return tuple(
            self.terms.make(name, (told, shapes, i), given, squeezed(self.shapes[o]), self.dtypes[o])
            for i, o in enumerate(operation.outputs)
        )

    def _special(self, operation: Operation, given: list[Number], told: Hashable) -> list[Number] | None:
        """The terms of the results, if there is more to say of them than how they were made."""
        outputs = operation.outputs
        if all(0 in self.shapes[o] for o in outputs):
            return [self.terms.make("empty", (), (), squeezed(self.shapes[o]), self.dtypes[o]) for o in outputs]
        maker, made = REARRANGING.get(operation.name), None
        if maker is not None:
            made = maker(self.algebra, operation, given)
        elif operation.name in ELEMENTWISE or operation.name in IDENTITIES:
            aligned = self._aligned(operation, given, self.shapes[outputs[0]])
            made = (
                self.algebra.apply(operation.name, operation.params, aligned, self.dtypes[outputs[0]], told)
                if aligned
                else None
            )
        found = [made] if isinstance(made, Number) else made
        if found is None or any(
            self.terms[n].dtype != text(self.dtypes[o]) for n, o in zip(found, outputs, strict=True)
        ):
            return None
        return found

    def _spread(self, number: Number, output: int) -> Number:
        """A term in the shape of a value: what is made of numbers alone is the same everywhere."""
        term, shape = self.terms[number], squeezed(self.shapes[output])
        if term.shape or not shape or term.name == "const":
            return number
        return self.terms.make("broadcast", (), (number,), shape, term.dtype)

    def _aligned(self, operation: Operation, given: list[Number], shape: tuple[int, ...]) -> list[Number]:
        """The operands in the shape of the result; none where they do not have its axes."""
        aligned = []
        for number, variable in zip(given, operation.equation.invars, strict=True):
            own = variable.aval.shape
            if own == shape or self.terms[number].name == "const":
                aligned.append(number)
                continue
            if own and len(own) != len(shape):
                return []
            where = places(shape)
            axes = tuple([where[axis] for axis, size in enumerate(own) if size != 1])
            aligned.append(repeated(self.terms, number, axes, squeezed(shape)))
        return aligned


def told_params(equation: Any) -> Hashable:
    """What tells an equation's parameters from others; None where they cannot be compared."""
    if not equation.params:
        return ()
    told = []
    elsewhere = _TOLD_ELSEWHERE if equation.primitive.name == "scatter" else _TOLD_ELSEWHERE | _TOLD_BY_NAME
    for name, value in sorted(own_params(equation).items()):
        if name in elsewhere or value is None:
            continue
        try:
            hash(value)
        except TypeError:
            return None
        if callable(value):
            return None
        told.append((name, type(value).__name__, value))
    return tuple(told)
