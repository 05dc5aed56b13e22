"""Draws random numbers along named dims, each from a key.

    >>> import jax, meshlab as ml
    >>> Batch, Hidden = ml.dims(batch=2, hidden=3)
    >>> ml.uniform(jax.random.key(0), Batch, Hidden).dims == (Batch, Hidden)
    True

They are drawn by `jax.random`, once, for the global shape: the numbers depend on the key and the sizes, and never on a
layout. Keys are JAX's own, to be split with `jax.random.split`; there is no state.
"""

from __future__ import annotations

import numbers
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from ..argument_checks import known_dtype, number
from ..errors import DimError, shown
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dims import Dim
from ..tensors.dtypes import floats
from ..tensors.tensor import Tensor
from .elementwise import where
from .index import sized
from .order import argmax


def normal(key: Any, *dims: Dim, dtype: Any = jnp.float32) -> Any:
    """Draws numbers of mean 0 and variance 1.

    Args:
        key: a key of `jax.random`.
        dims: of the result.
        dtype: `jnp.float32` or `ml.f32`, for example.

    Returns:
        [dims]; a scalar without any.
    """
    shape = _shape("normal", key, dims)
    return named.result(jax.random.normal(key, shape, _floating("normal", dtype)), dims)


def uniform(key: Any, *dims: Dim, low: float = 0.0, high: float = 1.0, dtype: Any = jnp.float32) -> Any:
    """Draws numbers that are uniform over an interval.

    Args:
        key: a key of `jax.random`.
        dims: of the result.
        low: the least that may come.
        high: what they stay below.
        dtype: `jnp.float32` or `ml.f32`, for example.

    Returns:
        [dims]; a scalar without any.

    Raises:
        DimError: `low` is above `high`, or the dtype does not hold them or their distance.
    """
    shape = _shape("uniform", key, dims)
    number("uniform", "low", low)
    number("uniform", "high", high)
    kind = _floating("uniform", dtype, jnp.floating)
    if isinstance(low, numbers.Real) and isinstance(high, numbers.Real):
        _interval(low, high, kind)
    return named.result(jax.random.uniform(key, shape, kind, low, high), dims)


def dropout(key: Any, x: Tensor, rate: float, *shared: Dim | str) -> Tensor:
    """Sets a share of the elements to 0, and scales the others so that the expected mean stays.

    Args:
        key: a key of `jax.random`.
        x: [...].
        rate: the share that is lost, from 0 to below 1.
        shared: dims along which one draw serves all: with the positions of an image, whole channels are lost.

    Returns:
        The dims of `x`.
    """
    _keyed("dropout", key)
    named.array_of("dropout", x)
    if not isinstance(number("dropout", "rate", rate), Tracer) and not 0 <= rate < 1:
        raise DimError(
            f"dropout was given the rate {shown(rate)}; it is the share of elements to drop, from 0 to below 1."
        )
    dims = dim_lists.without(x.dims, dim_lists.find_all("dropout", x.dims, shared) if shared else ())
    mask = named.result(jax.random.bernoulli(key, 1.0 - rate, _shape("dropout", key, dims)), dims)
    return where(mask, x * (1 / (1 - rate)), 0.0)


def categorical(key: Any, logits: Tensor, classes: Dim | str) -> Any:
    """Draws a class, each with the probability `softmax(logits, classes)`; `logits / temperature` draws more evenly.

    Args:
        key: a key of `jax.random`.
        logits: [..., classes].
        classes: what to draw from.

    Returns:
        32-bit integers of the other dims of `logits`.
    """
    _keyed("categorical", key)
    named.array_of("categorical", logits)
    floats("categorical", logits, jnp.floating)
    dim_lists.find("categorical", logits.dims, classes)
    noise = jax.random.gumbel(key, _shape("categorical", key, logits.dims), logits.dtype)
    return argmax(logits + named.result(noise, logits.dims), classes)


def _interval(low: Any, high: Any, dtype: Any):
    """Refuses an interval that is empty, infinite, or longer than the dtype holds."""
    if low > high:
        raise DimError(f"uniform was given low={shown(low)} and high={shown(high)}; low must be below high.")
    most = float(jnp.finfo(dtype).max)
    if not (-most <= low and high <= most and float(high) - float(low) <= most):
        raise DimError(
            f"uniform was given low={shown(low)} and high={shown(high)}; both must be finite, and at most as far apart"
            f" as {dtype} allows: {most:.3g}."
        )


def _floating(what: str, dtype: Any, kind: Any = jnp.inexact) -> Any:
    """Returns a dtype; refuses one that is not of floats."""
    known = known_dtype(dtype)
    if not jnp.issubdtype(known, kind):
        raise DimError(f"{what} was given the dtype {known}; it draws floats: give ml.f32, for example.")
    return known


def _shape(what: str, key: Any, dims: tuple[Dim, ...]) -> tuple[int, ...]:
    """Returns the shape to draw, after a look at the key."""
    _keyed(what, key)
    for dim in dims:
        sized(what, dim)
    return dim_lists.sizes(dim_lists.distinct(f"The result of {what}", dims))


def _keyed(what: str, key: Any):
    """Refuses anything but one key."""
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", ())
    new = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    # Before keys had a dtype of their own they were arrays of two or four words.
    old = dtype == jnp.uint32 and not isinstance(key, Tensor) and shape[-1:] in ((2,), (4,))
    if (new and shape) or (old and len(shape) > 1):
        raise DimError(
            f"{what} was given keys of shape {tuple(shape if new else shape[:-1])}, and draws with one. Name their"
            f' axis, keys = ml.tensor(keys, "draw"), and draw with each of them: '
            f'ml.vmap(lambda key: ml.{what}(key, …), "draw")(keys).'
        )
    if not (new or old):
        raise DimError(f"{what} was given {shown(key)} for a key; the first argument is a key, jax.random.key(0).")
