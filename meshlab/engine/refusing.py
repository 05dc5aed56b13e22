"""What cannot be traced, and how that is told: with the user's own line, and what to write instead.

    `step` could not be traced: TracerBoolConversionError: Attempted boolean conversion of traced array …
    It was raised at train.py:12, `if loss > 0:`. What depends on data is chosen by jnp.where or jax.lax.cond.

What a function returns must be arrays alone, and what it computes with must be its own: a value that another trace left
behind has no number here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from .errors import TraceError
from .source import Source, source_of, source_of_error
from .trees import is_tensor, placed_leaves

_SIZES = "The sizes of all arrays must be known before: give size=, or mask by jnp.where"
# What to write instead, by JAX's own errors; a derived class stands before its base.
_FIXES = (
    (jax.errors.TracerBoolConversionError, "What depends on data is chosen by jnp.where or jax.lax.cond"),
    (jax.errors.NonConcreteBooleanIndexError, _SIZES),
    (jax.errors.TracerIntegerConversionError, _SIZES),
    (jax.errors.TracerArrayConversionError, "Use jax.numpy where NumPy computes with what is traced"),
    (jax.errors.ConcretizationTypeError, _SIZES),
)


def called(fn: Callable) -> str:
    """The name of a function, for messages."""
    return getattr(fn, "__name__", type(fn).__name__)


def is_array(leaf: Any) -> bool:
    """Says whether a leaf is a number, or has a shape and a dtype that JAX knows."""
    if isinstance(leaf, bool | int | float | complex):
        return True
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return False
    kinds = (jnp.number, jnp.bool_, jax.dtypes.extended)
    return any(jnp.issubdtype(leaf.dtype, kind) for kind in kinds)


def told(name: str, error: Exception) -> str:
    """What a function raised while it was traced, in words."""
    source = source_of_error(error)
    fix = next((f" {fix}." for kind, fix in _FIXES if isinstance(error, kind)), "")
    where = f"\nIt was raised at {source}: `{source.code}`." if source else ""
    return f"`{name}` could not be traced: {type(error).__name__}: {str(error).rstrip()}{where}{fix}"


def admitted_outputs(fn: Callable) -> Callable:
    """The same function, that refuses to return what is no array, and says where that stands in its output."""

    @functools.wraps(fn)
    def checked(*args: Any) -> Any:
        result = fn(*args)
        leaves = placed_leaves("out", result)
        wrong = [(place, leaf) for place, leaf in leaves if not (is_tensor(leaf) or is_array(leaf))]
        if wrong:
            found = "; ".join(f"{leaf!r} ({type(leaf).__name__}) at `{place}`" for place, leaf in wrong)
            code = getattr(fn, "__code__", None)
            where = f" ({Source(code.co_filename, code.co_firstlineno, called(fn))})" if code else ""
            raise TraceError(f"`{called(fn)}`{where} returns {found}: return arrays alone.")
        return result

    return checked


def refuse_leaks(name: str, closed: Any):
    """Refuses values of another trace: what an earlier call left behind, or the function around has.

    Raises:
        TraceError: there is one.
    """
    for variable, constant in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        if isinstance(constant, Tracer):
            reading = (e for e in closed.jaxpr.eqns if any(i is variable for i in e.invars))
            where = next((str(s) for e in reading if (s := source_of(e))), "an unknown line")
            raise TraceError(
                f"`{name}` computes with {variable.aval.str_short()} of another trace, at {where}: an earlier call left"
                " it behind, or it belongs to the function around. Make it an argument."
            )
