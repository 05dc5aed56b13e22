"""Completes the last iteration of a loop, which computes less than the others.

Of a backward pass nobody needs the gradient of what comes into the first layer; of a forward pass nobody needs what
the last layer would pass on, such as a key for dropout.

    layer 2    dw2, dx2 = back(w2, x2, dx3)
    layer 1    dw1, dx1 = back(w1, x1, dx2)
    layer 0    dw0      = back(w0, x0, dx1)        completed: dw0, dx0, which is not used

JAX leaves out what is not used, so the equations of this iteration are some of those of the others, in the same order.
Those that are missing are written after the others, of the values that come next in each family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jax.extend.core import Literal

from ..jax_compat import has_effects
from ..jax_programs import reading, variables_like, without_results
from .loops import Family, Result

# Layers whose direction is known beside two of them.
_LEAST = 2


class Completed(NamedTuple):
    """An iteration.

    Attributes:
        equations: all of them.
        there: how many of these the program has.
    """

    equations: tuple[Any, ...]
    there: int


def completed(
    full: Sequence[Sequence[Any]],
    rest: Sequence[Any],
    members: Mapping[Any, Sequence[tuple[Family, int]]],
    same: Mapping[Any, Any],
    numbers: tuple[Sequence[int], Sequence[int]],
) -> Completed | None:
    """Returns the last iteration in time; None where what follows is no part of one.

    Args:
        full: the other iterations, in order of time: at least two.
        rest: the equations that follow.
        members: by value, the families that it is in, and of which layer.
        same: the values that are others.
        numbers: of the last full iteration's equations, and of the rest, which are equal for the same work.
    """
    return _Completion(full, members, same).iteration(rest, *numbers)


class _Completion:
    def __init__(self, full: Sequence[Sequence[Any]], members: Any, same: Mapping[Any, Any]):
        self.full, self.members, self.same = full, members, same
        self.places: list[dict[Any, Result]] = [
            {v: (row, column) for row, each in enumerate(equations) for column, v in enumerate(each.outvars)}
            for equations in full[-2:]
        ]
        read = [v for each in full[-1] for v in each.invars if not isinstance(v, Literal)]
        self.carried = {self.places[0][v] for v in read if v in self.places[0]}
        self.made: list[Any] = []

    def iteration(self, rest: Sequence[Any], own: Sequence[int], others: Sequence[int]) -> Completed | None:
        there = 0
        for row, before in enumerate(self.full[-1]):
            equation, wanted = before, [self.next(row, column) for column in range(len(before.invars))]
            if any(value is None for value in wanted):
                return None
            after = rest[there] if there < len(rest) else None
            if after is not None and own[row] == others[there] and _reads(after, wanted, self.same):
                # It may read another number.
                pairs = zip(after.invars, wanted, strict=True)
                wanted = [own_one if isinstance(own_one, Literal) else value for own_one, value in pairs]
                equation, results, there = after, after.outvars, there + 1
            elif after is not None and (kept := self.reduced(row, after, wanted)) is not None:
                results, there = kept, there + 1
            elif has_effects(equation):  # what is not there is not printed either
                return None
            else:
                results = variables_like(equation.outvars)
            self.made.append(reading(equation, wanted, results))
        return Completed(tuple(self.made), there) if there else None

    def next(self, row: int, column: int) -> Any:
        """Returns what an operand is in the last iteration; None where that is unknown."""
        before, value = (equations[row].invars[column] for equations in self.full[-2:])
        if isinstance(value, Literal):
            return value
        if value in self.places[1]:
            at, result = self.places[1][value]
            return self.made[at].outvars[result]
        if value in self.places[0]:
            at, result = self.places[0][value]
            return self.full[-1][at].outvars[result]
        before, value = self.same.get(before, before), self.same.get(value, value)
        if before is value:
            return value
        # One layer further in each family of several: towards the first, or towards the last.
        for family, layer in self.members.get(value, ()):
            if len(family) > _LEAST and layer == 1 and family[2] is before:
                return family[0]
            if len(family) > _LEAST and layer == len(family) - 2 and family[layer - 1] is before:
                return family[-1]
        return None

    def reduced(self, row: int, after: Any, wanted: Sequence[Any]) -> list[Any] | None:
        """Returns the results of an equation that is there without what is carried on; None where it is another."""
        equation = self.full[-1][row]
        used = [(row, column) not in self.carried for column in range(len(equation.outvars))]
        smaller = without_results(equation, used)
        if smaller is None or sum(used) != len(after.outvars) or str(smaller.params) != str(after.params):
            return None
        reads = [v for v, kept in zip(wanted, smaller.reads, strict=True) if kept]
        if after.primitive is not equation.primitive or not _reads(after, reads, self.same):
            return None
        left, fresh = iter(after.outvars), variables_like(equation.outvars)
        return [next(left) if kept else new for kept, new in zip(used, fresh, strict=True)]


def _reads(equation: Any, wanted: Sequence[Any], same: Mapping[Any, Any]) -> bool:
    """Says whether an equation reads what is wanted."""

    def is_one(value: Any, other: Any) -> bool:
        if isinstance(value, Literal) or isinstance(other, Literal):
            return isinstance(value, Literal) and isinstance(other, Literal)
        return same.get(value, value) is same.get(other, other)

    return len(equation.invars) == len(wanted) and all(map(is_one, equation.invars, wanted))
