"""Attention as one operation, whose scores never exist as an array.

    q[batch query heads depth] · k, v[batch key heads depth]  →  o[batch query heads depth], lse[batch query heads]

The softmax is taken block by block, as FlashAttention does (Dao et al. 2022, https://arxiv.org/abs/2205.14135): of the
keys seen so far there are the maximum of each query's scores, the sum of their exponentials, and the values weighted by
them. Its gradient computes the scores again, from the logarithm of that sum (`lse`). So a block of keys may come from
anywhere, another device too; `rules/attention.py` sends them.

Which axes are the same is said by a letter for each, as `einsum` does: `Attention.q` is "bshd".
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..own_primitives import several_primitive

# Larger than this many queries or keys no block is: [queries, keys] scores of one head are in memory at a time.
BLOCK = 512
_LOW = -1e30
# Where axes of `vmap` go; no axis of the user's has one of these letters.
_MAPPED = "ABCDEFGH"


@dataclasses.dataclass(frozen=True)
class Attention:
    """Says which axes of the operands are the same, and which queries attend to which keys.

    Attributes:
        q, k, v: a letter for each axis; `k` and `v` have no axis that `q` has not, but their own below.
        query, key: the axes of positions.
        depth: the axis of `q` and `k` that scores are summed over.
        value: the axis of `v` in its place.
        bias: the axes of an array that is added to the scores; None where there is none.
        segments: the axes of the queries' segments and those of the keys'; None where there are none.
        causal: whether a query attends only to keys at and before its position.
        window: a query attends to keys less than this far from it; None for any.
        scale: what scores are multiplied by.
        zigzag: the axes of positions that are in zig-zag order where they are sharded; a layout says so, no function.
    """

    q: str
    k: str
    v: str
    query: str
    key: str
    depth: str
    value: str
    bias: str | None
    segments: tuple[str, str] | None
    causal: bool
    window: int | None
    scale: float
    zigzag: str = ""

    @property
    def operands(self) -> tuple[str, ...]:
        """The axes of all operands: q, k, v, bias and segments."""
        return (self.q, self.k, self.v, *((self.bias,) if self.bias is not None else ()), *(self.segments or ()))

    @property
    def names(self) -> tuple[str, ...]:
        """What the operands are."""
        bias = ("bias",) if self.bias is not None else ()
        return ("queries", "keys", "values", *bias, *(("queries' segments", "keys' segments") if self.segments else ()))

    @property
    def rows(self) -> str:
        """The axes of `lse`, which has a number for each query."""
        return self.q.replace(self.depth, "")

    @property
    def out(self) -> str:
        """The axes of the result."""
        return self.q.replace(self.depth, self.value)

    @property
    def scores(self) -> str:
        """The axes of the scores."""
        return self.rows + self.key

    @property
    def differentiated(self) -> tuple[str, ...]:
        """The axes of the operands that have a gradient: q, k, v and bias."""
        return self.operands[: 3 if self.bias is None else 4]

    def axes_of(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns the axes of what the primitive of a name reads, and of what it makes."""
        if name == attention_p.name:
            return self.operands, (self.out, self.rows)
        return (*self.operands, self.out, self.rows, self.out), self.differentiated

    def split(self, arrays: Sequence[Any]) -> tuple[list[Any], Any, tuple[Any, Any] | None]:
        """Returns q, k and v, the bias and the segments."""
        rest = list(arrays[3:])
        bias = rest.pop(0) if self.bias is not None else None
        return list(arrays[:3]), bias, (rest[0], rest[1]) if self.segments else None

    def mapped(self, on: Sequence[bool], letter: str) -> Attention:
        """Returns the same with a new axis in front of some operands."""
        q, k, v, *rest = (letter * new + axes for axes, new in zip(self.operands, on, strict=True))
        bias = rest.pop(0) if self.bias is not None else None
        return dataclasses.replace(self, q=q, k=k, v=v, bias=bias, segments=tuple(rest) if self.segments else None)


# The positions of the first query and the first key of a block.
Firsts = tuple[Any, Any]
# Those of the queries and keys that are here: of one run of positions, or of several as long, one behind the other.
Runs = tuple[tuple[Any, ...], tuple[Any, ...]]
WHOLE: Runs = ((0,), (0,))
Carry = tuple[Any, ...]


