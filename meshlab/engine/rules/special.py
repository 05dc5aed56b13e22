"""Rules of special functions of several arguments: elementwise, as those of one argument are."""

from __future__ import annotations

from ..code.operations import Operation
from .table import Factors, Facts, rule
from .traits import NOWHERE, opaque

_NAMES = "igamma igammac igamma_grad_a mulhi polygamma regularized_incomplete_beta zeta".split()


@rule(*_NAMES, traits=opaque(linear=NOWHERE, multiplies=None))
def _special(_operation: Operation, facts: Facts) -> Factors:
    axes = tuple(range(len(facts.results[0])))
    return Factors(tuple(axes if shape else () for shape in facts.operands), (axes,))
