"""Sketches a value: a few numbers that are equal, whatever the layout, where the values are.

    sketch of x[i, j] = sum over i, j of w[i, j] x[i, j]          for a few random w

A sketch is linear, so each device sketches its own shard with the numbers of `w` at its place in the whole, and the
sketches of all shards add up to that of the value, as those of the addends of a partial sum do. So nothing is sent for
it, and 16 bytes a value and device come out. The numbers of `w` are made of the place by a hash, and differ from each
other in size, so that no two numbers of a value can change places unseen.

A difference of values shows as one of about its size. What follows from integers alone is sketched by integers, modulo
2^32: equal if and only if the values are, but for one case in four billion. Padding counts nothing. What is not finite,
or is a mask's -1e30, is sketched as a small number, so that it hides nothing of the rest. Along axes in an order of the
devices' own (`own_order.py`) all numbers are multiplied by the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..mixed_bits import mixed
from ..running.lower import Shards
from ..typed_keys import words
from .assembled import Blocks, laid
from .own_order import own_order
from .probing import Probing, Tap

# How many sketches of each value there are.
COUNT = 4
# What is as large counts as a mask.
_LARGE = 1e15


def sketch(runs: Probing, tap: Tap, shards: Shards, exact: bool, blocks: Blocks | None = None) -> Any:
    """Returns this device's sketches of its shard of a value.

    Args:
        runs: what runs the steps.
        tap: where the value was met.
        shards: what this device holds.
        exact: whether they are to be equal to the last bit.
        blocks: how it lies in blocks that were cut otherwise; None of all others.
    """
    shard = words(jnp.asarray(shards[tap.key]))
    if jnp.issubdtype(shard.dtype, jnp.complexfloating):
        shard = jnp.stack([shard.real, shard.imag], -1)
    numbers = _modular(shard) if exact else _small(shard, bool(tap.spec.partial))
    weights = _weights(runs, tap, shard.shape, numbers.dtype, blocks)
    return jnp.sum(numbers[None] * weights, axis=range(1, shard.ndim + 1), dtype=numbers.dtype)


def _weights(runs: Probing, tap: Tap, local: Sequence[int], dtype: Any, blocks: Blocks | None) -> Any:
    """Returns what each number of a shard is multiplied by, for each sketch: random, by its place in the whole."""
    index, counts = jnp.zeros((), jnp.uint32), runs.counts(*tap.key, local)
    shape, order = runs.code.shapes[tap.number], own_order(runs.program).get(tap.number)
    for axis, size in enumerate(local):
        if order is not None and axis in order.axes:
            continue
        here = lax.broadcasted_iota(jnp.uint32, tuple(local), axis)
        whole = shape[axis] if axis < len(shape) else size
        split = tap.spec.splits[axis] if axis < len(shape) else ()
        if blocks is not None and axis == blocks.axis:
            first = runs.device.index(tuple(each for each in split if each != blocks.over)) * size
            here = blocks.whole(here + first.astype(jnp.uint32), runs.device.index((blocks.over,)).astype(jnp.uint32))
        elif split:
            here += runs.first(split, size).astype(jnp.uint32)
        index = index * np.uint32(whole) + here
    bits = index[None] * np.uint32(COUNT) + jnp.arange(COUNT, dtype=jnp.uint32).reshape(COUNT, *(1,) * len(local))
    bits = mixed(bits)
    if dtype == jnp.uint32:
        weights = bits | np.uint32(1)
    else:
        sizes = (bits >> 9).astype(dtype) * 2.0**-23 + 0.5
        weights = jnp.where(bits & 1 == 1, sizes, -sizes)
    return weights if counts is None else jnp.where(counts, weights, jnp.zeros((), dtype))


def _modular(shard: Any) -> Any:
    """Returns whole numbers modulo 2^32."""
    if not jnp.issubdtype(shard.dtype, jnp.signedinteger):
        return shard.astype(jnp.uint32)
    return lax.bitcast_convert_type(shard.astype(jnp.int32), jnp.uint32)


def _small(shard: Any, is_partial: bool) -> Any:
    """Returns floats, and in place of what would hide all others a number of its own."""
    shard = shard.astype(jnp.float64 if shard.dtype == jnp.float64 else jnp.float32)
    large = jnp.where(shard > 0, 2.0, jnp.where(shard < 0, -2.0, 3.0)).astype(shard.dtype)
    return jnp.where(jnp.isfinite(shard) if is_partial else jnp.abs(shard) < _LARGE, shard, large)


def added(array: np.ndarray, tap: Tap, axes: Sequence[tuple[str, int]]) -> np.ndarray:
    """Returns the sketches of a value as its replicas have them: `[*loops, replicas, sketches]`.

    Args:
        array: what was taken: `[devices, *loops, sketches]`.
        tap: of which value.
        axes: the mesh axes of devices and their sizes.
    """
    sorted_axes = laid(array, tap, axes)
    first = sorted_axes.loops
    over = tuple(range(first, first + sorted_axes.addends + sorted_axes.splits))
    exact = array.dtype == np.uint32
    total: Any = np.sum(sorted_axes.array, axis=over, dtype=np.uint32 if exact else np.float64)
    # The iterations of an axis in time that neither splits nor adds are replicas too.
    again = [position for position, loop in enumerate(tap.apart) if loop.in_time]
    total = np.moveaxis(total, again, range(first - len(again), first))
    loops = total.shape[: first - len(again)]
    return total.reshape(*loops, math.prod(total.shape[len(loops) : -1]), COUNT)