def begin(how: Attention, arrays: Sequence[Any]) -> Carry:
    """Returns the state before any key is seen: weighted values, maxima and sums."""
    shape, dtype = dict(zip(how.q + how.v, arrays[0].shape + arrays[2].shape, strict=True)), _wide(arrays[0].dtype)
    rows = tuple(shape[axis] for axis in how.rows)
    return jnp.zeros((*rows, shape[how.value]), dtype), jnp.full(rows, _LOW, dtype), jnp.zeros(rows, dtype)


def visit(how: Attention, arrays: Sequence[Any], runs: Runs, state: Carry) -> Carry:
    """Adds some keys to what their queries have seen so far."""
    axes = how.rows + how.value, how.rows, how.rows

    def block(arrays: Sequence[Any], firsts: Firsts, state: Carry) -> Carry:
        scores, shown = _scores(how, arrays, firsts)
        values, top, total = state
        higher = jnp.maximum(top, scores.max(-1))
        weights, before = jnp.where(shown, jnp.exp(scores - higher[..., None]), 0), jnp.exp(top - higher)
        v = arrays[2]
        added = _product(f"{how.scores},{how.v}->{axes[0]}", weights.astype(v.dtype), v)
        return values * before[..., None] + added, higher, total * before + weights.sum(-1)

    return _in_blocks(how, arrays, runs, (state, axes), block)


def finish(how: Attention, state: Carry, dtype: Any) -> list[Any]:
    """Returns the result and `lse`; a query that attends to nothing gets zeros."""
    values, top, total = state
    out = jnp.einsum(f"{how.rows}{how.value}->{how.out}", values / jnp.where(total > 0, total, 1)[..., None])
    return [out.astype(dtype), jnp.where(total > 0, top + jnp.log(jnp.where(total > 0, total, 1)), _LOW)]


def begin_gradients(how: Attention, arrays: Sequence[Any]) -> Carry:
    """Returns zeros for the gradients of q, k, v and the bias."""
    return tuple(jnp.zeros(a.shape, _wide(a.dtype)) for a, _ in zip(arrays, how.differentiated, strict=False))


def visit_gradients(how: Attention, arrays: Sequence[Any], kept: Sequence[Any], runs: Runs, gradients: Carry) -> Carry:
    """Adds what some keys and queries bring to the gradients.

    Args:
        how: which axes are the same.
        arrays: the operands.
        kept: what the forward pass kept and was given back: the result, `lse`, and the result's cotangent.
        runs: the positions of the first query and key of each run.
        gradients: of q, k, v and the bias so far.
    """
    out, lse, cotangent = kept
    delta = _product(f"{how.out},{how.out}->{how.rows}", cotangent, out)
    more = (*arrays, lse, delta, cotangent)

    def block(arrays: Sequence[Any], firsts: Firsts, gradients: Carry) -> Carry:
        *arrays, lse, delta, cotangent = arrays
        (q, k, v), _, _ = how.split(arrays)
        scores, shown = _scores(how, arrays, firsts)
        weights = jnp.where(shown, jnp.exp(scores - lse[..., None]), 0)
        of_weights = _product(f"{how.out},{how.v}->{how.scores}", cotangent, v)
        of_scores = weights * (of_weights - delta[..., None])
        scaled = (of_scores * how.scale).astype(k.dtype)
        added = [
            _product(f"{how.scores},{how.k}->{how.q}", scaled, k),
            _product(f"{how.scores},{how.q}->{how.k}", scaled, q),
            _product(f"{how.scores},{how.out}->{how.v}", weights.astype(cotangent.dtype), cotangent),
        ]
        if how.bias is not None:
            added.append(jnp.einsum(f"{how.scores}->{how.bias}", of_scores))
        return tuple(gradient + new for gradient, new in zip(gradients, added, strict=True))

    return _in_blocks(how, more, runs, (gradients, how.differentiated), block)


