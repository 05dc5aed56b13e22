"""Checks the arguments of public functions.

    count = whole_number("slice", "start", start, least=0)
    pad = flag("plan()", "pad", pad)

Each returns its argument in the one form that the code behind it knows, or refuses it, and names the function, the
argument, its value and what to give instead. `bool` is an `int` to Python, and a float or a text that looks like a
number is no number of anything here.
"""

from __future__ import annotations

import inspect
import math
import numbers
import operator
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .errors import DimError, MeshlabError, closest, shown

_DTYPES = "float32 float16 bfloat16 float64 int32 int16 int8 int64 uint32 uint16 uint8 bool".split()


def is_whole(value: Any) -> bool:
    """Says whether something is an integer, and no truth value."""
    if isinstance(value, bool | np.bool_ | Tracer) or not hasattr(value, "__index__"):
        return False
    try:
        operator.index(value)
    except TypeError:  # an array of several numbers has `__index__` too
        return False
    return True


def whole_number(what: str, name: str, value: Any, least: int | None = None, error: type = MeshlabError) -> int:
    """Returns an integer; refuses anything else, and one below `least`."""
    if not is_whole(value) or (least is not None and operator.index(value) < least):
        wanted = "an integer" if least is None else f"an integer of at least {least}"
        raise error(f"{what} was given the {name} {shown(value)}; it must be {wanted}.")
    return operator.index(value)


def flag(what: str, name: str, value: Any, error: type = MeshlabError) -> bool:
    """Returns True or False; refuses anything else."""
    if not isinstance(value, bool | np.bool_):
        raise error(f"{what} was given {name}={shown(value)}; it must be True or False.")
    return bool(value)


def number(what: str, name: str, value: Any, error: type = DimError) -> Any:
    """Returns a number, or a scalar that is computed; refuses anything else, and nan."""
    is_scalar = hasattr(value, "dtype") and hasattr(value, "shape") and not value.shape
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (is_scalar or is_number) or (is_number and not isinstance(value, int) and math.isnan(value)):
        raise error(f"{what} was given the {name} {shown(value)}; it must be a number.")
    return value


def function(what: str, value: Any, instead: str, error: type = MeshlabError) -> Any:
    """Returns something that can be called; refuses anything else."""
    if not callable(value):
        raise error(f"{what} was given {shown(value)} for its function; write {instead}.")
    return value


def takes(what: str, value: Any, count: int, instead: str, error: type = MeshlabError):
    """Refuses a function that cannot be called with so many arguments."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # of what is not written in Python nothing is known before the call
        return
    try:
        signature.bind(*[None] * count)
    except TypeError:
        raise error(
            f"{what} was given a function of {signature}, and calls it with {count} argument{'s' * (count != 1)}:"
            f" {instead}."
        ) from None


def mapping(what: str, name: str, value: Any, instead: str, error: type = MeshlabError) -> Mapping[Any, Any]:
    """Returns a dict or its like; refuses anything else."""
    if not isinstance(value, Mapping):
        raise error(f"{what} was given {name}={shown(value)}; it must be a dict: {instead}.")
    return value


def several(what: str, values: Any, instead: str) -> tuple[Any, ...]:
    """Returns the members of a list or tuple; refuses anything else, and an empty one."""
    if not isinstance(values, tuple | list):
        raise DimError(f"{what} was given {shown(values)}; it takes a list or a tuple: {instead}.")
    if not values:
        raise DimError(f"{what} was given no tensors; it takes at least one: {instead}.")
    return tuple(values)


def known_dtype(dtype: Any) -> Any:
    """Returns a dtype that JAX knows; refuses anything else."""
    # The classes of NumPy have an attribute of that name that is no dtype.
    given = inner if isinstance(inner := getattr(dtype, "dtype", None), np.dtype) else dtype
    # Arrays and shapes have a dtype, and are none.
    is_array = given is inner and hasattr(dtype, "shape")
    try:
        known = None if given is None or is_array else jnp.dtype(given)
    except TypeError:
        known = None
    if known is None or not any(jnp.issubdtype(known, kind) for kind in (jnp.number, jnp.bool_)):
        raise DimError(
            f"{shown(dtype)} is not a dtype.{closest(given, _DTYPES)} Give ml.f32 or jnp.float32, for example."
        )
    return known


def flat(what: str, tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Any]:
    """Returns the leaves of a tree, and its structure; refuses a dict whose keys have no order."""
    try:
        return jax.tree.flatten(tree, is_leaf=is_leaf)
    except ValueError as error:
        raise DimError(disordered(what, error)) from error


def disordered(what: str, error: ValueError) -> str:
    """Returns the message for a tree whose keys do not compare."""
    return f"{what} has a dict whose keys have no order ({error}): use texts alone, or integers alone."


def numeric(what: str, tree: Any) -> None:
    """Refuses a tree with a leaf that is no array and no number."""
    for leaf in flat(what, tree)[0]:
        if not (isinstance(leaf, bool | int | float | complex) or hasattr(leaf, "dtype")):
            raise DimError(f"{what} was given {shown(leaf)}; it takes trees of tensors, arrays and numbers.")
