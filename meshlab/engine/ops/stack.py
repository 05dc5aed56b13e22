"""Slices and pads a dim, and stacks tensors along a new one.

    >>> import meshlab as ml
    >>> x = ml.tensor([1, 2, 3, 4], "seq")
    >>> ml.slice(x, "seq", ml.Dim("last", 2), start=2)
    i32[last=2]([3 4])
    >>> ml.pad(x, "seq", ml.Dim("padded", 6), before=1)
    i32[padded=6]([0 1 2 3 4 0])
    >>> ml.stack((x, x), "copy").dims
    (Dim(name='copy', size=2), Dim(name='seq', size=4))

What has another size is another dim, so each takes the dim that it makes. `ml.take` looks up positions that are only
known at run time; `ml.split` and `ml.concat` cut a dim into parts and join them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..argument_checks import number, several, whole_number
from ..errors import DimError
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dims import Dim
from ..tensors.dtypes import applied, holding, promoted
from ..tensors.tensor import Tensor
from .index import located, sized
from .resized import resized


def slice(x: Tensor, dim: Dim | str, part: Dim, *, start: int = 0, step: int = 1) -> Tensor:
    """Returns some positions of a dim: `start`, `start + step`, and so on.

    Args:
        x: [..., dim, ...].
        dim: what to cut.
        part: what is left of it; its size says how many.
        start: the first position.
        step: from each to the next.

    Returns:
        The dims of `x` with `part` for `dim`.
    """
    array, axis = located("slice", x, dim)
    sized("slice", part)
    first, step = whole_number("slice", "start", start, 0, DimError), whole_number("slice", "step", step, 1, DimError)
    last = first + (part.size - 1) * step
    if last >= x.shape[axis]:
        raise DimError(
            f"slice was asked for {part} of {x.dims[axis]} from {first} in steps of {step}: the last of them would be "
            f"position {last}, and there are {x.shape[axis]}."
        )
    cut = lax.slice_in_dim(array, first, last + 1, step, axis)
    return resized("slice", cut, x.dims, (*x.dims[:axis], part, *x.dims[axis + 1 :]))


def pad(x: Tensor, dim: Dim | str, padded: Dim, *, before: int = 0, value: Any = 0) -> Tensor:
    """Puts a dim into a longer one.

    Args:
        x: [..., dim, ...].
        dim: what to pad.
        padded: what it becomes.
        before: how many positions stand before it; the others come behind.
        value: what stands there.

    Returns:
        The dims of `x` with `padded` for `dim`.

    Raises:
        DimError: `padded` is too small, or the dtype of `x` does not hold the value.
    """
    array, axis = located("pad", x, dim)
    sized("pad", padded)
    before = whole_number("pad", "number of positions before", before, 0, DimError)
    behind = padded.size - x.shape[axis] - before
    if behind < 0:
        raise DimError(f"pad was asked to make {padded} of {x.dims[axis]} with {before} positions before it: too few.")
    holding("pad", "value", number("pad", "value", value), x.dtype)
    config = [(before, behind, 0) if place == axis else (0, 0, 0) for place in range(len(x.dims))]
    filling = applied("pad", jnp.asarray, (value, x.dtype), (x,))
    longer = lax.pad(jnp.asarray(array), filling, config)
    return resized("pad", longer, x.dims, (*x.dims[:axis], padded, *x.dims[axis + 1 :]))


def stack(parts: Sequence[Any], dim: Dim | str) -> Tensor:
    """Puts tensors side by side, along a new dim.

    Args:
        parts: tensors of the same dims in any order, or numbers.
        dim: the new dim; its size is how many there are.

    Returns:
        `dim`, then the dims of the first tensor.
    """
    parts = several("stack", parts, 'ml.stack((x, y), "copy")')
    operands = [named.operand("stack", x) for x in parts]
    dims = operands[0][1]
    for position, (_, has) in enumerate(operands):
        if set(has) != set(dims):
            raise DimError(
                f"stack was given tensors of different dims: number 0 has {dim_lists.show(dims)}, "
                f"number {position} {dim_lists.show(has)}. All must have the same dims."
            )
    new = dim if isinstance(dim, Dim) else Dim(dim, len(parts))
    if new.size != len(parts):
        raise DimError(
            f"stack was asked to make {new} of {len(parts)} tensors; the size must be the number of tensors."
        )
    wanted = dim_lists.distinct("The result of stack", (new, *dims))
    alike = promoted("stack", [array for array, _ in operands])
    arrays = [named.expand(array, has, dims) for array, (_, has) in zip(alike, operands, strict=True)]
    return named.result(lax.concatenate([lax.expand_dims(array, (0,)) for array in arrays], 0), wanted)


def unstack(x: Tensor, dim: Dim | str) -> tuple[Any, ...]:
    """Returns the tensor at each position of a dim: the inverse of `stack`.

    Args:
        x: [..., dim, ...].
        dim: what to take apart.

    Returns:
        One tensor of the other dims for each position; numbers where there are none.
    """
    array, axis = located("unstack", x, dim)
    rest = dim_lists.without(x.dims, [axis])
    return tuple(
        named.result(lax.index_in_dim(array, position, axis, keepdims=False), rest) for position in range(x.shape[axis])
    )
