"""`dot` multiplies tensors, and sums over the dims that are listed.

Every contraction of a model is this one operation. A dim that tensors share and that is not listed rides along once
(a batch); a dim that is listed is summed away; the rest are the free dims of a matmul.

    >>> import meshlab as ml
    >>> x = ml.tensor([[1.0, 2.0], [3.0, 4.0]], "batch", "embed")
    >>> w = ml.tensor([10.0, 1.0], "embed")
    >>> ml.dot(x, w, "embed")
    f32[batch=2]([12. 34.])

Several tensors are multiplied from left to right, and a dim is summed as soon as no later tensor has it. A pair becomes
one `lax.dot_general`. Where nothing is summed and one operand has all the dims of the other, it is elementwise.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from ..argument_checks import is_whole
from ..errors import DimError, shown
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dim_lists import Dims
from ..tensors.dims import Dim
from ..tensors.dtypes import promoted, taking

_Operand = tuple[Any, Dims]


def dot(*operands: Any) -> Any:
    """Multiplies tensors and sums over the dims listed.

    Args:
        operands: first the tensors, then the dims to sum over, or their names: `dot(x, w, Embed)`. Numbers may stand
            among the tensors.

    Returns:
        A tensor of all the dims that are not listed, in the order of their first appearance; a scalar if none is left.

    Raises:
        DimError: a dim is listed twice, no tensor has it, or it has two sizes.

    Example:
        scores = ml.dot(q, k, HeadSize)     # q: [batch, seq, heads, size], k: [batch, kv, heads, size]
        scores.dims                         # [batch, seq, heads, kv]
    """
    tensors, summed = _sort_operands(operands)
    pairs = [named.operand("dot", x) for x in tensors]
    for x in tensors:
        if hasattr(x, "dtype"):
            taking("dot", x, (jnp.number, jnp.bool_), "it takes numbers")
    union = _union([dims for _, dims in pairs])
    gone = dim_lists.find_all("dot", union, summed) if summed else ()
    consumed = {union[axis] for axis in gone}
    array, dims = _sum_lonely(pairs[0], pairs[1:], consumed)
    for position, pair in enumerate(pairs[1:], start=2):
        later = pairs[position:]
        array, dims = _multiply((array, dims), _sum_lonely(pair, [(array, dims), *later], consumed), later, consumed)
    wanted = dim_lists.without(union, gone)
    return named.result(named.expand(array, dims, wanted), wanted)


def _sort_operands(operands: tuple[Any, ...]) -> tuple[list[Any], list[Dim | str]]:
    """Separates tensors from dims, which come after them."""
    for x in operands:
        if isinstance(x, list | tuple) and any(isinstance(one, Dim | str | named.Tensor) for one in x):
            listed = f"[{', '.join(map(shown, x))}], a {type(x).__name__}"
            raise DimError(f"dot was given {listed}; give tensors and dims one by one: ml.dot(x, w, Batch).")
    summed = [x for x in operands if isinstance(x, Dim | str)]
    tensors = list(operands[: len(operands) - len(summed)])
    if any(isinstance(x, Dim | str) for x in tensors):
        raise DimError("dot was given a tensor after a dim; write dot(x, w, Embed): first the tensors, then the dims.")
    if not tensors:
        raise DimError("dot was given no tensor; write dot(x, w, Embed): first the tensors, then the dims.")
    if not summed and is_whole(tensors[-1]) and not hasattr(tensors[-1], "shape"):
        raise DimError(
            f"dot was given {shown(tensors[-1])} last; axes have names, not positions. Name the dims to sum over,"
            " dot(x, w, Embed); put a number first, or write x * 2."
        )
    return tensors, summed


def _union(groups: list[Dims]) -> Dims:
    """Returns all the dims, in the order of their first appearance."""
    dim_lists.agree("dot", *groups)
    return tuple(dict.fromkeys(dim for dims in groups for dim in dims))


def _sum_lonely(operand: _Operand, others: list[_Operand], consumed: set[Dim]) -> _Operand:
    """Sums the dims that are to go and that no other tensor has."""
    array, dims = operand
    shared = {dim for _, has in others for dim in has}
    gone = tuple(axis for axis, dim in enumerate(dims) if dim in consumed and dim not in shared)
    return (jnp.sum(array, axis=gone), dim_lists.without(dims, gone)) if gone else operand


def _multiply(left: _Operand, right: _Operand, later: list[_Operand], consumed: set[Dim]) -> _Operand:
    """Multiplies two tensors, and sums the dims that are to go and that no later tensor has."""
    (a, a_dims), (b, b_dims) = left, right
    a, b = promoted("dot", (a, b))
    needed = {dim for _, has in later for dim in has}
    shared = tuple(dim for dim in a_dims if dim in b_dims)
    summed = tuple(dim for dim in shared if dim in consumed and dim not in needed)
    batch = tuple(dim for dim in shared if dim not in summed)
    a_free = tuple(dim for dim in a_dims if dim not in shared)
    b_free = tuple(dim for dim in b_dims if dim not in shared)
    if not summed and not (a_free and b_free):
        union = dim_lists.union("dot", a_dims, b_dims)
        return jnp.multiply(named.expand(a, a_dims, union), named.expand(b, b_dims, union)), union
    contracting = _axes(a_dims, summed), _axes(b_dims, summed)
    riding = _axes(a_dims, batch), _axes(b_dims, batch)
    return lax.dot_general(a, b, (contracting, riding)), batch + a_free + b_free


def _axes(dims: Dims, wanted: Dims) -> tuple[int, ...]:
    return tuple(dims.index(dim) for dim in wanted)
