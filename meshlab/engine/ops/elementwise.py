"""Applies functions to each element, and chooses between elements: no dim is used up.

    >>> import meshlab as ml
    >>> x = ml.tensor([-1.0, 2.0], "hidden")
    >>> ml.relu(x)
    f32[hidden=2]([0. 2.])
    >>> ml.where(x > 0, x, 0.5)
    f32[hidden=2]([0.5 2. ])

Operands broadcast by name; numbers go without names. What is not here is a line away: an operation that this module
lacks is arithmetic on tensors, or the function of `jax.numpy` on `.array` and `ml.tensor` around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..argument_checks import number
from ..errors import DimError, shown
from ..tensors import tensor as named


def _unary(name: str, function: Callable[[Any], Any], summary: str) -> Callable[[Any], Any]:
    """Makes the named form of a function of one array."""

    def apply(x: Any) -> Any:
        return named.elementwise(name, function, x)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{summary}\n\nArgs:\n    x: a tensor of any dims, or a number.\n\nReturns:\n    The same dims."
    return apply


def _of_floats(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Makes a function of floats alone take integers and booleans, as those of `jax.numpy` do."""

    def apply(x: Any) -> Any:
        floating = jnp.issubdtype(jnp.result_type(x), jnp.inexact)
        return function(x if floating else lax.convert_element_type(x, float))

    return apply


abs = _unary("abs", jnp.abs, "Returns the magnitude of each element.")
cos = _unary("cos", jnp.cos, "Returns the cosine of each element.")
elu = _unary("elu", jax.nn.elu, "Returns each element where it is above 0, and exp(x) - 1 elsewhere.")
exp = _unary("exp", jnp.exp, "Returns e to the power of each element.")
gelu = _unary("gelu", jax.nn.gelu, "Returns the Gaussian error linear unit of each element, by its tanh form.")
log = _unary("log", jnp.log, "Returns the natural logarithm of each element.")
relu = _unary("relu", jax.nn.relu, "Returns the larger of each element and 0.")
rsqrt = _unary("rsqrt", _of_floats(lax.rsqrt), "Returns one over the square root of each element.")
selu = _unary("selu", jax.nn.selu, "Returns the scaled exponential linear unit of each element.")
sigmoid = _unary("sigmoid", _of_floats(lax.logistic), "Returns 1 / (1 + exp(-x)) of each element.")
sign = _unary("sign", jnp.sign, "Returns -1, 0 or 1, the sign of each element.")
silu = _unary("silu", _of_floats(lambda x: x * lax.logistic(x)), "Returns x * sigmoid(x) of each element.")
sin = _unary("sin", jnp.sin, "Returns the sine of each element.")
softplus = _unary("softplus", jax.nn.softplus, "Returns log(1 + exp(x)) of each element, without overflow.")
sqrt = _unary("sqrt", jnp.sqrt, "Returns the square root of each element.")
square = _unary("square", jnp.square, "Returns the square of each element.")
tanh = _unary("tanh", jnp.tanh, "Returns the hyperbolic tangent of each element.")


def leaky_relu(x: Any, slope: float = 0.01) -> Any:
    """Returns each element, and `slope` times those below 0.

    Args:
        x: a tensor of any dims, or a number.
        slope: what they are multiplied by.

    Returns:
        The same dims.
    """
    number("leaky_relu", "slope", slope)
    return named.elementwise("leaky_relu", lambda x: _select(x >= 0, x, x * slope), x)


def maximum(x: Any, y: Any) -> Any:
    """Returns the larger of two tensors, element by element.

    Args:
        x: a tensor or a number.
        y: a tensor or a number; the two broadcast by name.
    """
    return named.elementwise("maximum", jnp.maximum, x, y)


def minimum(x: Any, y: Any) -> Any:
    """Returns the smaller of two tensors, element by element.

    Args:
        x: a tensor or a number.
        y: a tensor or a number; the two broadcast by name.
    """
    return named.elementwise("minimum", jnp.minimum, x, y)


def where(condition: Any, x: Any, y: Any) -> Any:
    """Returns `x` where the condition holds and `y` elsewhere.

    Args:
        condition: a tensor of booleans, such as `scores > 0`.
        x: a tensor or a number.
        y: a tensor or a number; the three broadcast by name.
    """
    if jnp.result_type(named.operand("where", condition)[0]) != jnp.bool_:
        raise DimError(f"where was given {shown(condition)}; the condition must be bool: ml.where(x > 0, x, 0.0), say.")
    return named.elementwise("where", _select, condition, x, y)


def _select(condition: Any, x: Any, y: Any) -> Any:
    """Selects as `jnp.where` does, without the nested call that that leaves in a jaxpr."""
    dtype = jnp.result_type(x, y)
    shape = np.shape(condition) or np.shape(x) or np.shape(y)
    # A scalar has no axes to lay out, so it is the only operand that still has to be spread.
    condition, x, y = (
        part if np.shape(part) else lax.broadcast(part, shape)
        for part in (jnp.asarray(condition, bool), jnp.asarray(x, dtype), jnp.asarray(y, dtype))
    )
    return lax.select(condition, x, y)
