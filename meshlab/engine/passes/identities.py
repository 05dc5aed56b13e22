"""Gives the spellings of elementwise operators that training steps mix one term each (see `terms`).

    jnp.square(x)    x ** 2    → x * x        1 / jnp.sqrt(x) → rsqrt(x)        x / 8 → x * 0.125        x * 1 → x

A step often has one value in two of these: the squares of a norm and of an optimizer, the mean and the one that a
variance takes. Without them the plan would count whole arrays twice. XLA has hundreds of identities more; where these
make one collective of two, `plan.check()` names it (`verifying.merged_collectives`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from ..rules import TRAITS, names_where
from .terms import Number, Terms, is_float, text

# An identity of an elementwise primitive: takes the terms, the numbers of its operands' terms, the result's dtype and
# the key of its parameters; returns the number of the equivalent term, or None where no identity applies.
Identity = Callable[[Terms, list[Number], Any, Any], Number | None]
COMMUTATIVE = names_where(lambda traits: traits.commutes)
# Operators that are folded when all operands are constants: masks of ones are counted, and taken from one.
_FOLDED: dict[str, Callable[..., Any]] = dict(
    zip(
        "add sub mul div neg max min and or xor not eq ne lt le gt ge exp log clamp".split(),
        (np.add, np.subtract, np.multiply, np.divide, np.negative, np.maximum, np.minimum, np.bitwise_and,
         np.bitwise_or, np.bitwise_xor, np.invert, np.equal, np.not_equal, np.less, np.less_equal, np.greater,
         np.greater_equal, np.exp, np.log, lambda low, x, high: np.clip(x, low, high)),
        strict=True,
    )
)  # fmt: skip
# What an operator makes of a value and itself, where neither may be NaN.
_OF_ITSELF = {"sub": 0, "xor": 0, "eq": 1, "ge": 1, "le": 1, "ne": 0, "gt": 0, "lt": 0}
_NEUTRAL = {name: traits.neutral for name, traits in TRAITS.items() if traits.neutral is not None}


def elementwise(terms: Terms, name: str, inputs: list[Number], dtype: Any, key: Hashable = ()) -> Number:
    """Returns the term of an elementwise primitive of its operands' terms; `key` has its parameters (`params_key`)."""
    name = "add" if name == "add_any" else name  # by which differentiation adds up cotangents
    constant = _constant(terms, name, inputs, dtype)
    if constant is not None:
        return constant
    operand = _unchanged(terms, name, inputs) if name in _NEUTRAL else None
    if operand is not None:
        return operand
    identity = IDENTITIES.get(name)
    equivalent = identity(terms, inputs, dtype, key) if identity else None
    if equivalent is not None:
        return equivalent
    ordered = sorted(inputs) if name in COMMUTATIVE else inputs
    shape = max((terms[i].shape for i in inputs), key=len, default=())
    return terms.make(name, key, ordered, shape, dtype)


def _constant(terms: Terms, name: str, inputs: list[Number], dtype: Any) -> Number | None:
    """Returns the constant that an operator makes: of constants, of zero, or of an integer and itself."""
    if name not in _FOLDED:
        return None
    if len(inputs) == 2 and not is_float(terms[inputs[0]].dtype):
        zero = terms.constant(0, terms[inputs[0]].dtype)
        if name in ("mul", "and") and zero in inputs:
            return zero
        if name in _OF_ITSELF and inputs[0] == inputs[1]:
            return terms.constant(_OF_ITSELF[name], dtype)
    numbers = [terms.number_of(i) for i in inputs]
    if any(number is None for number in numbers) or (name == "div" and not is_float(dtype)):
        return None
    with np.errstate(all="ignore"):
        return terms.constant(_FOLDED[name](*numbers), dtype)


def _unchanged(terms: Terms, name: str, inputs: list[Number]) -> Number | None:
    """Returns the operand that an operator leaves as it is, because the other one is neutral: x + 0, x * 1, x / 1."""
    for operand, other in (inputs, inputs[::-1]) if name in COMMUTATIVE else (inputs,):
        number = terms.number_of(other)
        if number is not None and number == _NEUTRAL[name]:
            return operand
    return None


def _pow(terms: Terms, inputs: list[Number], dtype: Any, _key: Any) -> Number | None:
    exponent = terms.number_of(inputs[1])
    return _power(terms, inputs[0], int(np.real(exponent)), dtype) if exponent in (-1, 1, 2, 3) else None


def _power(terms: Terms, x: Number, exponent: int, dtype: Any) -> Number:
    """Multiplies out an integer power by squaring, as JAX lowers it."""
    left, power, result = abs(exponent), x, None
    while left:
        if left & 1:
            result = power if result is None else elementwise(terms, "mul", [result, power], dtype)
        left >>= 1
        power = elementwise(terms, "mul", [power, power], dtype) if left else power
    one = terms.constant(1, dtype)
    result = one if result is None else result
    return elementwise(terms, "div", [one, result], dtype) if exponent < 0 else result


def _div(terms: Terms, inputs: list[Number], dtype: Any, _key: Any) -> Number | None:
    """Multiplies by the inverse of a number, or of a square root."""
    x, y = inputs
    number = terms.number_of(y)
    if number is not None and number != 0 and is_float(dtype):
        inverse = terms.constant(np.divide(np.ones((), number.dtype), number), dtype)
    elif terms[y].name == "sqrt":
        inverse = terms.make("rsqrt", terms[y].params, terms[y].inputs, terms[y].shape, dtype)
    else:
        return None
    return elementwise(terms, "mul", [x, inverse], dtype)


def _convert(terms: Terms, inputs: list[Number], dtype: Any, _key: Any) -> Number | None:
    number = terms.number_of(inputs[0])
    if number is not None:
        return terms.constant(number, dtype)
    return inputs[0] if terms[inputs[0]].dtype == text(dtype) else None


def _select(terms: Terms, inputs: list[Number], _dtype: Any, _key: Any) -> Number | None:
    """Returns the case that a constant predicate takes: a compiler drops what the others compute."""
    number = terms.number_of(inputs[0])
    return None if number is None else inputs[1 + int(number)]


IDENTITIES: dict[str, Identity] = {
    "square": lambda terms, inputs, dtype, _key: _power(terms, inputs[0], 2, dtype),
    "integer_pow": lambda terms, inputs, dtype, key: _power(terms, inputs[0], key[0][-1], dtype),
    "pow": _pow,
    "div": _div,
    "convert_element_type": _convert,
    "select_n": _select,
}
