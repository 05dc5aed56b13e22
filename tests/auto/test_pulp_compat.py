"""PuLP in the versions that are tested: what is proved is said, and so is what is not."""

import math
import subprocess
import sys

import pytest

from meshlab.auto.additive.pulp_compat import method, solve, solvers


def knapsack(least, solver):
    """Two things to take, of which the first weighs more; what is taken weighs at least so much."""
    bounds = [(0, 1, True), (0, 1, True), (0, math.inf, False)]
    rows = [({0: -5.0, 1: -4.0}, -math.inf, -float(least)), ({2: 1.0}, 1.5, 1.5)]
    return solve({0: 3.0, 1: 2.0, 2: 10.0}, bounds, rows, solver)


@pytest.mark.parametrize("solver", solvers())
@pytest.mark.parametrize(("least", "taken"), [(0, (0, 0)), (4, (0, 1)), (5, (1, 0)), (9, (1, 1))])
def test_the_best_is_proved(least, taken, solver):
    problem, values = knapsack(least, solver)
    assert problem == ""
    assert values == pytest.approx([*taken, 1.5])


@pytest.mark.parametrize("solver", solvers())
def test_where_nothing_fits_it_says_so(solver):
    problem, _ = knapsack(10, solver)
    assert problem == "Infeasible"


def test_it_is_loaded_when_it_is_asked():
    code = "import sys, meshlab.auto.choosing; print('pulp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert method().startswith("integer programming (CBC through PuLP ")
