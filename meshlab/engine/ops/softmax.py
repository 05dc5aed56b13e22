"""Normalises exponentials along named dims, and makes a loss of them.

    >>> import meshlab as ml
    >>> ml.softmax(ml.tensor([0.0, 0.0], "classes"), "classes")
    f32[classes=2]([0.5 0.5])

All subtract the maximum first, so that nothing overflows; the maximum has no gradient, since the result does not
depend on it. Written in plain reductions, they may be sharded along the very dim that they use up: each device then
reduces its part, and only the reduced values are communicated.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from ..errors import DimError
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dims import Dim
from ..tensors.dtypes import numbers, short_name
from ..tensors.tensor import Tensor
from .arrange import stop_gradient
from .elementwise import exp, log, where


def softmax(x: Tensor, *dims: Dim | str) -> Tensor:
    """Returns exponentials that sum to 1 over the dims listed, or over all.

    Args:
        x: [..., dims].
        dims: what to normalise over.

    Returns:
        The dims of `x`.
    """
    weights = exp(x - _largest("softmax", x, dims))
    return weights / weights.sum(*dims)


def log_softmax(x: Tensor, *dims: Dim | str) -> Tensor:
    """Returns the logarithm of `softmax(x, *dims)`, without forming it.

    Args:
        x: [..., dims].
        dims: what to normalise over.

    Returns:
        The dims of `x`.
    """
    shifted = x - _largest("log_softmax", x, dims)
    return shifted - log(exp(shifted).sum(*dims))


def logsumexp(x: Tensor, *dims: Dim | str) -> Any:
    """Returns the logarithm of the sum of exponentials over the dims listed, or over all.

    Args:
        x: [..., dims].
        dims: what to sum over.

    Returns:
        The other dims of `x`.
    """
    largest = _largest("logsumexp", x, dims)
    return largest + log(exp(x - largest).sum(*dims))


def cross_entropy(logits: Tensor, labels: Tensor, classes: Dim | str) -> Any:
    """Returns -log softmax(logits) at the labels.

    The label's logit is picked by comparing each class with the label and summing, not by a gather: that stays a local
    operation where the classes are sharded.

    Args:
        logits: [..., classes].
        labels: [...], integers below the size of `classes`; its dims are among the dims of `logits`.
        classes: what to sum over.

    Returns:
        The dims of `logits` without `classes`.

    Example:
        loss = ml.cross_entropy(logits, labels, Classes).mean()
    """
    named.array_of("cross_entropy", logits)
    numbers("cross_entropy", logits)
    axis = dim_lists.find("cross_entropy", logits.dims, classes)
    classes = logits.dims[axis]
    label_array, label_dims = named.operand("cross_entropy", labels, "labels")
    extra = [dim for dim in label_dims if dim == classes or dim not in logits.dims]
    if extra:
        raise DimError(
            f"cross_entropy was given labels of {dim_lists.show(label_dims)} for logits of "
            f"{dim_lists.show(logits.dims)}: labels must have the dims of logits without `{classes.name}`, so not "
            f"{dim_lists.show(extra)}."
        )
    dtype = jnp.result_type(label_array)
    if not jnp.issubdtype(dtype, jnp.integer):
        raise DimError(
            f"cross_entropy was given labels of {short_name(dtype)}{dim_lists.show(label_dims)}; "
            "they must be integers, the position of the right class."
        )
    position = named.result(lax.broadcasted_iota(jnp.int32, logits.shape, axis), logits.dims)
    picked = where(position == labels, logits, 0.0).sum(classes)
    return logsumexp(logits, classes) - picked


def _largest(what: str, x: Tensor, dims: tuple[Dim | str, ...]) -> Any:
    """Returns the maximum over the dims listed, or over all, through which no gradient flows."""
    named.array_of(what, x)
    numbers(what, x)
    dim_lists.find_all(what, x.dims, dims)
    return stop_gradient(x).max(*dims)
