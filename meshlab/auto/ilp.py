"""The choice among layouts as an integer program.

    x[d, a] ∈ {0, 1}       dim d lies on mesh axis a                    at most one axis for a dim
    y[S, f] ≥ 0            the layout is f on the set of dims S         Σ over f of y[S, f] = 1
                           Σ over f that put d on a of y[S, f] = x[d, a]   for every S, d in S, a

A cost that is a table over S is Σ table[f]·y[S, f]. The equalities are what makes the relaxation tight (auto_mtf has
implications in their place), and y is whole where x is, so that only the few x are branched on. Legality is in the
columns: there is no y for a part that is not legal, and dims that may not share an axis have x + x ≤ 1.

Goals are met one after the other, each kept while the next is met: no weights, no small constants. A solution counts
only if the solver has proved it (`sol_status`, and a gap of zero); `status` alone also says "optimal" at a time limit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence

import pulp

from ..engine.errors import MeshlabError
from .space import Space, Splits, restricted
from .stopping import Watch
from .tables import Dims, Table

METHOD = f"integer programming (CBC through PuLP {pulp.__version__})"

Expression = pulp.LpAffineExpression

# Binaries that one goal of the documented order decides: weights up to 2^12 leave the solver's tolerance far behind.
_ORDERED = 12
# What a goal that was met may lose while later ones are met: the solver's own tolerance, not a preference.
_TOLERANCE = 1e-9
_LARGEST = 1e6


class Model:
    """The integer program of one choice.

    Args:
        space: the legal layouts.
        parts: for each set of dims that has a table, its legal parts that are still in question.
        watch: whether the search is to stop.
    """

    def __init__(self, space: Space, parts: Mapping[Dims, Iterable[Splits]], watch: Watch):
        self.space, self.watch = space, watch
        self.problem = pulp.LpProblem("layout", pulp.LpMinimize)
        options = [(d, a) for d, choices in space.choices.items() for a in choices if a is not None]
        self.x = {
            (d, a): self._variable(f"x{i}", least=int(len(space.choices[d]) == 1), most=1, whole=True)
            for i, (d, a) in enumerate(options)
        }
        self.parts = {dims: tuple(given) for dims, given in parts.items()}
        self.y = {
            dims: {part: self._variable(f"y{i}_{j}") for j, part in enumerate(given)}
            for i, (dims, given) in enumerate(self.parts.items())
        }
        # What a variable stands for: that the layout is this part on these dims, or the greatest of some costs.
        self.meaning = {x: (frozenset((split[0],)), frozenset((split,))) for split, x in self.x.items()}
        self.meaning |= {y: (dims, part) for dims, columns in self.y.items() for part, y in columns.items()}
        self.maxima: dict[pulp.LpVariable, list[Expression]] = {}
        self._constrain()

    def _variable(self, name: str, least: int = 0, most: int | None = None, whole: bool = False) -> pulp.LpVariable:
        return self.problem.add_variable(name, least, most, pulp.LpInteger if whole else pulp.LpContinuous)

    def _constrain(self):
        for d in self.space.choices:
            self._add(((x, 1) for (e, _), x in self.x.items() if e == d), "<=", 1)
        for pair in self.space.apart:
            for a in self.space.axes:
                together = [self.x[d, a] for d in pair if (d, a) in self.x]
                if len(together) > 1:
                    self._add(((x, 1) for x in together), "<=", 1)
        for dims, columns in self.y.items():
            self._add(((y, 1) for y in columns.values()), "==", 1)
            for split, x in self.x.items():
                if split[0] in dims:
                    self._add([*((y, 1) for part, y in columns.items() if split in part), (x, -1)], "==", 0)

    def _add(self, terms: Iterable[tuple[pulp.LpVariable, float]], sense: str, right: float):
        left = pulp.LpAffineExpression(terms)
        if left:
            self.problem += left <= right if sense == "<=" else left == right

    def cost(self, tables: Iterable[Table]) -> Expression:
        """The cost of the layout under tables whose dims lie within the model's sets."""
        terms: dict[pulp.LpVariable, float] = {}
        for table in tables:
            home = next(s for s in self.parts if table.dims <= s)
            for part, y in self.y[home].items():
                terms[y] = terms.get(y, 0.0) + table.costs[restricted(part, table.dims)]
        return pulp.LpAffineExpression(terms)

    def weighed(self, amounts: Iterable[float]) -> Expression:
        """The cost of the layout when every part of every set, in the order of `parts`, has its amount."""
        variables = (y for columns in self.y.values() for y in columns.values())
        return pulp.LpAffineExpression((y, float(c)) for y, c in zip(variables, amounts, strict=True) if c)

    def greatest(self, costs: Sequence[Expression]) -> Expression:
        """A number that is at least each of some costs; minimised, it is the greatest of them."""
        z = self._variable("z")
        scale = min(map(_scale, costs), default=1.0)
        for cost in costs:
            self._add([*((y, c * scale) for y, c in cost.items()), (z, -1)], "<=", 0)
        self.maxima[z] = [cost * scale for cost in costs]
        return z * (1 / scale)

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
        self._add(((v, c * scale) for v, c in cost.items()), "<=", most * scale)

    def splits(self) -> Expression:
        """The number of dims that are split."""
        return pulp.LpAffineExpression((x, 1) for x in self.x.values())

    def minimise(self, goal: Expression) -> tuple[Splits, float]:
        """Meets a goal as far as it can be met, and keeps it met from then on.

        Args:
            goal: a cost.

        Returns:
            A layout that is best, and what the solver has proved every layout to cost at least.

        Raises:
            MeshlabError: there is no layout at all, or the solver has not proved its answer.
        """
        scale = _scale(goal)
        self.problem.setObjective(goal * scale)
        self._solve()
        bound = sum(c * (v.value() or 0.0) for v, c in goal.items())
        found = frozenset(split for split, x in self.x.items() if (x.value() or 0) > 1 / 2)
        value = self.value(goal, found)
        self.limit(goal, value + _TOLERANCE * max(1.0, abs(value)))
        return found, bound

    def settle(self) -> Splits:
        """Of the layouts that are left, the first in documented order: early dims split, on early axes."""
        found: Splits = frozenset()
        variables = list(self.x.values())
        for start in range(0, max(1, len(variables)), _ORDERED):
            chunk = variables[start : start + _ORDERED]
            weights = ((x, -float(2 ** (len(chunk) - i - 1))) for i, x in enumerate(chunk))
            found, _ = self.minimise(pulp.LpAffineExpression(weights))
        return found

    def _solve(self):
        bundled = getattr(getattr(pulp, "PULP_CBC_CMD", None), "pulp_cbc_path", None)
        # One process, no `threads`: with a worker thread CBC now and then waits ten seconds for itself.
        solver = pulp.COIN_CMD(path=bundled, msg=False, gapRel=0, gapAbs=0)

        def solve():
            with tempfile.TemporaryDirectory() as scratch:
                solver.tmpDir = scratch
                self.problem.solve(solver)

        self.watch.through(solve)
        if self.problem.sol_status != pulp.LpSolutionOptimal:
            found = pulp.LpStatus[self.problem.status]
            raise MeshlabError(
                f"The solver was asked for the best of {self.space.count():,} layouts and has proved none "
                f"(it says {found!r}). Fewer dims or axes to choose from make it easier: use `pin` and `forbid`."
            )


def _scale(expression: Expression) -> float:
    """What brings the coefficients down to what the solver adds up exactly."""
    largest = max((abs(c) for c in expression.values()), default=0.0)
    return _LARGEST / largest if largest > _LARGEST else 1.0
