"""Counts positions along a dim, and looks up rows of a table by them.

    >>> import meshlab as ml
    >>> Vocab, Embed = ml.dims(vocab=3, embed=2)
    >>> table = ml.tensor([[0, 1], [2, 3], [4, 5]], Vocab, Embed)
    >>> ml.take(table, ml.tensor([2, 0], "seq"), Vocab)
    i32[seq=2, embed=2]([[4 5]
     [0 1]])

There is no indexing by position: `take` looks up by a tensor of integers, and `arange` compares with positions, as in
`ml.where(ml.arange(Seq) >= ml.arange(Kv), scores, -1e9)`.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from ..argument_checks import known_dtype
from ..errors import DimError, shown
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dims import Dim
from ..tensors.dtypes import applied, short_name
from ..tensors.tensor import Tensor


def arange(dim: Dim, dtype: Any = jnp.int32) -> Tensor:
    """Returns 0, 1, 2, ... along a dim.

    Args:
        dim: a `Dim`; a name alone has no size.
        dtype: `jnp.int32` or `ml.i32`, for example.

    Returns:
        [dim].

    Raises:
        DimError: the dtype does not hold all positions.
    """
    sized("arange", dim)
    kind = known_dtype(dtype)
    if kind == jnp.bool_:
        raise DimError("arange was given the dtype bool, which does not count: leave it out, or give ml.i32, say.")
    if jnp.issubdtype(kind, jnp.integer) and dim.size - 1 > jnp.iinfo(kind).max:
        raise DimError(
            f"arange was given {dim} and the dtype {kind}, which counts up to {jnp.iinfo(kind).max:,}: give a larger"
            " one (ml.i32, ml.u32), or floats."
        )
    return named.result(lax.iota(kind, dim.size), (dim,))


def one_hot(ids: Any, dim: Dim, dtype: Any = jnp.float32) -> Tensor:
    """Returns 1 where the position along a new dim is the integer, 0 elsewhere.

    Args:
        ids: [...], integers.
        dim: the new dim.
        dtype: of the result.

    Returns:
        [..., dim].
    """
    sized("one_hot", dim)
    array, dims = _integers("one_hot", ids)
    wanted = dim_lists.distinct("The result of one_hot", (*dims, dim))
    if dim.size - 1 > jnp.iinfo(array.dtype).max:  # positions are counted in the dtype of the ids
        array = lax.convert_element_type(array, jnp.int32)
    positions = lax.broadcasted_iota(array.dtype, dim_lists.sizes(wanted), len(dims))
    spread = lax.broadcast_in_dim(array, dim_lists.sizes(wanted), tuple(range(len(dims))))
    return named.result(lax.convert_element_type(lax.eq(spread, positions), known_dtype(dtype)), wanted)


def take(table: Tensor, ids: Any, dim: Dim | str) -> Any:
    """Looks up rows of a table, by one gather: an embedding.

    Args:
        table: [..., dim, ...].
        ids: integers, of dims that `table` does not have; those out of range take the nearest row.
        dim: what the integers count along.

    Returns:
        The dims of `ids`, then the other dims of `table`.

    Example:
        x = ml.take(table, tokens, Vocab)     # table: [vocab, embed], tokens: [batch, seq] -> [batch, seq, embed]
    """
    array, axis = located("take", table, dim)
    indices, dims = _integers("take", ids)
    shared = [dim for dim in dims if dim.name in dim_lists.names(table.dims)]
    if shared:
        raise DimError(
            f"take was given a table of {dim_lists.show(table.dims)} and ids of {dim_lists.show(dims)}, which share "
            f"{dim_lists.show(shared)}. Rename one, take under ml.vmap, or use ml.one_hot and ml.dot."
        )
    rest = dim_lists.without(table.dims, [axis])
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(len(dims), len(dims) + len(rest))),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    slice_sizes = tuple(1 if place == axis else size for place, size in enumerate(table.shape))
    starts = lax.expand_dims(indices, (indices.ndim,))
    return named.result(lax.gather(array, starts, numbers, slice_sizes, mode="clip"), dims + rest)


def located(what: str, x: Tensor, dim: Dim | str) -> tuple[Any, int]:
    """Returns the array of a tensor, and the axis that a dim of it has there."""
    array = named.array_of(what, x)
    return array, dim_lists.find(what, x.dims, dim)


def sized(what: str, dim: Any) -> None:
    """Refuses a bare name where a size is needed."""
    if not isinstance(dim, Dim):
        raise DimError(f"{what} was given {shown(dim)}; it needs a dim with a size, such as ml.Dim('seq', 128).")


def _integers(what: str, ids: Any) -> tuple[Any, dim_lists.Dims]:
    """Returns the array and the dims of a tensor of integers, or of an integer."""
    array, dims = named.operand(what, ids, "ids")
    array = applied(what, jnp.asarray, (array,), (ids,))
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise DimError(
            f"{what} was given {short_name(array.dtype)}{dim_lists.show(dims)} to count with; it takes integers."
        )
    return array, dims
