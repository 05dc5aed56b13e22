"""Merges several dims into one, and takes one apart: the reshapes that have a meaning.

    >>> import meshlab as ml
    >>> x = ml.tensor([[0, 1, 2], [3, 4, 5]], "rows", "cols")
    >>> ml.merge(x, ("rows", "cols"), "place")
    i32[place=6]([0 1 2 3 4 5])
    >>> ml.unmerge(ml.merge(x, ("rows", "cols"), "place"), "place", ml.dims(rows=2, cols=3)).dims == x.dims
    True

With names it is seldom needed: `ml.dot`, `ml.softmax` and reductions take several dims as they are, so attention over
the places of an image names rows and cols. It is for data that come merged, for patches, and for groups of channels.
The first dim listed counts slowest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jax import lax

from ..errors import DimError, shown
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dim_lists import Dims
from ..tensors.dims import Dim
from ..tensors.marks import mark_rename
from ..tensors.tensor import Tensor
from .index import sized


def merge(x: Tensor, dims: Sequence[Dim | str], merged: Dim | str) -> Tensor:
    """Makes one dim of several.

    Args:
        x: [..., dims].
        dims: at least two; the first counts slowest.
        merged: what they become; its size is their product.

    Returns:
        The dims of `x`, with `merged` where the first of those listed was.
    """
    array = named.array_of("merge", x)
    if not isinstance(dims, tuple | list) or len(dims) < 2:
        raise DimError(
            f"merge was given {shown(dims)}; it makes one dim of several: ml.merge(x, (Rows, Cols), 'place')."
        )
    parts = tuple(x.dims[axis] for axis in dim_lists.find_all("merge", x.dims, dims))
    size = math.prod(dim_lists.sizes(parts))
    result = merged if isinstance(merged, Dim) else Dim(merged, size)
    if result.size != size:
        raise DimError(
            f"merge was asked to make {result} of {dim_lists.show(parts)}, which have {size} positions together."
        )
    place = sum(dim not in parts for dim in x.dims[: x.dims.index(parts[0])])
    rest = tuple(dim for dim in x.dims if dim not in parts)
    array = named.expand(array, x.dims, (*rest[:place], *parts, *rest[place:]))
    wanted = dim_lists.distinct("The result of merge", (*rest[:place], result, *rest[place:]))
    return _result(lax.reshape(array, dim_lists.sizes(wanted)), wanted, {place: _only(parts)})


def unmerge(x: Tensor, dim: Dim | str, dims: Sequence[Dim]) -> Tensor:
    """Makes several dims of one: the inverse of `merge`.

    Args:
        x: [..., dim, ...].
        dim: what to take apart.
        dims: at least two, whose sizes multiply to that of `dim`; the first counts slowest.

    Returns:
        The dims of `x`, with `dims` where `dim` was.
    """
    array = named.array_of("unmerge", x)
    axis = dim_lists.find("unmerge", x.dims, dim)
    if not isinstance(dims, tuple | list) or len(dims) < 2:
        raise DimError(
            f"unmerge was given {shown(dims)}; it makes several dims of one: ml.unmerge(x, Place, (Rows, Cols))."
        )
    for part in dims:
        sized("unmerge", part)
    if math.prod(dim_lists.sizes(dims)) != x.shape[axis]:
        raise DimError(
            f"unmerge was asked to make {dim_lists.show(dims)} of {x.dims[axis]}; "
            f"together they have {math.prod(dim_lists.sizes(dims))} positions."
        )
    wanted = dim_lists.distinct("The result of unmerge", (*x.dims[:axis], *dims, *x.dims[axis + 1 :]))
    same = {axis + place: x.dims[axis] for place, part in enumerate(dims) if part == _only(dims)}
    return _result(lax.reshape(array, dim_lists.sizes(wanted)), wanted, same)


def _only(dims: Sequence[Dim]) -> Dim | None:
    """Returns the one dim that has more than one position, if there is one: merging others with it changes nothing."""
    long = [dim for dim in dims if dim.size > 1]
    return long[0] if len(long) == 1 else None


def _result(array: Any, wanted: Dims, same: Mapping[int, Dim | None]) -> Tensor:
    """Names the result; axes that are still what they were have been renamed."""
    before = tuple(same.get(axis) or dim for axis, dim in enumerate(wanted))
    if before != wanted:
        array = mark_rename(array, dim_lists.names(before), dim_lists.names(wanted))
    return named.result(array, wanted)
