"""Numbers equations, equal numbers for equations that do the same: their primitive, parameters and types.

    y = tanh(x)    z = tanh(y)    w = z + 1.0    v = w + y    u = v.T
    0              0              1              1            2

Which values they read, and whether these are literals, is compared where they are cut into iterations: a sum over
layers starts from 0.0. Layers may read numbers of their own, or rows of an array: `fold_in(key, i)`, `keys[i]`.

What stands inside an equation, such as a call or a rematerialised region, is compared as text, in which JAX numbers
variables from the start. Where an equation comes from does not count. If a rule of the user's for derivatives is
inside, the gradients that it makes are compared too: a text shows the name of a rule alone.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..jax_compat import call, is_ruled
from ..jax_programs import constants_in, contents, gradients, is_jaxpr, within
from ..rules.traits import names_where

# Where an object is in memory.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_ADDS = ("add", "add_any")


def numbers_of(equations: Sequence[Any], any_index: bool = False) -> np.ndarray:
    """Returns a number for each equation, the same for those that do the same.

    Args:
        equations: in order.
        any_index: whether it does not count which index along its first axis an array is taken at.
    """
    numbers: dict[Hashable, int] = {}
    texts: dict[int, str] = {}
    kinds = (_kind(each, texts, any_index and index_of(each) is not None) for each in equations)
    return np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], dtype=int)


def index_of(equation: Any) -> int | None:
    """Returns the index along the first axis at which an equation takes an array, as `x[2:3]`; None for others."""
    if equation.primitive.name != "slice":
        return None
    starts, limits, strides = (equation.params[name] for name in ("start_indices", "limit_indices", "strides"))
    shape = equation.invars[0].aval.shape
    is_whole = not any(starts[1:]) and tuple(limits[1:]) == tuple(shape[1:]) and set(strides or ()) <= {1}
    return starts[0] if is_whole and limits[0] == starts[0] + 1 else None


def joins_rows(equation: Any) -> bool:
    """Says whether an equation makes an array of its rows."""
    is_joined = equation.primitive.name == "concatenate" and equation.params["dimension"] == 0
    return is_joined and all(v.aval.shape[0] == 1 for v in equation.invars)


def multiplies(equation: Any) -> bool:
    """Says whether an equation multiplies matrices, or one inside of it does."""
    named = names_where(lambda traits: traits.multiplies is not None)
    return any(one.primitive.name in named for one in (equation, *within(equation)))


def adds(equation: Any) -> bool:
    """Says whether an equation adds two values."""
    return equation.primitive.name in _ADDS


def _kind(equation: Any, texts: dict[int, str], any_index: bool) -> Hashable:
    inputs = tuple((v.aval.shape, v.aval.dtype) for v in equation.invars)
    inside = call(equation)
    params = {} if any_index else {"inside": inside} if inside is not None else equation.params
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
