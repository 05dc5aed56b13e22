"""PuLP 3 and 4 by one door: how variables and sums are made, and what a solver says, differ between them."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from typing import Any

import pulp


def made(problem: pulp.LpProblem, name: str, least: float, most: float, whole: bool) -> Any:
    """Makes a variable of a problem: between two numbers, of which the greater may be infinite; whole or not."""
    kind, upper = pulp.LpInteger if whole else pulp.LpContinuous, most if math.isfinite(most) else None
    # PuLP 4 makes variables of a problem; 3.3.0 knows only those that are of none.
    make = getattr(problem, "add_variable", pulp.LpVariable)
    return make(name, least, upper, kind)


def summed(terms: Iterable[tuple[Any, float]]) -> Any:
    """Adds up variables times numbers; PuLP 4 takes no generators."""
    return pulp.lpSum([amount * v for v, amount in terms])


def solve(problem: pulp.LpProblem) -> str:
    """Solves a problem by CBC.

    Returns:
        "" where the solver has proved that nothing is better, else what it says.
    """
    # PuLP 3 has CBC inside; for PuLP 4 it is a package of its own (the extra `cbc`), which PuLP finds.
    bundled = getattr(getattr(pulp, "PULP_CBC_CMD", None), "pulp_cbc_path", None)
    # One process, no `threads`: with a worker thread CBC now and then waits ten seconds for itself.
    solver = pulp.COIN_CMD(path=bundled, msg=False, gapRel=0, gapAbs=0)
    with tempfile.TemporaryDirectory() as scratch:
        solver.tmpDir = scratch
        found: Any = problem.solve(solver)
    if hasattr(found, "status_str"):
        # Where it stops at the gap that was asked for, which is none, it has proved its answer.
        proved = found.has_solution and found.status_str in ("Optimal", "GapLimit")
        return "" if proved else found.status_str
    return "" if problem.sol_status == pulp.LpSolutionOptimal else pulp.LpStatus[problem.status]
