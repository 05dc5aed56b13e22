"""PuLP in the versions that are tested: what is proved is said, and so is what is not."""

import math
import subprocess
import sys

import pulp
import pytest

from meshlab.auto.additive.pulp_compat import CBC, method, solve, solvers
from meshlab.engine.errors import MeshlabError


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


@pytest.mark.skipif(not hasattr(pulp, "PULP_CBC_CMD"), reason="where PuLP 4 finds its solver is not ours to change")
@pytest.mark.parametrize("script", [None, "kill -9 $$"])
def test_a_solver_that_is_missing_or_ended_is_named(monkeypatch, tmp_path, script):
    path = tmp_path / "cbc"
    if script is not None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setattr(pulp.PULP_CBC_CMD, "pulp_cbc_path", str(path))
    with pytest.raises(MeshlabError, match="CBC, which solves through PuLP .* could not be run, or was ended before"):
        knapsack(4, CBC)


def test_it_is_loaded_when_it_is_asked():
    code = "import sys, meshlab.auto.choosing; print('pulp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert method().startswith("integer programming (CBC through PuLP ")
