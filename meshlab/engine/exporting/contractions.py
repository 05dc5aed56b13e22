"""Writes contractions as `jnp.einsum`, in letters that dims begin with.

dot_general images[batch rows cols] params_w1[rows cols hidden]      jnp.einsum("brs,rsh->bh", images, params_w1)
"""

from __future__ import annotations

import functools
import string
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..code.flatten import flatten
from ..code.operations import Operation
from .compared import parameters
from .expressions import Expression, call, keyword
from .values import literal

Dims = Sequence[str | None]


def contraction(operation: Operation, operands: Sequence[Expression], dims: Sequence[Dims]) -> Expression | None:
    """Returns a contraction as `jnp.einsum`; None where JAX makes something else of that."""
    shapes = tuple(jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in operation.equation.invars)
    numbers, ranks = operation.params["dimension_numbers"], [len(s.shape) for s in shapes]
    asked = operation.params["preferred_element_type"]
    more = {} if asked is None or asked == shapes[0].dtype else {"preferred_element_type": asked}
    for known in (dims, ()):
        subscripts = _subscripts(numbers, ranks, known)
        if _einsum(subscripts, shapes, tuple(more.items())) == parameters(operation):
            keywords = (keyword(name, literal(np.dtype(value))) for name, value in more.items())
            return call("jnp.einsum", literal(subscripts), *operands, *keywords)
    return None


@functools.lru_cache(maxsize=1024)
def _einsum(subscripts: str, shapes: tuple[Any, ...], more: tuple[tuple[str, Any], ...]) -> str | None:
    """Returns the parameters of the contraction that JAX makes of an einsum; None where it makes more than that."""
    code = flatten(jax.make_jaxpr(lambda *arrays: jnp.einsum(subscripts, *arrays, **dict(more)))(*shapes))
    (first, *others) = code.block.operations
    alone = not others and first.name == "dot_general" and first.inputs == code.block.inputs
    return parameters(first) if alone and code.block.outputs == first.outputs else None


def _subscripts(numbers: Any, ranks: Sequence[int], dims: Sequence[Dims]) -> str:
    """Returns a contraction in the letters of an einsum: the first ones of its dims, where they are free."""
    (summed, others), (riding, along) = numbers
    left, right = [""] * ranks[0], [""] * ranks[1]
    free = [letter for letter in string.ascii_lowercase[::-1] if letter not in "lo"]
    known = [*dims, (), ()][:2]

    def letter(side: int, axis: int, after: str = "") -> str:
        dim = known[side][axis] if axis < len(known[side]) else None
        left_over = [c for c in free if c > after] or free
        wanted = next((c for c in (dim or "").lower() if c in left_over), left_over[-1])
        free.remove(wanted)
        return wanted

    for i, j in zip(riding, along, strict=True):
        left[i] = right[j] = letter(0, i)
    last = ""
    for i, j in zip(summed, others, strict=True):  # JAX sums over letters in their order
        left[i] = right[j] = last = letter(0, i, last)
    for side, letters in enumerate((left, right)):
        letters[:] = [given or letter(side, axis) for axis, given in enumerate(letters)]
    result = [left[i] for i in riding]
    result += [c for i, c in enumerate(left) if i not in (*riding, *summed)]
    result += [c for j, c in enumerate(right) if j not in (*along, *others)]
    return f"{''.join(left)},{''.join(right)}->{''.join(result)}"
