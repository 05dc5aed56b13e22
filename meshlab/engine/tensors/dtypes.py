"""Refuses operands of a dtype that an operation does not take, in words that its caller knows.

    subtract was given bool[q=2] and bool[q=2]; it takes numbers: x.astype(ml.i32), say.

What is known beforehand is asked beforehand (`taking`, `holding`, `fitting`). Of the rest JAX is asked, by computing
(`applied`): its own refusal speaks of primitives that the user never called, and stays the cause.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import DimError, MeshlabError, shown

_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u"}
_INTEGER_OPERATIONS = ("invert", "and", "or")
_BOOL = np.dtype(bool)
_KEYS = "keys are not numbers: draw with each key, under ml.vmap"


def short_name(dtype: Any) -> str:
    """Returns how meshlab calls a dtype: `f32`, `bf16`, `i32`, `bool`."""
    word = str(dtype).rstrip("0123456789")
    return f"{_SHORT.get(word, word)}{str(dtype)[len(word) :]}"


def written(x: Any) -> str:
    """Returns an operand for a message: `f32[q=2]` of a tensor, `f32` of a scalar, and a number as it is."""
    if isinstance(x, np.generic) or not hasattr(x, "dtype"):
        return shown(x)
    dims = getattr(x, "dims", ())
    return short_name(x.dtype) + (f"[{', '.join(map(str, dims))}]" if dims else "")


def taking(what: str, x: Any, kinds: Sequence[Any], instead: str) -> None:
    """Refuses a tensor of a dtype that an operation does not take.

    Args:
        what: the operation.
        x: the tensor.
        kinds: what it takes, `jnp.number` for example.
        instead: what it takes, in words, and how to come by it.
    """
    if not any(jnp.issubdtype(x.dtype, kind) for kind in kinds):
        keys = jnp.issubdtype(x.dtype, jax.dtypes.extended)
        raise DimError(f"{what} was given {written(x)}; {_KEYS if keys else instead}.")


def numbers(what: str, x: Any) -> None:
    """Refuses a tensor of booleans or keys, which are no numbers."""
    taking(what, x, (jnp.number,), "it takes numbers: x.astype(ml.f32), say")


def ordered(what: str, x: Any) -> None:
    """Refuses a tensor of numbers without an order."""
    taking(what, x, (jnp.floating, jnp.integer, jnp.bool_), "these have no order: use their magnitudes, ml.abs(x), say")


def floats(what: str, x: Any, kind: Any = jnp.inexact) -> None:
    """Refuses a tensor of integers or booleans, which would round the result."""
    taking(what, x, (kind,), "it takes floats: x.astype(ml.f32), say")


def holding(what: str, name: str, value: Any, dtype: Any) -> None:
    """Refuses a number that a dtype would change: a fraction among integers, one that is too large."""
    traced = isinstance(value, Tracer)
    value = value.item() if not traced and hasattr(value, "item") else value
    given, is_integer = jnp.result_type(value), jnp.issubdtype(dtype, jnp.integer)
    if jnp.issubdtype(dtype, jnp.complexfloating) or jnp.issubdtype(dtype, jax.dtypes.extended):
        return
    least, most = _range(dtype) or (0, 1)
    holds = f"integers from {least:,} to {most:,}"
    if jnp.issubdtype(given, jnp.complexfloating) or jnp.issubdtype(dtype, jnp.floating):
        holds = "no complex numbers"
        fits = not jnp.issubdtype(given, jnp.complexfloating)
    elif traced:
        fits = given == jnp.bool_ or (is_integer and jnp.issubdtype(given, jnp.integer))
    else:
        fits = least <= value <= most and value == int(value)
    if not fits:
        raise DimError(
            f"{what} was given the {name} {written(value)} for {short_name(dtype)}, which holds {holds}: give a value"
            " in that range, or convert x first, x.astype(ml.f32), say."
        )


def fitting(what: str, operands: Sequence[Any]) -> None:
    """Refuses a Python integer among integers whose dtype does not hold it: JAX would change it in silence."""
    others = {x.dtype for x in operands if hasattr(x, "dtype")} - {_BOOL}
    dtype = others.pop() if len(others) == 1 else None
    if dtype is None or (limits := _range(dtype)) is None:
        return
    least, most = limits
    # An exponent stays what it is, whatever it is the power of.
    for x in operands[:1] if what == "power" else operands:
        if type(x) is int and not least <= x <= most:
            holding(what, "number", x, dtype)


@functools.cache
def _range(dtype: Any) -> tuple[int, int] | None:
    """Returns the least and the largest integer of a dtype; None of one that is not of integers."""
    if not jnp.issubdtype(dtype, jnp.integer):
        return None
    info = jnp.iinfo(dtype)
    return int(info.min), int(info.max)


def beyond(array: np.ndarray, dtype: Any) -> Any:
    """Returns a number that another dtype would change: a large integer, or one that becomes infinite.

    None where there is none.
    """
    if not array.size or np.can_cast(array.dtype, dtype, "safe"):
        return None
    if jnp.issubdtype(dtype, jnp.inexact):
        with np.errstate(over="ignore"):
            infinite = ~np.isfinite(array.astype(dtype))
        lost = array[np.isfinite(array) & infinite] if infinite.any() else None
        return None if lost is None or not lost.size else lost[0].item()
    if not jnp.issubdtype(array.dtype, jnp.integer):
        return None
    most, least = int(array.max()), int(array.min())
    info = jnp.iinfo(dtype)
    return most if most > info.max else least if least < info.min else None


def applied(what: str, function: Callable[..., Any], given: Sequence[Any], operands: Sequence[Any], **keywords: Any):
    """Returns the result of a function of JAX; refuses dtypes that it does not take, and integers that are too large.

    Args:
        what: the operation that the user called.
        function: JAX's own; never one of the user's, whose errors are the user's.
        given: what it is called with.
        operands: what the user gave, for the message.
        **keywords: for the function.
    """
    try:
        return function(*given, **keywords)
    except OverflowError as error:
        fix = "an integer is too large for its dtype: use a float, float(n)"
        raise DimError(f"{what} was given {' and '.join(map(written, operands))}; {fix}.") from error
    except (TypeError, ValueError) as error:
        fix = _fix(what, operands, error)
        if fix is None:
            raise
        raise DimError(f"{what} was given {' and '.join(map(written, operands))}; {fix}.") from error


def _fix(what: str, operands: Sequence[Any], error: Exception) -> str | None:
    """Returns a fix for dtypes that an operation does not take; None where the error has another cause."""
    if isinstance(error, jax.errors.JAXTypeError | MeshlabError):
        return None
    dtypes = [x.dtype if hasattr(x, "dtype") else jnp.result_type(x) for x in operands]
    if any(jnp.issubdtype(dtype, jax.dtypes.extended) for dtype in dtypes):
        return _KEYS
    if not isinstance(error, TypeError):
        return None
    if what in _INTEGER_OPERATIONS:
        return "it takes booleans and integers: compare first, x > 0, or x.astype(ml.i32), say"
    if any(jnp.issubdtype(dtype, jnp.complexfloating) for dtype in dtypes):
        return "it takes no complex numbers: use their magnitudes, ml.abs(x), or a part, x.array.real"
    if any(jnp.issubdtype(dtype, jnp.bool_) for dtype in dtypes):
        return "it takes numbers: x.astype(ml.i32), say"
    return None


def promoted(what: str, arrays: Sequence[Any]) -> list[Any]:
    """Returns arrays and numbers as arrays of the dtype that they have together."""
    dtype = applied(what, jnp.result_type, arrays, arrays)
    return [applied(what, jnp.asarray, (array, dtype), (array,)) for array in arrays]
