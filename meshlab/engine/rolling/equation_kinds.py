"""Numbers equations, equal numbers for equations that do the same: their primitive, parameters and types.

    y = tanh(x)    z = tanh(y)    w = z + 1.0    v = w + y    u = v.T
    0              0              1              1            2

Which values they read, and whether these are literals, is compared where they are cut into iterations: a sum over
layers starts from 0.0.

What stands inside an equation, such as a call or a rematerialised region, is compared as text, in which JAX numbers
variables from the start. Where an equation comes from does not count. If a rule of the user's for derivatives is inside,
the gradients that it makes are compared too: a text shows the name of a rule alone.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..jax_compat import call, is_ruled
from ..jax_programs import constants_in, contents, gradients, is_jaxpr, within

# Where an object is in memory.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def numbers_of(equations: Sequence[Any]) -> np.ndarray:
    """Returns a number for each equation, the same for those that do the same."""
    numbers: dict[Hashable, int] = {}
    texts: dict[int, str] = {}
    return np.array([numbers.setdefault(_kind(each, texts), len(numbers)) for each in equations], dtype=int)


def _kind(equation: Any, texts: dict[int, str]) -> Hashable:
    inputs = tuple((v.aval.shape, v.aval.dtype) for v in equation.invars)
    inside = call(equation)
    params = {"inside": inside} if inside is not None else equation.params
    shown = tuple((name, _text(value, texts)) for name, value in sorted(params.items()))
    results = tuple((v.aval.shape, v.aval.dtype) for v in equation.outvars)
    return equation.primitive.name, inputs, results, shown, _ruled(equation, texts)


def _ruled(equation: Any, texts: dict[int, str]) -> str:
    """Returns the gradients of an equation that has rules of the user's for derivatives inside, as text."""
    if not any(map(is_ruled, (equation, *within(equation)))):
        return ""
    # Calls with a rule of their own are not shared: each is its own key.
    key = -id(equation if is_ruled(equation) else call(equation) or equation)
    if key not in texts:
        closed = gradients(equation)
        texts[key] = "none" if closed is None else f"{closed} of {[contents(each) for each in constants_in(closed)]}"
    return texts[key]


def _text(value: Any, texts: dict[int, str]) -> str:
    if isinstance(value, tuple | list):
        return f"({', '.join(_text(one, texts) for one in value)})"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tobytes()}"
    if not is_jaxpr(value):
        return str(id(value)) if callable(value) else _ADDRESS.sub("", repr(value))
    # Calls of one function share their jaxpr: the equations keep it, so that its identity stays its own.
    if id(value) not in texts:
        texts[id(value)] = f"{value} of {[id(constant) for constant in constants_in(value)]}"
    return texts[id(value)]


def equal_literals(literals: Sequence[Any]) -> bool:
    """Says whether literals are all of one value."""
    return len({np.asarray(each.val).tobytes() for each in literals}) == 1
