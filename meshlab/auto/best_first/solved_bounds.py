"""The bounds that add up, by an integer program: an independent proof that no way to compute costs less.

    x[a, s] ∈ {0, 1}       mesh axis a splits the set of dims s                       Σ over s of x[a, s] = 1
    y[S, A] ≥ 0            of the dims S, some are split over each of the axes A      Σ over A of y[S, A] = 1
                           Σ over A that have a of y[S, A] = Σ over s that meet S of x[a, s]

An amount that the dims S may divide costs Σ amount / Π sizes of A · y[S, A]. The search adds the same amounts up in
arrays, over all points at once; a solver knows nothing of these arrays, and must find the same least sum.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from ...cost.machines.units import bytes_text, seconds_text
from ...engine.errors import MeshlabError
from ..additive.pulp_compat import Bounds, Row, method, solve, solvers
from .bounds import Amounts, by_dims, compute_bounds, kernel_seconds, memory_bounds, peak_bytes
from .points import SearchSpace
from .pricer import LayoutPrice

# Solvers add up numbers of about this size exactly; the sums of a program are brought to it.
_SCALE = 1e6
# The share by which a solver's answer, of eight digits, may differ.
_AGREE = 1e-6


@dataclasses.dataclass(frozen=True)
class SolvedBound:
    """A bound that adds up, found twice.

    Attributes:
        what: "seconds of kernels", or "bytes at the peak".
        value: the least over all ways to compute, by the search's arrays.
        solved: the same, by an integer program.
        method: the solver.
    """

    what: str
    value: float
    solved: float
    method: str

    def __str__(self):
        text = bytes_text if self.what.startswith("bytes") else seconds_text
        return f"{self.what}: at least {text(self.value)}, and {text(self.solved)} by {self.method}"


def solved_bounds(space: SearchSpace, unsplit: LayoutPrice, *, on_machine: bool = True) -> tuple[SolvedBound, ...]:
    """Returns the least of each bound that adds up, by the search's arrays and by each solver that is installed.

    Args:
        space: the space.
        unsplit: the price of the layout without rules.
        on_machine: whether seconds are known.
    """
    parts = [("bytes at the peak", memory_bounds, peak_bytes)]
    if on_machine:
        parts.insert(0, ("seconds of kernels", compute_bounds, kernel_seconds))
    found = []
    for what, bounds, amounts in parts:
        value = float(np.min(bounds(space, unsplit)))
        for solver in solvers():
            solved = _least(space, amounts(space, unsplit), solver)
            if not math.isclose(value, solved, rel_tol=_AGREE):
                raise MeshlabError(
                    f"The least {what} is {value:.7g} by the search and {solved:.7g} by {method(solver)}. This is a"
                    " bug in meshlab: please report it with the model."
                )
            found.append(SolvedBound(what, value, solved, method(solver)))
    return tuple(found)


def _least(space: SearchSpace, amounts: Amounts, solver: str) -> float:
    """The least sum of amounts over all ways to compute, by an integer program."""
    sums, others = by_dims(space, amounts)
    total = sum(sums.values())
    if not total:
        return others
    bounds: list[Bounds] = []

    def variable(most: float, whole: bool) -> int:
        bounds.append((0, most, whole))
        return len(bounds) - 1

    axes = list(space.axes.items())
    x = [{own: variable(1, whole=True) for own in sets} for sets in space.sets]
    rows: list[Row] = [(dict.fromkeys(columns.values(), 1.0), 1, 1) for columns in x]
    goal: dict[int, float] = {}
    for dims, amount in sums.items():
        over = {some: variable(math.inf, whole=False) for some in _subsets(len(axes))}
        rows.append((dict.fromkeys(over.values(), 1.0), 1, 1))
        for i in range(len(axes)):
            split = {y: 1.0 for some, y in over.items() if i in some}
            rows.append((split | {number: -1.0 for own, number in x[i].items() if own & dims}, 0, 0))
        goal |= {y: amount / total * _SCALE / math.prod(axes[i][1] for i in some) for some, y in over.items()}
    problem, values = solve(goal, bounds, rows, solver)
    if problem:
        raise MeshlabError(
            f"{method(solver)} was asked for the least sum over {space.count():,} ways to compute and has proved none"
            f" (it says {problem!r})."
        )
    return sum(share * values[y] for y, share in goal.items()) * total / _SCALE + others


def _subsets(count: int) -> list[tuple[int, ...]]:
    return [some for size in range(count + 1) for some in itertools.combinations(range(count), size)]
