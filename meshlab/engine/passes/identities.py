"""Identities of elementwise operators give several spellings one term.

    x / 2 → x * 0.5      1 / sqrt(x) → rsqrt(x)      min(max(x, 0), 1) → clamp(0, x, 1)      select(true, x, y) → x

Each function is a `Rule` of `algebra`, which applies them. Which identities hold for floats is XLA's choice (`x - x` is
no zero there, for x may be infinite), and so is that `x + x` and `2 * x` stay two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from .algebra import Algebra, Rule
from .terms import Number, is_float, text

IDENTITIES: dict[str, Rule] = {}


def identity_of(*names: str) -> Callable[[Rule], Rule]:
    """Registers the identity of one or more primitives."""

    def register(function: Rule) -> Rule:
        IDENTITIES.update(dict.fromkeys(names, function))
        return function

    return register


@identity_of("add_any")
def _add_any(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number:
    """Equates `add_any`, by which differentiation adds up cotangents, with `add`."""
    return a.of("add", *inputs, dtype=dtype)


@identity_of("add")
def _add(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    for x, other in (inputs, inputs[::-1]):
        number = a.number_of(other)
        if number is None:
            continue
        if number == 0:
            return x
        term = a.terms[x]
        known = next((i for i in term.inputs if a.is_a(i, "const")), None) if term.name == "add" else None
        if known is not None:
            rest = term.inputs[0] if term.inputs[1] == known else term.inputs[1]
            return a.of("add", rest, a.of("add", known, other, dtype=dtype), dtype=dtype)
    return _common_factor(a, inputs, dtype)


def _common_factor(a: Algebra, inputs: list[Number], dtype: Any) -> Number | None:
    """Takes out a common factor, x c + y c → (x + y) c, where that is exact: c is a power of two, or an integer."""
    x, y = (a.terms[i] for i in inputs)
    if x.name != "mul" or y.name != "mul":
        return None
    for common in x.inputs:
        if common not in y.inputs or (is_float(dtype) and not _is_power_of_two(a.number_of(common))):
            continue
        left, right = (t.inputs[1] if t.inputs[0] == common else t.inputs[0] for t in (x, y))
        return a.of("mul", a.of("add", left, right, dtype=dtype), common, dtype=dtype)
    return None


def _is_power_of_two(number: np.ndarray | None) -> bool:
    if number is None or np.iscomplexobj(number) or not np.isfinite(number) or number == 0:
        return False
    return abs(np.frexp(np.float64(number))[0]) == 0.5


@identity_of("sub")
def _sub(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    x, y = inputs
    if x == y and not is_float(dtype):
        return a.constant(0, dtype)
    if a.number_of(y) is not None:
        return a.of("add", x, a.of("neg", y, dtype=dtype), dtype=dtype)
    return None


@identity_of("mul")
def _mul(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    x, y = inputs
    for one, other in ((x, y), (y, x)):
        number = a.number_of(other)
        if number is not None and number == 1:
            return one
        if number is not None and number == 0 and not is_float(dtype):
            return other
        term = a.terms[one]
        known = next((i for i in term.inputs if a.is_a(i, "const")), None) if term.name == "mul" else None
        if number is not None and known is not None:
            rest = term.inputs[0] if term.inputs[1] == known else term.inputs[1]
            return a.of("mul", rest, a.of("mul", known, other, dtype=dtype), dtype=dtype)
        # Multiplying by a mask is a select.
        if (
            term.name == "convert_element_type"
            and a.terms[term.inputs[0]].dtype == "bool"
            and not a.is_a(other, "const")
        ):
            return a.of("select_n", term.inputs[0], a.constant(0, dtype), other, dtype=dtype)
    left, right = a.terms[x].name, a.terms[y].name
    if left == right == "exp":
        return a.of("exp", a.of("add", a.operand(x), a.operand(y), dtype=dtype), dtype=dtype)
    if left == right == "neg" or (left == "abs" and x == y and not a.terms[a.operand(x)].dtype.startswith("complex")):
        return a.of("mul", a.operand(x), a.operand(y), dtype=dtype)
    return None


@identity_of("div")
def _div(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    x, y = inputs
    number = a.number_of(y)
    if number is not None and number == 1:
        return x
    if not is_float(dtype):
        return None
    if number is not None and number != 0:
        return a.of("mul", x, a.of("div", a.constant(1, dtype), y, dtype=dtype), dtype=dtype)
    top, bottom = a.terms[x], a.terms[y]
    if top.name == bottom.name == "exp":
        return a.of("exp", a.of("sub", top.inputs[0], bottom.inputs[0], dtype=dtype), dtype=dtype)
    if bottom.name == "exp":
        inverse = a.of("exp", a.of("neg", bottom.inputs[0], dtype=dtype), dtype=dtype)
    elif bottom.name == "sqrt":
        inverse = a.of("rsqrt", bottom.inputs[0], dtype=dtype)
    elif bottom.name == "broadcast":
        # The inverse is taken before the broadcast.
        one = a.of("div", a.constant(1, dtype), bottom.inputs[0], dtype=dtype)
        inverse = a.terms.make("broadcast", bottom.params, (one,), bottom.shape, dtype)
    elif bottom.name == "pow":
        inverse = a.of("pow", bottom.inputs[0], a.of("neg", bottom.inputs[1], dtype=dtype), dtype=dtype)
    elif top.name == "div":
        below = a.of("mul", top.inputs[1], y, dtype=dtype)
        return a.of("div", top.inputs[0], below, dtype=dtype)
    elif bottom.name == "div":
        above = a.of("mul", x, bottom.inputs[1], dtype=dtype)
        return a.of("div", above, bottom.inputs[0], dtype=dtype)
    else:
        return None
    return a.of("mul", x, inverse, dtype=dtype)


@identity_of("neg")
def _neg(a: Algebra, inputs: list[Number], _dtype: Any, _params: dict) -> Number | None:
    return a.operand(inputs[0]) if a.is_a(inputs[0], "neg") else None


@identity_of("not")
def _not(a: Algebra, inputs: list[Number], _dtype: Any, _params: dict) -> Number | None:
    return a.operand(inputs[0]) if a.is_a(inputs[0], "not") else None


@identity_of("abs")
def _abs(a: Algebra, inputs: list[Number], _dtype: Any, _params: dict) -> Number | None:
    return inputs[0] if a.is_never_negative(inputs[0]) else None


@identity_of("square")
def _square(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number:
    return a.of("mul", inputs[0], inputs[0], dtype=dtype)


@identity_of("integer_pow")
def _integer_pow(a: Algebra, inputs: list[Number], dtype: Any, params: dict) -> Number:
    """Multiplies out an integer power by squaring, as JAX lowers it."""
    (x,), exponent = inputs, params["y"]
    left, power, result = abs(exponent), x, None
    while left:
        if left & 1:
            result = power if result is None else a.of("mul", result, power, dtype=dtype)
        left >>= 1
        power = a.of("mul", power, power, dtype=dtype) if left else power
    one = a.constant(1, dtype)
    result = one if result is None else result
    return result if exponent >= 0 else a.of("div", one, result, dtype=dtype)


@identity_of("pow")
def _pow(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    x, y = inputs
    exponent = a.number_of(y)
    if exponent is not None and exponent in (-1, 0, 1, 2, 3):
        return _integer_pow(a, [x], dtype, {"y": int(np.real(exponent))})
    if a.is_a(x, "exp"):
        return a.of("exp", a.of("mul", a.operand(x), y, dtype=dtype), dtype=dtype)
    return None


@identity_of("sqrt")
def _sqrt(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    term = a.terms[inputs[0]]
    is_square = term.name == "mul" and term.inputs[0] == term.inputs[1] and jnp.issubdtype(dtype, jnp.floating)
    return a.of("abs", term.inputs[0], dtype=dtype) if is_square else None


@identity_of("log")
def _log(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    term = a.terms[inputs[0]]
    if term.name == "exp":
        return term.inputs[0]
    if term.name == "sqrt":
        return a.of("mul", a.of("log", term.inputs[0], dtype=dtype), a.constant(0.5, dtype), dtype=dtype)
    if term.name == "pow":
        return a.of("mul", a.of("log", term.inputs[0], dtype=dtype), term.inputs[1], dtype=dtype)
    return None


@identity_of("exp2")
def _exp2(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number:
    return a.of("exp", a.of("mul", inputs[0], a.constant(np.log(2), dtype), dtype=dtype), dtype=dtype)


@identity_of("logistic")
def _logistic(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number:
    one = a.constant(1, dtype)
    below = a.of("add", a.of("exp", a.of("neg", inputs[0], dtype=dtype), dtype=dtype), one, dtype=dtype)
    return a.of("div", one, below, dtype=dtype)


@identity_of("max")
def _max(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    return _extremum(a, inputs, dtype, "max")


@identity_of("min")
def _min(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    return _extremum(a, inputs, dtype, "min")


def _extremum(a: Algebra, inputs: list[Number], dtype: Any, name: str) -> Number | None:
    x, y = inputs
    if x == y:
        return x
    other_name = "min" if name == "max" else "max"
    for one, bound in ((x, y), (y, x)):
        number = a.number_of(bound)
        if number is None or np.iscomplexobj(number):
            continue
        if number == (-np.inf if name == "max" else np.inf):
            return one
        inner = a.terms[one]
        known = next((i for i in inner.inputs if a.is_a(i, "const")), None) if inner.name == other_name else None
        if known is not None:
            rest = inner.inputs[0] if inner.inputs[1] == known else inner.inputs[1]
            low, high = (bound, known) if name == "max" else (known, bound)
            least, most = a.number_of(low), a.number_of(high)
            if least is not None and most is not None and least <= most:
                return a.make("clamp", [low, rest, high], dtype)
    return None


@identity_of("clamp")
def _clamp(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    low, x, high = inputs
    if a.terms[low].name == a.terms[high].name == "const":
        return None
    return a.of("min", a.of("max", x, low, dtype=dtype), high, dtype=dtype)


@identity_of("and")
def _and(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    return _bitwise(a, inputs, dtype, neutral=-1, absorbing=0)


@identity_of("or")
def _or(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    return _bitwise(a, inputs, dtype, neutral=0, absorbing=-1)


def _bitwise(a: Algebra, inputs: list[Number], dtype: Any, neutral: int, absorbing: int) -> Number | None:
    for x, other in (inputs, inputs[::-1]):
        if other == a.constant(np.asarray(neutral).astype(dtype), dtype):
            return x
        if other == a.constant(np.asarray(absorbing).astype(dtype), dtype):
            return other
    return None


@identity_of("xor")
def _xor(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    return a.constant(0, dtype) if inputs[0] == inputs[1] else None


def _compared_with_itself(holds: bool) -> Rule:
    """Returns the identity of a comparison that holds, or does not, of a value and itself; floats may be NaN."""

    def compare(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
        x, y = inputs
        is_exact = not a.terms[x].dtype.startswith(("float", "bfloat", "complex", "key"))
        return a.constant(holds, dtype) if x == y and is_exact else None

    return compare


identity_of("eq", "ge", "le")(_compared_with_itself(True))
identity_of("ne", "gt", "lt")(_compared_with_itself(False))


@identity_of("convert_element_type")
def _convert(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    term = a.terms[inputs[0]]
    if term.dtype == text(dtype):
        return inputs[0]
    # A round trip through a dtype that represents every value.
    source = a.terms[term.inputs[0]].dtype if term.name == "convert_element_type" else ""
    if source == text(dtype):
        kinds = [
            next((k for k in (jnp.floating, jnp.integer) if jnp.issubdtype(d, k)), None) for d in (dtype, term.dtype)
        ]
        if kinds[0] is kinds[1] is not None and jnp.promote_types(dtype, term.dtype) == term.dtype:
            return term.inputs[0]
    return None


def _part(position: int) -> Rule:
    def part(a: Algebra, inputs: list[Number], _dtype: Any, _params: dict) -> Number | None:
        return a.terms[inputs[0]].inputs[position] if a.is_a(inputs[0], "complex") else None

    return part


identity_of("real")(_part(0))
identity_of("imag")(_part(1))


@identity_of("select_n")
def _select(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    which, *cases = inputs
    number = a.number_of(which)
    if number is not None:
        return cases[int(number)]
    if len(set(cases)) == 1:
        return cases[0]
    if a.is_a(which, "not"):
        return a.of("select_n", a.operand(which), *cases[::-1], dtype=dtype)
    return None


@identity_of("bitcast_convert_type")
def _bitcast(a: Algebra, inputs: list[Number], dtype: Any, _params: dict) -> Number | None:
    (x,) = inputs
    while a.is_a(x, "bitcast_convert_type"):
        x = a.operand(x)
    if a.terms[x].dtype == text(dtype):
        return x
    return None if x == inputs[0] else a.make("bitcast_convert_type", [x], dtype, dtype)
