"""Rules of special functions of several arguments: elementwise, as those of one argument are."""

from __future__ import annotations

from ..code import Operation
from .table import Factors, Facts, rule


@rule("igamma", "igammac", "igamma_grad_a", "mulhi", "polygamma", "regularized_incomplete_beta", "zeta")
def _special(_operation: Operation, facts: Facts) -> Factors:
    axes = tuple(range(len(facts.results[0])))
    return Factors(tuple(axes if shape else () for shape in facts.operands), (axes,))
