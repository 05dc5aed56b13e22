"""Finds sums of several terms, which a program adds up one after the other.

    a = f(x)    b = f(y)    s = a + b    c = f(z)    t = s + c        the terms a, b, c of t

What is so far the sum is read by the next addition alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from jax.extend.core import Literal

from .equation_kinds import adds

# Of a term that no equation makes.
NOWHERE = -1


class Term(NamedTuple):
    """What is added to a sum.

    Attributes:
        maker: the row of the equation that makes it.
        row: the row of the addition.
        column: which of the addition's operands it is.
    """

    maker: int
    row: int
    column: int


def sums_of(equations: Sequence[Any], outputs: Collection[Any]) -> Iterator[list[Term]]:
    """Yields the terms of each sum of several additions, in the order in which they are added."""
    makers = {v: row for row, each in enumerate(equations) for v in each.outvars}
    read = [v for each in equations for v in each.invars if not isinstance(v, Literal)]
    once = {v for v, count in Counter(read).items() if count == 1} - set(outputs)
    so_far: dict[Any, list[Term]] = {}
    for row, equation in enumerate(equations):
        if not adds(equation):
            continue
        values = [None if isinstance(v, Literal) else v for v in equation.invars]
        terms = [Term(makers.get(v, NOWHERE), row, column) for column, v in enumerate(values)]
        before = next((column for column, v in enumerate(values) if v in so_far), None)
        if before is None:
            total = sorted(terms)
        else:
            total = so_far.pop(values[before])
            total.append(terms[1 - before])
        (result,) = equation.outvars
        if result in once:
            so_far[result] = total
        else:
            yield total
    yield from so_far.values()
