"""The choice among layouts as an integer program.

    x[d, a] ∈ {0, 1}       dim d is on mesh axis a                      at most one axis for a dim
    y[S, f] ≥ 0            the layout is f on the set of dims S         Σ over f of y[S, f] = 1
                           Σ over f that put d on a of y[S, f] = x[d, a]   for every S, d in S, a

A cost over S is Σ cost[f]·y[S, f]. The equalities are what makes the relaxation tight (auto_mtf has
implications in their place), and y is whole where x is, so that only the few x are branched on. Legality is in the
columns: there is no y for a part that is not legal, and dims that may not share an axis have x + x ≤ 1.

Goals are met one after the other, each stays met while the next is: no weights, no small constants. A solution counts
only if the solver has proved it, with a gap of zero. Costs are plain sums of numbered variables, which become PuLP's
when a goal is solved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ...engine.errors import MeshlabError
from ..request.stopping import Watch
from .choices import Dims, Space, Splits, restricted
from .pulp_compat import Bounds, Expression, Row, solve

# Binaries that one goal of the documented order decides: weights up to 2^12 leave the solver's tolerance far behind.
_ORDERED = 12
# The part of a goal that may be lost while later ones are met: the solver's own tolerance, not a preference.
_TOLERANCE = 1e-9
_LARGEST = 1e6


class Model:
    """The integer program of one choice.

    Args:
        space: the legal layouts.
        parts: for each set of dims that has a cost, its legal parts.
        watch: whether the search is to stop.
    """

    def __init__(self, space: Space, parts: Mapping[Dims, Iterable[Splits]], watch: Watch):
        self.space, self.watch = space, watch
        self.bounds: list[Bounds] = []
        self.rows: list[Row] = []
        options = [(d, a) for d, choices in space.choices.items() for a in choices if a is not None]
        self.x = {(d, a): self._variable(int(len(space.choices[d]) == 1), 1, whole=True) for d, a in options}
        self.parts = {dims: tuple(legal) for dims, legal in parts.items()}
        self.y = {dims: {part: self._variable() for part in legal} for dims, legal in self.parts.items()}
        # The meaning of a variable: that the layout is this part on these dims, or the greatest of some costs.
        self.meaning = {x: (frozenset((split[0],)), frozenset((split,))) for split, x in self.x.items()}
        self.meaning |= {y: (dims, part) for dims, columns in self.y.items() for part, y in columns.items()}
        self.maxima: dict[int, list[Expression]] = {}
        self._constrain()

    def _variable(self, least: float = 0, most: float = math.inf, whole: bool = False) -> int:
        self.bounds.append((least, most, whole))
        return len(self.bounds) - 1

    def _constrain(self):
        for d in self.space.choices:
            self._add({x: 1.0 for (e, _), x in self.x.items() if e == d}, most=1)
        for pair in self.space.apart:
            for a in self.space.axes:
                together = [self.x[d, a] for d in pair if (d, a) in self.x]
                if len(together) > 1:
                    self._add(dict.fromkeys(together, 1.0), most=1)
        for dims, columns in self.y.items():
            self._add(dict.fromkeys(columns.values(), 1.0), least=1, most=1)
            for split, x in self.x.items():
                if split[0] in dims:
                    self._add({y: 1.0 for part, y in columns.items() if split in part} | {x: -1.0}, least=0, most=0)

    def _add(self, terms: Expression, least: float = -math.inf, most: float = math.inf):
        if terms:
            self.rows.append((terms, least, most))

    def weighed(self, amounts: Iterable[float]) -> Expression:
        """The cost of the layout when every part of every set, in the order of `parts`, has its amount."""
        variables = (y for columns in self.y.values() for y in columns.values())
        return {y: float(c) for y, c in zip(variables, amounts, strict=True) if c}

    def greatest(self, costs: Sequence[Expression]) -> Expression:
        """A number that is at least each of some costs; minimised, it is the greatest of them."""
        z = self._variable()
        scale = min(map(_scale, costs), default=1.0)
        self.maxima[z] = [scaled(cost, scale) for cost in costs]
        for cost in self.maxima[z]:
            self._add({**cost, z: -1.0}, most=0)
        return {z: 1 / scale}

    def value(self, cost: Expression, splits: Splits) -> float:
        """A cost under a layout, exactly: the solver writes eight digits."""
        total = 0.0
        for variable, amount in cost.items():
            if variable in self.maxima:
                total += amount * max((self.value(c, splits) for c in self.maxima[variable]), default=0.0)
            else:
                dims, part = self.meaning[variable]
                total += amount * (restricted(splits, dims) == part)
        return total

    def limit(self, cost: Expression, most: float):
        """Keeps only layouts that cost no more than this."""
        scale = _scale(cost)
        self._add(scaled(cost, scale), most=most * scale)

    def splits(self) -> Expression:
        """The number of dims that are sharded."""
        return dict.fromkeys(self.x.values(), 1.0)

    def minimise(self, goal: Expression) -> tuple[Splits, float]:
        """Reaches a goal as far as it can be reached, and holds it from then on.

        Args:
            goal: a cost.

        Returns:
            A layout that is best, and what the solver has proved every layout to cost at least.
        """
        values = self._solved(scaled(goal, _scale(goal)))
        bound = sum(c * values[v] for v, c in goal.items())
        splits = frozenset(split for split, x in self.x.items() if values[x] > 1 / 2)
        value = self.value(goal, splits)
        self.limit(goal, value + _TOLERANCE * max(1.0, abs(value)))
        return splits, bound

    def in_order(self) -> Splits:
        """Returns the first in documented order of the layouts that are left: early dims sharded, on early axes."""
        splits: Splits = frozenset()
        variables = list(self.x.values())
        for start in range(0, max(1, len(variables)), _ORDERED):
            chunk = variables[start : start + _ORDERED]
            splits, _ = self.minimise({x: -float(2 ** (len(chunk) - i - 1)) for i, x in enumerate(chunk)})
        return splits

    def _solved(self, goal: Expression) -> list[float]:
        """The value of each variable where a goal is least."""
        answers: list[tuple[str, list[float]]] = []
        self.watch.through(lambda: answers.append(solve(goal, self.bounds, self.rows)))
        ((problem, values),) = answers
        if problem:
            raise MeshlabError(
                f"The solver was asked for the best of {self.space.count():,} layouts and has proved none "
                f"(it says {problem!r}). Fewer dims or axes to choose from make it easier: use `pin` and `forbid`."
            )
        return values


def scaled(expression: Expression, factor: float) -> Expression:
    return {variable: amount * factor for variable, amount in expression.items()}


def _scale(expression: Expression) -> float:
    """The factor that brings the coefficients down to what the solver adds up exactly."""
    largest = max((abs(c) for c in expression.values()), default=0.0)
    return _LARGEST / largest if largest > _LARGEST else 1.0
