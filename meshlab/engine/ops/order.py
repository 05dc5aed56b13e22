"""Sums and sorts along a dim, and finds its largest elements: operations for which order counts.

>>> import meshlab as ml
>>> x = ml.tensor([3.0, 1.0, 2.0], "seq")
>>> ml.cumsum(x, "seq")
f32[seq=3]([3. 4. 6.])
>>> ml.top_k(x, "seq", ml.Dim("best", 2))
(f32[best=2]([3. 2.]), i32[best=2]([0 2]))
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from ..errors import DimError
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dims import Dim
from ..tensors.dtypes import applied, numbers, ordered
from ..tensors.tensor import Tensor
from .index import located, sized


def cumsum(x: Tensor, dim: Dim | str) -> Tensor:
    """Returns running sums along a dim, each with its own element.

    Args:
        x: [..., dim, ...].
        dim: what to sum along.

    Returns:
        The dims of `x`.
    """
    array, axis = located("cumsum", x, dim)
    numbers("cumsum", x)
    return named.result(lax.cumsum(array, axis), x.dims)


def sort(x: Tensor, dim: Dim | str) -> Tensor:
    """Returns the elements in ascending order along a dim.

    Args:
        x: [..., dim, ...].
        dim: what to sort along.

    Returns:
        The dims of `x`.
    """
    array, axis = located("sort", x, dim)
    return named.result(applied("sort", lax.sort, (array,), (x,), dimension=axis), x.dims)


def argmax(x: Tensor, dim: Dim | str) -> Any:
    """Returns where along a dim the largest element stands, the first of several.

    Args:
        x: [..., dim, ...].
        dim: what to search along.

    Returns:
        32-bit integers of the other dims of `x`.
    """
    array, axis = located("argmax", x, dim)
    ordered("argmax", x)
    return named.result(lax.argmax(array, axis, jnp.int32), dim_lists.without(x.dims, [axis]))


def top_k(x: Tensor, dim: Dim | str, best: Dim) -> tuple[Tensor, Tensor]:
    """Returns the largest elements along a dim, and where they stand.

    Args:
        x: [..., dim, ...].
        dim: what to search along.
        best: the dim of the result; its size is how many are wanted.

    Returns:
        The values, largest first, and their 32-bit positions: the dims of `x` with `best` for `dim`.
    """
    array, axis = located("top_k", x, dim)
    ordered("top_k", x)
    sized("top_k", best)
    if best.size > x.shape[axis]:
        raise DimError(f"top_k was asked for {best} of {x.dims[axis]}; the dim has fewer elements.")
    dims = dim_lists.distinct("The result of top_k", (*x.dims[:axis], best, *x.dims[axis + 1 :]))
    values, positions = lax.top_k(array, best.size, axis=axis)
    return named.result(values, dims), named.result(positions, dims)
