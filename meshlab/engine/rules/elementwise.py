"""Rules of elementwise operations let every axis run through.

    add  x[batch, hidden] , y[batch, hidden] → [batch, hidden]      operands ((0, 1), (0, 1))   results ((0, 1),)

Scalars have no axes and combine with any operand. The planner lets partial sums through additions, subtractions and
negations, and through multiplications and divisions by a uniform array: any other factor would have to be unsharded
over the mesh axes of the partial sum.
"""

from __future__ import annotations

import jax.numpy as jnp

from ..code.operations import Operation
from .table import Factors, Facts, rule, run_unsharded
from .traits import FIRST, NOWHERE, Groups, Linear, Traits, bitcasting, elementwise, linear_in, moving, opaque, together


def _through(facts: Facts, through: frozenset[int] = frozenset()) -> Factors:
    shape = facts.results[0]
    axes = tuple(range(len(shape)))
    return Factors(tuple(axes if s else () for s in facts.operands), (axes,), through=through)


def _dtypes(operation: Operation) -> tuple[jnp.dtype, jnp.dtype]:
    return operation.equation.invars[0].aval.dtype, operation.equation.outvars[0].aval.dtype


def _cast_is_linear(operation: Operation) -> Groups:
    """Returns the operand if the cast is linear: between floats, or from an integer to one as narrow or narrower.

    A cast between floats rounds, as additions do. Integers wrap around, which a float or a wider integer would not.
    """
    before, after = _dtypes(operation)
    if all(jnp.issubdtype(dtype, jnp.integer) for dtype in (before, after)):
        linear = jnp.iinfo(before).bits >= jnp.iinfo(after).bits
    else:
        linear = all(jnp.issubdtype(dtype, jnp.inexact) for dtype in (before, after))
    return FIRST(operation) if linear else ()


def _quotient_is_linear(operation: Operation) -> Groups:
    # Integer division truncates each addend, which is not the truncated sum.
    return FIRST(operation) if jnp.issubdtype(_dtypes(operation)[1], jnp.inexact) else ()


def _cases_are_linear(operation: Operation) -> Groups:
    return (frozenset(range(1, len(operation.inputs))),)


def _plain(*, expensive: bool, library: bool, commutes: bool = False, neutral: int | None = None) -> Traits:
    """Describes a primitive that is not linear."""
    return elementwise(linear=NOWHERE, expensive=expensive, library=library, commutes=commutes, neutral=neutral)


def _linear(linear: Linear, *, library: bool = False, keeps: bool = False, identity: bool = False) -> Traits:
    """Describes a primitive that is linear and cheap."""
    return elementwise(linear=linear, expensive=False, library=library, commutes=False, keeps=keeps, identity=identity)


@rule(
    *"abs ceil cos floor integer_pow round sign sin square one_minus_square".split(),
    traits=_plain(expensive=False, library=True),
)
@rule(*"erf exp expm1 log log1p rsqrt sqrt tan tanh".split(), traits=_plain(expensive=True, library=True))
@rule(
    *"acos acosh asin asinh atan atan2 atanh cbrt cosh digamma erf_inv erfc exp2 lgamma log2 logistic rem sinh".split(),
    traits=_plain(expensive=True, library=False),
)
@rule(
    *"bessel_i0e bessel_i1e clamp clz eq_to ge gt is_finite le le_to lt lt_to nextafter not population_count".split(),
    *"polynomial reduce_precision shift_right_arithmetic shift_right_logical".split(),
    traits=_plain(expensive=False, library=False),
)
@rule("and", "or", "xor", "eq", "ne", traits=_plain(expensive=False, library=False, commutes=True))
@rule("max", "min", traits=_plain(expensive=False, library=True, commutes=True))
@rule("pow", traits=_plain(expensive=True, library=True, neutral=1))
@rule("conj", "imag", "real", "shift_left", traits=_linear(FIRST))
@rule("complex", traits=_linear(together))
@rule("select_n", traits=_linear(_cases_are_linear))
@rule("convert_element_type", traits=_linear(_cast_is_linear, library=True, keeps=True))
@rule("copy", traits=_linear(FIRST, keeps=True, identity=True))
@rule("stop_gradient", traits=bitcasting(identity=True))
def _each(_operation: Operation, facts: Facts) -> Factors:
    return _through(facts)


@rule("bitcast_convert_type", traits=moving(linear=NOWHERE, reads_part=False, keeps=False))
def _bitcast(_operation: Operation, facts: Facts) -> Factors:
    # Between dtypes of different widths an axis is added or removed.
    return _through(facts) if facts.operands[0] == facts.results[0] else run_unsharded(facts, known=True)


@rule("neg", traits=_linear(FIRST, library=True))
def _negate(_operation: Operation, facts: Facts) -> Factors:
    return _through(facts, frozenset((0,)))


@rule(
    "add",
    "add_any",
    traits=elementwise(linear=together, expensive=False, commutes=True, library=True, neutral=0),
)
@rule("sub", traits=elementwise(linear=together, expensive=False, commutes=False, library=True, neutral=0))
def _add(_operation: Operation, facts: Facts) -> Factors:
    return _through(facts, frozenset((0, 1)))


@rule(
    "mul",
    traits=elementwise(linear=linear_in({0}, {1}), expensive=False, commutes=True, library=True, neutral=1),
)
def _multiply(_operation: Operation, facts: Facts) -> Factors:
    return _through(facts, frozenset(i for i in (0, 1) if facts.uniform[1 - i]))


@rule(
    "div",
    traits=elementwise(linear=_quotient_is_linear, expensive=True, commutes=False, library=True, neutral=1),
)
def _divide(_operation: Operation, facts: Facts) -> Factors:
    return _through(facts, frozenset((0,) if facts.uniform[1] else ()))


@rule(
    *"igamma igammac igamma_grad_a mulhi polygamma regularized_incomplete_beta zeta".split(),
    traits=opaque(linear=NOWHERE, multiplies=None),
)
def _special(_operation: Operation, facts: Facts) -> Factors:
    # Functions of several arguments, each of which compilers compute in a kernel of its own.
    return _through(facts)


@rule("optimization_barrier", traits=opaque(linear=together, multiplies=None, keeps=True))
def _barrier(_operation: Operation, facts: Facts) -> Factors:
    return _through(facts)
