"""Rules of elementwise operations: every axis runs through.

    add  x[batch, hidden] , y[batch, hidden] → [batch, hidden]      operands ((0, 1), (0, 1))   results ((0, 1),)

Scalars have no axes and meet anything. Addition and subtraction let a partial sum through where both sides are partial
alike; multiplying or dividing by one number everywhere scales it; negation keeps it. Nothing else does.
"""

from __future__ import annotations

import jax.numpy as jnp

from ..code import Operation
from .table import Factors, Facts, rule, run_whole

PLAIN = (
    "abs acos acosh and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp "
    "complex conj convert_element_type copy copy_p cos cosh digamma eq erf erf_inv erfc exp exp2 expm1 floor ge gt "
    "imag integer_pow is_finite le lgamma log log1p log2 logistic lt max min mulhi ne nextafter not one_minus_square "
    "or polynomial population_count pow real reduce_precision rem round rsqrt select_n shift_left "
    "shift_right_arithmetic shift_right_logical sign sin sinh sqrt square tan tanh xor clz lt_to le_to stop_gradient"
).split()


ELEMENTWISE = frozenset((*PLAIN, "neg", "add", "sub", "add_any", "mul", "div"))


def _through(facts: Facts, linear: str = "") -> Factors:
    shape = facts.results[0]
    axes = tuple(range(len(shape)))
    return Factors(tuple(axes if s else () for s in facts.operands), (axes,), linear=linear)


@rule(*PLAIN)
def _plain(_operation: Operation, facts: Facts) -> Factors:
    return _through(facts)


@rule("bitcast_convert_type")
def _bitcast(_operation: Operation, facts: Facts) -> Factors:
    # Between dtypes of different widths an axis comes or goes.
    return _through(facts) if facts.operands[0] == facts.results[0] else run_whole(facts, known=True)


@rule("neg")
def _negate(_operation: Operation, facts: Facts) -> Factors:
    return _through(facts, "unary")


@rule("add", "sub", "add_any")
def _add(_operation: Operation, facts: Facts) -> Factors:
    return _through(facts, "add")


@rule("mul")
def _multiply(_operation: Operation, facts: Facts) -> Factors:
    return _through(facts, "scale" if any(facts.uniform) else "")


@rule("div")
def _divide(operation: Operation, facts: Facts) -> Factors:
    # Integers are cut off, and what is cut off each addend is not what is cut off the sum.
    exact = jnp.issubdtype(operation.equation.outvars[0].aval.dtype, jnp.inexact)
    return _through(facts, "scale" if facts.uniform[1] and exact else "")


@rule("optimization_barrier")
def _barrier(_operation: Operation, facts: Facts) -> Factors:
    return _through(facts)