def _scores(how: Attention, arrays: Sequence[Any], firsts: Firsts) -> tuple[Any, Any]:
    """Returns the scores of a block, and which of them count."""
    (q, k, _), bias, segments = how.split(arrays)
    scores = _product(f"{how.q},{how.k}->{how.scores}", q, k) * how.scale
    if bias is not None:
        scores = scores + _spread(bias, how.bias or "", how.scores)
    counts = [q.shape[how.q.index(how.query)], k.shape[how.k.index(how.key)]]
    at = [
        _spread(first + jnp.arange(count), axis, how.scores)
        for first, count, axis in zip(firsts, counts, (how.query, how.key), strict=True)
    ]
    shown = jnp.ones((1,) * len(how.scores), bool)
    if how.causal:
        shown = shown & (at[0] >= at[1])
    if how.window is not None:
        shown = shown & (abs(at[0] - at[1]) < how.window)
    if segments and how.segments:
        one, other = (_spread(a, axes, how.scores) for a, axes in zip(segments, how.segments, strict=True))
        shown = shown & (one == other)
    return jnp.where(shown, scores, _LOW), shown


def _spread(array: Any, axes: str, others: str) -> Any:
    """Returns an array with axes of size 1 where it lacks some."""
    ordered = jnp.einsum(f"{axes}->{''.join(a for a in others if a in axes)}", array)
    return jnp.expand_dims(ordered, [i for i, axis in enumerate(others) if axis not in axes])


def _product(form: str, a: Any, b: Any) -> Any:
    return jnp.einsum(form, a, b, preferred_element_type=_wide(a.dtype))


def _wide(dtype: Any) -> Any:
    return jnp.promote_types(dtype, jnp.float32)


# --- blocks -----------------------------------------------------------------------------------------------------------

Block = Callable[[Sequence[Any], Firsts, Carry], Carry]


