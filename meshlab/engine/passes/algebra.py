"""Builds the terms of elementwise operators, so that equivalent spellings get one term (see `terms`).

    x[:, None] * 2  → the term of x * 2        2 + 3 → the number 5        y + x → the term of x + y

Elementwise operators commute with broadcasts and reshapes, arithmetic on constants is folded when a program is traced,
and operands that commute are sorted. `identities` has the laws of single operators.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from ..rules import names_where
from .terms import Number, Terms, is_float, text

# An identity of an elementwise primitive: takes the algebra, the numbers of its operands' terms, the result's dtype and
# the primitive's parameters; returns the number of the equivalent term, or None where no identity applies.
Rule = Callable[["Algebra", list[Number], Any, dict[str, Any]], Number | None]
COMMUTATIVE = names_where(lambda traits: traits.commutes)
# Operators that are folded when all operands are constants.
_FOLDED: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "log": np.log,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "convert_element_type": np.asarray,
}


@dataclasses.dataclass(frozen=True)
class Algebra:
    """Builds elementwise terms.

    Attributes:
        terms: numbers them.
        identities: the identities of each primitive, by its name.
    """

    terms: Terms
    identities: Mapping[str, Rule]

    def apply(self, name: str, params: dict[str, Any], inputs: list[Number], dtype: Any, key: Hashable) -> Number:
        """Returns the term of an elementwise primitive.

        Args:
            name: the primitive's name.
            params: its parameters.
            inputs: its operands' terms.
            dtype: its result's dtype.
            key: its parameters in a form that compares and hashes (`params_key`).
        """
        if name in ("mul", "max") and text(dtype) == "bool":
            name = "and" if name == "mul" else "or"
        folded = self._folded(name, inputs, dtype)
        if folded is not None:
            return folded
        reshaped = self._before_shape(name, params, inputs, dtype, key)
        if reshaped is not None:
            return reshaped
        rule = self.identities.get(name)
        equivalent = rule(self, inputs, dtype, params) if rule else None
        return equivalent if equivalent is not None else self.make(name, inputs, dtype, key)

    def make(self, name: str, inputs: list[Number], dtype: Any, key: Hashable = ()) -> Number:
        """Returns the term as written, but for the order of operands that commute."""
        ordered = sorted(inputs) if name in COMMUTATIVE else inputs
        shape = max((self.terms[i].shape for i in inputs), key=len, default=())
        return self.terms.make(name, key, ordered, shape, dtype)

    def of(self, name: str, *inputs: Number, dtype: Any) -> Number:
        """Returns the term of a primitive without parameters."""
        return self.apply(name, {}, list(inputs), dtype, ())

    def constant(self, number: Any, dtype: Any) -> Number:
        """Returns the term of a number."""
        return self.terms.constant(number, dtype)

    def is_a(self, number: Number, name: str) -> bool:
        """Says whether a term's operator is `name`."""
        return self.terms[number].name == name

    def operand(self, number: Number) -> Number:
        """Returns the first operand of a term."""
        return self.terms[number].inputs[0]

    def number_of(self, number: Number) -> np.ndarray | None:
        """Returns a constant's number; None for any other term."""
        return self.terms.number_of(number)

    def _folded(self, name: str, inputs: list[Number], dtype: Any) -> Number | None:
        numbers = [self.number_of(i) for i in inputs]
        function = _FOLDED.get(name)
        if function is None or any(n is None for n in numbers):
            return None
        if name == "div" and not is_float(dtype):
            return None
        with np.errstate(all="ignore"):
            return self.constant(function(*numbers), dtype)

    def _before_shape(self, name: str, params: dict, inputs: list[Number], dtype: Any, key: Hashable) -> Number | None:
        """Applies the operator before a broadcast or reshape that all operands have in common."""
        varying = [self.terms[i] for i in inputs if not self.is_a(i, "const")]
        first = varying[0] if varying else None
        if first is None or first.name not in ("broadcast", "reshape"):
            return None
        inner = self.terms[first.inputs[0]].shape
        for term in varying:
            if (term.name, term.params, term.shape) != (first.name, first.params, first.shape):
                return None
            if self.terms[term.inputs[0]].shape != inner:
                return None
        operands = [i if self.is_a(i, "const") else self.operand(i) for i in inputs]
        result = self.apply(name, params, operands, dtype, key)
        if self.is_a(result, "const"):
            return result
        return self.terms.make(first.name, first.params, (result,), first.shape, dtype)

    def is_never_negative(self, number: Number) -> bool:
        """Says whether no element of a term can be below zero."""
        term = self.terms[number]
        value = self.number_of(number)
        if value is not None:
            return not np.iscomplexobj(value) and bool(value >= 0)
        if term.name in ("broadcast", "reshape", "transpose", "slice"):
            return self.is_never_negative(term.inputs[0])
        squared = term.name == "mul" and term.inputs[0] == term.inputs[1] and "float" in term.dtype
        return squared or term.name in ("abs", "exp", "iota")
