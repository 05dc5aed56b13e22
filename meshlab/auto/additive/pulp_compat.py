"""PuLP 3 and 4 behind one function: how variables and sums are made, and what a solver says, differ between them.

PuLP takes a quarter of a second to load, which whoever imports meshlab need not wait for: it is loaded when a search
asks for it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from ...engine.errors import MeshlabError

# A sum of variables, each by its number and times something.
Expression = Mapping[int, float]
# The least and the most that a variable may be, and whether it is whole; the same of a sum is an equality or an upper
# bound.
Bounds = tuple[float, float, bool]
Row = tuple[Expression, float, float]


CBC, HIGHS = "CBC", "HiGHS"


def method(solver: str = CBC) -> str:
    return f"integer programming ({solver} through PuLP {importlib.metadata.version('pulp')})"


def solvers() -> tuple[str, ...]:
    """Returns the solvers that are installed: CBC, which PuLP brings, and HiGHS where `highspy` is there."""
    return (CBC, HIGHS) if importlib.util.find_spec("highspy") is not None else (CBC,)


def solve(
    goal: Expression, bounds: Iterable[Bounds], rows: Iterable[Row], solver: str = CBC
) -> tuple[str, list[float]]:
    """Minimises a sum of variables.

    Args:
        goal: the sum.
        bounds: of each variable.
        rows: sums, with the least and the most that each may be: equal, or no least.
        solver: one of `solvers()`.

    Returns:
        "" where the solver has proved that nothing is better, else what it says; and what each variable is then.
    """
    import pulp  # noqa: PLC0415  see above

    problem = pulp.LpProblem("layout", pulp.LpMinimize)
    # PuLP 4 makes variables of a problem; 3.3.0 knows only those that are of none.
    make: Any = getattr(problem, "add_variable", pulp.LpVariable)
    variables = [
        make(f"v{i}", least, most if math.isfinite(most) else None, pulp.LpInteger if whole else pulp.LpContinuous)
        for i, (least, most, whole) in enumerate(bounds)
    ]

    def total(terms: Expression) -> Any:
        # PuLP 4 takes no generators.
        return pulp.lpSum([amount * variables[number] for number, amount in terms.items()])

    problem.setObjective(total(goal))
    for terms, least, most in rows:
        problem += total(terms) == most if least == most else total(terms) <= most
    try:
        said = _solved(problem, solver)
    except pulp.PulpSolverError as error:
        raise MeshlabError(
            f"{solver}, which solves through PuLP {importlib.metadata.version('pulp')}, could not be run, or was ended"
            f" before it had answered: {error}. Search again; where it is missing, install pulp[cbc] again."
        ) from None
    return said, [v.value() or 0.0 for v in variables]


def _solved(problem: Any, name: str) -> str:
    import pulp  # noqa: PLC0415  see above

    if name == HIGHS:
        return _said(problem, problem.solve(pulp.HiGHS(msg=False, gapRel=0)))
    # PuLP 3 has CBC inside; for PuLP 4 it is a package of its own (the extra `cbc`), which PuLP finds.
    bundled = getattr(getattr(pulp, "PULP_CBC_CMD", None), "pulp_cbc_path", None)
    # One process, no `threads`: with a worker thread CBC now and then waits ten seconds for itself.
    solver = pulp.COIN_CMD(path=bundled, msg=False, gapRel=0, gapAbs=0)
    with tempfile.TemporaryDirectory() as scratch:
        solver.tmpDir = scratch
        answer: Any = problem.solve(solver)
    return _said(problem, answer)


def _said(problem: Any, answer: Any) -> str:
    """What a solver says, in the words of either version; "" where it has proved its answer."""
    import pulp  # noqa: PLC0415  see above

    if hasattr(answer, "status_str"):
        # Where it stops at the gap that was asked for, which is none, it has proved its answer.
        proved = answer.has_solution and answer.status_str in ("Optimal", "GapLimit")
        return "" if proved else answer.status_str
    return "" if problem.sol_status == pulp.LpSolutionOptimal else pulp.LpStatus[problem.status]
