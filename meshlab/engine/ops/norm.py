"""Normalises to mean 0 and variance 1 over the dims listed.

    >>> import meshlab as ml
    >>> ml.normalize(ml.tensor([1.0, 3.0], "embed"), "embed")
    f32[embed=2]([-1.  1.])

Which normalisation of the literature it is, is said by the dims alone; scale and bias are arithmetic:

    ml.normalize(x, Embed) * scale + bias                      layer norm
    ml.normalize(x, Batch, Height, Width) * scale + bias       batch norm, as in training
    ml.normalize(x, Height, Width) * scale + bias              instance norm
    ml.normalize(ml.unmerge(x, Channels, (Groups, Within)), Height, Width, Within)     group norm

Means divide by the global size, so that a batch that is sharded is normalised as a whole; they are taken in 32 bits,
whatever the tensor has. For use after training, batch norm keeps running moments, and normalises by them:

    running = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, running, ml.moments(x, Batch, Height, Width))
    x = ml.normalize(x, moments=running) * scale + bias
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from ..argument_checks import number
from ..errors import DimError, shown
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dims import Dim
from ..tensors.dtypes import floats
from ..tensors.tensor import Tensor
from .elementwise import rsqrt, square

Moments = tuple[Any, Any]


def moments(x: Tensor, *dims: Dim | str) -> Moments:
    """Returns the mean and the variance over the dims listed, or over all.

    Args:
        x: [..., dims].
        dims: what to average over.

    Returns:
        Two of the other dims of `x`, in 32 bits or more.
    """
    named.array_of("moments", x)
    dim_lists.find_all("moments", x.dims, dims)
    return _averages(x, dims)


def normalize(x: Tensor, *dims: Dim | str, moments: Moments | None = None, epsilon: float = 1e-5) -> Tensor:
    """Subtracts the mean and divides by the square root of the variance, over the dims listed, or over all.

    Args:
        x: [..., dims].
        dims: what to normalise over.
        moments: mean and variance to use instead of the moments of `x`.
        epsilon: what is added to the variance.

    Returns:
        The dims and the dtype of `x`.

    Raises:
        DimError: `x` is not of floats, or both dims and moments are given.
    """
    named.array_of("normalize", x)
    floats("normalize", x)
    dim_lists.find_all("normalize", x.dims, dims)
    if isinstance(number("normalize", "epsilon", epsilon), int | float) and epsilon < 0:
        raise DimError(f"normalize was given the epsilon {epsilon}; it must be 0 or more.")
    if moments is not None and dims:
        raise DimError("normalize was given dims and moments; if you give the moments, give no dims.")
    if moments is not None and (not isinstance(moments, tuple | list) or len(moments) != 2):
        raise DimError(f"normalize was given the moments {shown(moments)}; they must be a pair, as ml.moments returns.")
    mean, variance = _averages(x, dims) if moments is None else moments
    for name, moment in (("mean", mean), ("variance", variance)):
        named.operand(f"the {name} of normalize", moment)
    return _in((_wide(x) - mean) * rsqrt(named.elementwise("normalize", jnp.add, variance, epsilon)), x.dtype)


def _averages(x: Tensor, dims: tuple[Dim | str, ...]) -> Moments:
    mean = _wide(x).mean(*dims)
    return mean, square(_wide(x) - mean).mean(*dims)


def _wide(x: Tensor) -> Tensor:
    """Returns the tensor in 32 bits or more: a sum of many numbers needs them."""
    return _in(x, jnp.promote_types(x.dtype, jnp.float32))


def _in(x: Tensor, dtype: Any) -> Tensor:
    return x if x.dtype == dtype else x.astype(dtype)