def _in_blocks(
    how: Attention, arrays: Sequence[Any], runs: Runs, carried: tuple[Carry, Sequence[str]], block: Block
) -> Carry:
    """Runs a function of blocks of queries and keys, one after another; those of which nothing counts are left out.

    Args:
        how: which axes are the same.
        arrays: the operands, and perhaps three more, with a number for each query: `lse`, another, and the cotangent.
        runs: the positions of the first query and key of each run; no block is of two.
        carried: what is handed from block to block, and the axes of each array of it.
        block: the function: of the blocks of the arrays, the positions, and the block of what is carried.
    """
    carry, axes = carried
    letters = (*how.operands, how.rows, how.rows, how.out)[: len(arrays)]
    sizes = arrays[0].shape[how.q.index(how.query)], arrays[1].shape[how.k.index(how.key)]
    counts = tuple(len(run) * blocks(size // len(run)) for size, run in zip(sizes, runs, strict=True))
    lengths = tuple(size // count for size, count in zip(sizes, counts, strict=True))

    def one(carry: Carry, number: Any) -> tuple[Carry, None]:
        numbers = number // counts[1], number % counts[1]
        starts = tuple(at * length for at, length in zip(numbers, lengths, strict=True))
        cut = functools.partial(_cut, how, starts, lengths)
        here = tuple(map(_position, runs, numbers, counts, lengths))

        def computed(carry: Carry) -> Carry:
            parts = tuple(map(cut, carry, axes))
            new = block([*map(cut, arrays, letters)], (here[0], here[1]), parts)
            return tuple(_put(how, starts, *each) for each in zip(carry, new, axes, strict=True))

        counted = _counts(how, here, lengths)
        return (computed(carry) if counted is None else lax.cond(counted, computed, lambda same: same, carry)), None

    if math.prod(counts) == 1:
        return one(carry, 0)[0]
    return lax.scan(one, carry, jnp.arange(math.prod(counts)))[0]


def _position(run: Sequence[Any], number: Any, count: int, length: int) -> Any:
    """Returns the position of the first query or key of a block, by its number."""
    if len(run) == 1:
        return run[0] + number * length
    each = count // len(run)
    return jnp.stack([jnp.asarray(first) for first in run])[number // each] + number % each * length


def blocks(size: int) -> int:
    """Returns into how many equal blocks so many queries or keys are cut."""
    few = -(-size // BLOCK)
    return next((count for count in range(few, 4 * few) if size % count == 0), 1)


def _cut(how: Attention, starts: Sequence[Any], lengths: Sequence[int], array: Any, axes: str) -> Any:
    for letter, start, length in zip((how.query, how.key), starts, lengths, strict=True):
        if letter in axes and array.shape[axes.index(letter)] != length:
            array = lax.dynamic_slice_in_dim(array, start, length, axes.index(letter))
    return array


def _put(how: Attention, starts: Sequence[Any], whole: Any, part: Any, axes: str) -> Any:
    at = [0] * len(axes)
    for letter, start in zip((how.query, how.key), starts, strict=True):
        if letter in axes:
            at[axes.index(letter)] = start
    return part if whole.shape == part.shape else lax.dynamic_update_slice(whole, part, at)


def _counts(how: Attention, firsts: Sequence[Any], lengths: Sequence[int]) -> Any:
    """Returns whether a score of a block counts by its position; None where all blocks have some that do."""
    (query, key), (queries, keys) = firsts, lengths
    tests = []
    if how.causal:
        tests.append(query + queries - 1 >= key)
    if how.window is not None:
        tests += [query - (key + keys - 1) < how.window, key - (query + queries - 1) < how.window]
    return functools.reduce(jnp.logical_and, tests) if tests else None


# --- primitives -------------------------------------------------------------------------------------------------------


def _whole(*arrays: Any, how: Attention) -> list[Any]:
    return finish(how, visit(how, arrays, WHOLE, begin(how, arrays)), arrays[0].dtype)


def _whole_gradients(*arrays: Any, how: Attention) -> list[Any]:
    arrays, kept = arrays[:-3], arrays[-3:]
    gradients = visit_gradients(how, arrays, kept, WHOLE, begin_gradients(how, arrays))
    return [gradient.astype(array.dtype) for gradient, array in zip(gradients, arrays, strict=False)]


def _in_front(array: Any, axis: int | None, size: int) -> Any:
    return jnp.broadcast_to(array, (size, *array.shape)) if axis is None else jnp.moveaxis(array, axis, 0)


def _made(how: Attention) -> tuple[str, ...]:
    return how.out, how.rows


def _shapes(*operands: Any, how: Attention) -> list[tuple[tuple[int, ...], Any]]:
    sizes = dict(zip(how.q + how.v, operands[0].shape + operands[2].shape, strict=True))
    out, rows = (tuple(sizes[axis] for axis in axes) for axes in _made(how))
    return [(out, operands[0].dtype), (rows, _wide(operands[0].dtype))]


def _gradient_shapes(*operands: Any, how: Attention) -> list[tuple[tuple[int, ...], Any]]:
    return [(operand.shape, operand.dtype) for operand, _ in zip(operands, how.differentiated, strict=False)]


def _batched(
    bind: Callable[..., Any], results: Callable[[Attention], Sequence[str]]
) -> Callable[..., tuple[list[Any], list[int | None]]]:
    """Returns what `vmap` makes of a primitive: a new axis in front of q, k, v and of what else has it."""

    def batched(
        arrays: Sequence[Any], axes: Sequence[int | None], *, how: Attention
    ) -> tuple[list[Any], list[int | None]]:
        size = next(array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None)
        count = len(how.operands)
        on = [not 3 <= position < count or axis is not None for position, axis in enumerate(axes)]
        moved = [
            _in_front(array, axis, size) if new else array for array, axis, new in zip(arrays, axes, on, strict=True)
        ]
        letter = next(each for each in _MAPPED if each not in how.q)
        new = how.mapped(on[:count], letter)
        return bind(*moved, how=new), [0 if letter in each else None for each in results(new)]

    return batched


attention_p = several_primitive(
    "attention", _whole, _shapes, _batched(lambda *arrays, how: attention_p.bind(*arrays, how=how), _made)
)
attention_grad_p = several_primitive(
    "attention_grad",
    _whole_gradients,
    _gradient_shapes,
    _batched(lambda *arrays, how: attention_grad_p.bind(*arrays, how=how), lambda how: how.differentiated),
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def attend(how: Attention, *arrays: Any) -> Any:
    """Returns what queries get by attending to keys.

    Args:
        how: which axes are the same, and which queries attend to which keys.
        arrays: q, k, v, then the bias and the segments if there are some.

    Returns:
        An array with the axes `how.out`, of q's dtype.
    """
    return attention_p.bind(*arrays, how=how)[0]


def _forward(how: Attention, *arrays: Any) -> tuple[Any, tuple[Any, ...]]:
    out, lse = attention_p.bind(*arrays, how=how)
    return out, (*arrays, out, lse)


def _backward(how: Attention, kept: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
    gradients = attention_grad_p.bind(*kept, cotangent, how=how)
    return (*gradients, *(None for _ in how.segments or ()))


attend.defvjp(_forward, _backward)
