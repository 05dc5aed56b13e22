"""Splits, joins and shifts dims, tags values and stops gradients: no arithmetic here.

    >>> import meshlab as ml
    >>> Head, Half = ml.dims(head=4, half=2)
    >>> first, second = ml.split(ml.tensor([0, 1, 2, 3], Head), Head, Half)
    >>> ml.concat((second, first), Half, Head)
    i32[head=4]([2 3 0 1])

A part of a dim is another dim, of another size and so of another name. A dim that is taken apart must be unsharded:
where a layout shards it, it is gathered first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..argument_checks import flag, numeric, several, whole_number
from ..errors import DimError, shown
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dims import Dim
from ..tensors.dtypes import promoted
from ..tensors.marks import mark_tag
from ..tensors.shift import shift_p
from ..tensors.tensor import Tensor
from .index import located, sized
from .resized import resized


def split(x: Tensor, dim: Dim | str, part: Dim) -> tuple[Any, ...]:
    """Cuts a dim into equal parts, in order.

    Args:
        x: [..., dim, ...].
        dim: what to cut.
        part: what each part is called; its size divides that of `dim`.

    Returns:
        One tensor for each part: the dims of `x` with `part` for `dim`.
    """
    array, axis = located("split", x, dim)
    sized("split", part)
    size = x.shape[axis]
    if size % part.size:
        raise DimError(
            f"split was asked to cut {x.dims[axis]} into parts of {part}; the size of a part must divide {size}."
        )
    dims = (*x.dims[:axis], part, *x.dims[axis + 1 :])
    starts = range(0, size, part.size)
    return tuple(
        resized("split", lax.slice_in_dim(array, at, at + part.size, axis=axis), x.dims, dims) for at in starts
    )


def concat(parts: Sequence[Tensor], part: Dim | str | Sequence[Dim | str], dim: Dim) -> Tensor:
    """Joins tensors along a dim.

    Args:
        parts: each [..., part, ...], with the same other dims in any order.
        part: what to join along; for tensors that call it differently, a sequence, one for each.
        dim: what the result calls it; its size is that of all the parts together.

    Returns:
        The dims of the first tensor with `dim` for `part`, of the dtype that all have together.

    Example:
        joined = ml.concat((x, skip), (Channels, Skipped), Joined)     # [batch, channels], [batch, skipped]
    """
    parts = several("concat", parts, "ml.concat((x, y), part, dim)")
    sized("concat", dim)
    arrays, first = [named.array_of("concat", x) for x in parts], parts[0].dims
    if len({array.dtype for array in arrays}) > 1:
        arrays = promoted("concat", arrays)
    along: list[Any] = list(part) if isinstance(part, tuple | list) else [part] * len(parts)
    if len(along) != len(parts):
        raise DimError(
            f"concat was given {len(parts)} tensors and {len(along)} dims to join along; it takes one dim for each"
            " tensor."
        )
    joined = [x.dims[dim_lists.find("concat", x.dims, one)] for x, one in zip(parts, along, strict=True)]
    for position, x in enumerate(parts):
        if set(x.dims) - {joined[position]} != set(first) - {joined[0]}:
            raise DimError(
                f"concat was given parts of different dims: part 0 has {dim_lists.show(first)}, "
                f"part {position} {dim_lists.show(x.dims)}. All must have the same dims, except the one they are "
                "joined along."
            )
    size = sum(one.size for one in joined)
    if size != dim.size:
        listed = f"{len(parts)} times {joined[0]}" if len(set(joined)) == 1 else dim_lists.show(joined)
        raise DimError(f"concat was asked to join {listed} into {dim}, whose size must be their sum, {size}.")
    axis = first.index(joined[0])
    orders = [(*first[:axis], one, *first[axis + 1 :]) for one in joined]
    arrays = [named.expand(array, x.dims, order) for array, x, order in zip(arrays, parts, orders, strict=True)]
    dims = dim_lists.distinct("The result of concat", (*first[:axis], dim, *first[axis + 1 :]))
    return named.result(lax.concatenate(arrays, axis), dims)


def stop_gradient(x: Any) -> Any:
    """Returns a tensor, or a tree of them, through which no gradient flows.

    Args:
        x: a tree of tensors and arrays of any dims.
    """
    numeric("stop_gradient", x)
    return lax.stop_gradient(x)


def tag(tree: Any, name: str) -> Any:
    """Returns the same values, known to layouts as the place `name`; so are their gradients.

    Args:
        tree: a tree of tensors and arrays of any dims.
        name: the place, `"residual"` for example: a layout then says how they are stored by
            `{"residual": {"seq": "model"}}`.

    Raises:
        DimError: the name is empty, has a `*`, `?` or `[`, or begins with `out/`.
    """
    if isinstance(tree, str) and not isinstance(name, str):
        raise DimError(f"tag was given {shown(tree)} first; the name comes last: ml.tag(x, {shown(tree)}).")
    if not isinstance(name, str) or not name.strip() or any(sign in name for sign in "*?["):
        raise DimError(
            f"tag was given the name {shown(name)}; a place must be a word without `*`, `?` and `[`: 'residual'."
        )
    if name.startswith("out/"):
        raise DimError(
            f"tag was given the name {shown(name)}; `out/` is for outputs: choose another, such as 'residual'."
        )
    numeric("tag", tree)
    return jax.tree.map(lambda array: mark_tag(jnp.asarray(array), name), tree)


def shift(x: Tensor, dim: Dim | str, offset: int, *, wrap: bool = False) -> Tensor:
    """Returns the tensor moved along a dim: element i comes to i + offset.

    Where the dim is sharded, only what crosses the edge of a shard is sent, to the neighbour that it belongs to.

    Args:
        x: [..., dim, ...].
        dim: what to shift along.
        offset: how far; negative towards the start.
        wrap: whether what leaves at one end comes in at the other; else zeros come in.

    Returns:
        The dims of `x`.
    """
    array, axis = located("shift", x, dim)
    offset, wrap = whole_number("shift", "offset", offset, error=DimError), flag("shift", "wrap", wrap, DimError)
    return named.result(shift_p.bind(array, axis=axis, offset=offset, wrap=wrap), x.dims)
