"""PuLP in the versions that are tested: what is proved is said, and so is what is not."""

import math

import pulp
import pytest

from meshlab.auto.pulp_compat import made, solve, summed


def knapsack(least):
    """Two things to take, of which the first weighs more; what is taken weighs at least so much."""
    problem = pulp.LpProblem("knapsack", pulp.LpMinimize)
    first, second = (made(problem, name, 0, 1, True) for name in ("first", "second"))
    rest = made(problem, "rest", 0, math.inf, False)
    problem.setObjective(summed(iter([(first, 3.0), (second, 2.0), (rest, 10.0)])))
    problem += summed(iter([(first, 5.0), (second, 4.0)])) >= least
    problem += summed([(rest, 1.0)]) == 1.5
    return problem, (first, second, rest)


@pytest.mark.parametrize(("least", "taken"), [(0, (0, 0)), (4, (0, 1)), (5, (1, 0)), (9, (1, 1))])
def test_the_best_is_proved(least, taken):
    problem, found = knapsack(least)
    assert solve(problem) == ""
    assert [v.value() for v in found] == pytest.approx([*taken, 1.5])


def test_where_nothing_fits_it_says_so():
    problem, _ = knapsack(10)
    assert solve(problem) == "Infeasible"
