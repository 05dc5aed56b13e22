"""A term writes a value's expression in one form, whichever of some spellings it has.

    jnp.square(x)    x * x    x ** 2       mul(x, x)
    x.T.T            x[:, None].squeeze()  x

Equal terms are one number (hash-consing), so that comparing is cheap. Nothing is rewritten here:
`common_subexpressions` takes values of one term for one value, and the operation that stood first runs.

Axes of size 1 are left out of a term's shape: `x[None]` is `x`. A constant has no shape at all: it is one number,
however often it is repeated. `identities` has the spellings that training steps mix, `data_movement` the operators that
move elements; XLA's AlgebraicSimplifier knows hundreds more, and `plan.check()` names what it merges by these.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

Shape = tuple[int, ...]
# A numbered term.
Number = int


class Term(NamedTuple):
    """Applies an operator to terms.

    Attributes:
        name: the operator: a primitive's name, or "const", "value", "broadcast".
        params: its parameters, hashable.
        inputs: the numbers of the terms that it is applied to.
        shape: the result's shape without axes of size 1; a constant has none.
        dtype: the result's dtype, as text.
    """

    name: str
    params: Any
    inputs: tuple[Number, ...]
    shape: Shape
    dtype: str


@functools.cache
def text(dtype: Any) -> str:
    """Returns the name of a dtype, cached: NumPy is slow to make one."""
    return str(dtype)


@functools.cache
def is_float(dtype: Any) -> bool:
    """Says whether numbers of a dtype are rounded: floats and complex numbers."""
    return jnp.issubdtype(dtype, jnp.inexact)


class Terms:
    """Numbers terms, equal ones alike."""

    def __init__(self):
        self.terms: list[Term] = []
        self.numbers: dict[Term, Number] = {}

    def __getitem__(self, number: Number) -> Term:
        return self.terms[number]

    def make(self, name: str, params: Hashable, inputs: Sequence[Number], shape: Shape, dtype: Any) -> Number:
        """Returns the number of a term as written."""
        term = Term(name, params, tuple(inputs), shape, text(dtype))
        number = self.numbers.get(term)
        if number is None:
            number = self.numbers[term] = len(self.terms)
            self.terms.append(term)
        return number

    def value(self, value: int, shape: Shape, dtype: Any) -> Number:
        """Returns the term of a value of which nothing else is known."""
        return self.make("value", value, (), squeezed(shape), dtype)

    def constant(self, number: Any, dtype: Any) -> Number:
        """Returns the term of one number, or of an array that holds it everywhere."""
        kind = np.dtype(dtype)
        return self.make("const", np.asarray(number).astype(kind).tobytes(), (), (), kind)

    def number_of(self, number: Number) -> np.ndarray | None:
        """Returns a constant's number as an array without axes; None for any other term."""
        term = self.terms[number]
        return np.frombuffer(term.params, np.dtype(term.dtype)).reshape(()) if term.name == "const" else None  # pyright: ignore[reportArgumentType,reportCallIssue]


def squeezed(shape: Sequence[int]) -> Shape:
    return tuple([size for size in shape if size != 1]) if 1 in shape else tuple(shape)


def positions(shape: Sequence[int]) -> list[int]:
    """Returns for each axis of a shape its position among those that are not of size 1; -1 for one that is."""
    if 1 not in shape:
        return list(range(len(shape)))
    positions, count = [], 0
    for size in shape:
        positions.append(-1 if size == 1 else count)
        count += size != 1
    return positions
