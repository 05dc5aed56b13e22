"""Algebra: the terms of elementwise operators.

    x[:, None] * 2  → the term of x * 2        2 + 3 → the number 5        y + x → the term of x + y

What is done element by element commutes with repeating and reshaping, arithmetic on numbers is done when a program is
traced, and of what commutes the order is forgotten. `identities` has the laws of single operators.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from ..rules import names_where
from .terms import Number, Terms, is_float, text

# How else an elementwise primitive may be written: takes the algebra, the numbers of its operands' terms, the result's
# dtype and the primitive's parameters, and returns the number of the result's term, or None where it stands as written.
Rule = Callable[["Algebra", list[Number], Any, dict[str, Any]], Number | None]
COMMUTATIVE = names_where(lambda traits: traits.commutes)
# Operators that are applied to numbers when a program is traced.
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
    """Makes elementwise terms.

    Attributes:
        terms: where they are numbered.
        identities: how else they may be written, by the primitive's name.
    """

    terms: Terms
    identities: Mapping[str, Rule]

    def apply(self, name: str, params: dict[str, Any], inputs: list[Number], dtype: Any, told: Hashable) -> Number:
        """The term of an elementwise primitive.

        Args:
            name: the primitive's.
            params: its parameters.
            inputs: its operands' terms.
            dtype: of its result.
            told: its parameters as what tells it from another of the same name.
        """
        if name in ("mul", "max") and text(dtype) == "bool":
            name = "and" if name == "mul" else "or"
        folded = self._folded(name, inputs, dtype)
        if folded is not None:
            return folded
        wrapped = self._inside(name, params, inputs, dtype, told)
        if wrapped is not None:
            return wrapped
        rule = self.identities.get(name)
        found = rule(self, inputs, dtype, params) if rule else None
        return found if found is not None else self.make(name, inputs, dtype, told)

    def make(self, name: str, inputs: list[Number], dtype: Any, told: Hashable = ()) -> Number:
        """The term as it is written, but for the order of what commutes."""
        ordered = sorted(inputs) if name in COMMUTATIVE else inputs
        shape = max((self.terms[i].shape for i in inputs), key=len, default=())
        return self.terms.make(name, told, ordered, shape, dtype)

    def of(self, name: str, *inputs: Number, dtype: Any, told: Hashable = ()) -> Number:
        """The term of a primitive without parameters."""
        return self.apply(name, {}, list(inputs), dtype, told)

    def constant(self, number: Any, dtype: Any) -> Number:
        """The term of a number."""
        return self.terms.constant(number, dtype)

    def is_a(self, number: Number, name: str) -> bool:
        """Whether a term's operator is `name`."""
        return self.terms[number].name == name

    def operand(self, number: Number) -> Number:
        """The first operand of a term."""
        return self.terms[number].inputs[0]

    def number_of(self, number: Number) -> np.ndarray | None:
        """The number that a constant is."""
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

    def _inside(self, name: str, params: dict, inputs: list[Number], dtype: Any, told: Hashable) -> Number | None:
        """Repeating and reshaping come after what is done element by element, if all operands are so made."""
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
        taken = [i if self.is_a(i, "const") else self.operand(i) for i in inputs]
        made = self.apply(name, params, taken, dtype, told)
        if self.is_a(made, "const"):
            return made
        return self.terms.make(first.name, first.params, (made,), first.shape, dtype)

    def is_never_negative(self, number: Number) -> bool:
        """Whether no element of a term can be below zero."""
        term = self.terms[number]
        found = self.number_of(number)
        if found is not None:
            return not np.iscomplexobj(found) and bool(found >= 0)
        if term.name in ("broadcast", "reshape", "transpose", "slice"):
            return self.is_never_negative(term.inputs[0])
        squared = term.name == "mul" and term.inputs[0] == term.inputs[1] and "float" in term.dtype
        return squared or term.name in ("abs", "exp", "iota")
