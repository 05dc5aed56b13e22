"""Writes values as Python: numbers with their dtypes, the parameters of primitives, constant arrays.

number(np.float32(0.1))       0.1
literal((("model",), 0))      (("model",), 0)
constant(np.zeros(8))         np.full((8,), 0.0, jnp.float32)
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..jax_compat import setting
from .expressions import Expression, call, keyword, sequence, text

# Elements of a constant array that is written out.
_MOST = 1024


class Unwritable(Exception):
    """Something for which Python and JAX have no public word."""


def dtype_word(dtype: Any) -> str:
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        raise Unwritable(f"the dtype {dtype}")
    name = np.dtype(dtype).name
    return "jnp.bool_" if name == "bool" else f"jnp.{name}"


def number(value: Any) -> Expression:
    """Returns a scalar: as Python's number, and with its dtype."""
    array = np.asarray(value, getattr(value, "dtype", None) or jax.dtypes.result_type(value))
    if array.dtype.kind in "biu":
        bare = str(array.item())
    elif array.dtype.kind == "c":
        bare = repr(array.item())
    else:
        # The shortest text that is this number in 32 bits is this number in fewer bits too.
        exact = array if array.dtype == np.float64 else array.astype(np.float32)
        bare = str(exact[()]).replace("e+", "e").replace("inf", "jnp.inf").replace("nan", "jnp.nan")
        bare = bare if any(mark in bare for mark in ".en") else f"{bare}.0"
    plain = array.dtype.name in ("float32", "int32", "bool") and not setting("jax_enable_x64")
    return text(bare, bare if plain else f"{dtype_word(array.dtype)}({bare})")


def literal(value: Any) -> Expression:
    """Returns a parameter as Python."""
    if value is None or isinstance(value, bool | int | float | str):
        return text(f'"{value}"' if isinstance(value, str) else repr(value))
    if isinstance(value, lax.GatherScatterMode) and hasattr(value, "name"):
        names = {"CLIP": "clip", "FILL_OR_DROP": "fill", "PROMISE_IN_BOUNDS": "promise_in_bounds"}
        return text(f'"{names[value.name]}"')
    if isinstance(value, Enum):
        return text(f"lax.{type(value).__name__}.{value.name}")
    if isinstance(value, np.integer | np.bool_):
        return text(repr(value.item()))
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return text(dtype_word(value))
    if isinstance(value, lax.ConvDimensionNumbers):
        return sequence(*map(literal, _of_convolution(value)))
    if hasattr(value, "_fields") and hasattr(lax, type(value).__name__):
        return call(f"lax.{type(value).__name__}", *_fields(value))
    if isinstance(value, tuple | list):
        return sequence(*map(literal, value))
    if isinstance(value, np.ndarray) and not value.ndim:
        return literal(value.item())
    raise Unwritable(f"a parameter of type {type(value).__name__}")


def _fields(value: Any) -> list[Expression]:
    """Returns the fields of a named tuple, but for those that are as they are by default."""
    default = value._field_defaults
    pairs = ((name, getattr(value, name)) for name in value._fields)
    return [keyword(name, literal(each)) for name, each in pairs if name not in default or default[name] != each]


def _of_convolution(numbers: Any) -> Iterator[str]:
    """Yields the axes of a convolution's image, window and result, in letters: "NHWC", "HWIO", "NHWC"."""
    for spec, first in ((numbers.lhs_spec, "NC"), (numbers.rhs_spec, "OI"), (numbers.out_spec, "NC")):
        letters = dict(zip(spec, (*first, *"HWDTXYZ"), strict=False))
        yield "".join(letters[axis] for axis in range(len(spec)))


def constant(array: Any) -> Expression:
    """Returns an array that a function closes over."""
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        raise Unwritable("a PRNG key that the function closes over: pass it as an argument")
    plain = np.asarray(array)
    dtype = text(dtype_word(plain.dtype))
    if plain.size and (plain == plain.flat[0]).all():
        return call("np.full", literal(plain.shape), text(number(plain.flat[0]).text), dtype)
    if plain.size > _MOST:
        raise Unwritable(f"an array of shape {plain.shape} that the function closes over: pass it as an argument")
    return call("np.array", _nested(plain), dtype)


def _nested(array: np.ndarray) -> Expression:
    if not array.ndim:
        return text(number(array).text)
    items = tuple(map(_nested, array))
    return Expression(f"[{', '.join(item.text for item in items)}]", opening="[", items=items, closing="]")
