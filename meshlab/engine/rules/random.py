"""Rules of random numbers draw the same numbers under every layout, without communication.

    random_bits  key[] → [batch, embed]      element i of the whole is a hash of the key and of i

JAX's default generator, Threefry, hashes the number of each element, counted through the whole array. So each device
computes its own shard: it counts its elements by their place in the whole array. The other generators draw one long
sequence, for all keys of an array together, and run unsharded; so does Threefry while `jax_threefry_partitionable` is
off.

Arrays of Threefry's keys run through. The keys that one key is split into are few, and are computed unsharded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import dtypes, lax
from jax.extend.random import threefry2x32_p

from ..code.operations import Operation
from ..collectives.device import Device
from ..jax_compat import is_threefry, setting
from ..specs.spec import local_shape
from .per_shard import ShardedOperation, per_shard
from .table import NONE, Factors, Facts, Shape, rule, run_unsharded
from .traits import NOWHERE, marking, opaque

_TRAITS = opaque(linear=NOWHERE, multiplies=None)
# What draws from keys to make others of them, or numbers.
_DRAWING = frozenset(("random_fold_in", "random_split", "random_gamma"))


@rule("random_clone", "threefry2x32", traits=_TRAITS)
def _through(_operation: Operation, facts: Facts) -> Factors:
    axes = tuple(range(len(facts.results[0])))
    return Factors(tuple(axes if s else () for s in facts.operands), (axes,) * len(facts.results))


@rule("random_wrap", "random_unwrap", traits=marking(identity=False, linear=NOWHERE))
@rule(*"random_seed random_fold_in random_split random_gamma".split(), traits=_TRAITS)
def _keys(operation: Operation, facts: Facts) -> Factors:
    """Lets keys run through; the axes behind them belong to each key, and are unsharded."""
    values = (*operation.equation.invars, *operation.equation.outvars)
    keys = [v.aval for v in values if jnp.issubdtype(v.aval.dtype, dtypes.prng_key)]
    rank = min(len(key.shape) for key in keys)
    if operation.name in _DRAWING and not all(is_threefry(key.dtype) for key in keys):
        rank = 0
    shapes = (*facts.operands, *facts.results)
    axes = tuple(tuple(range(len(shape))) for shape in shapes)
    cut = len(facts.operands)
    return Factors(axes[:cut], axes[cut:], unsharded=frozenset(range(rank, max(map(len, shapes)))))


@rule("random_bits", traits=_TRAITS)
def _random_bits(operation: Operation, facts: Facts) -> Factors:
    keys, bits = facts.operands[0], facts.results[0]
    counted = frozenset(range(len(keys), len(bits)))
    alone = is_threefry(operation.equation.invars[0].aval.dtype)
    counts = alone and setting("jax_threefry_partitionable")
    return Factors(
        (tuple(range(len(keys))),),
        (tuple(range(len(bits))),),
        per_shard=counted if counts else NONE,
        unsharded=NONE if counts else counted if alone else frozenset(range(len(bits))),
    )


@rule("rng_bit_generator", traits=_TRAITS)
def _sequence(_operation: Operation, facts: Facts) -> Factors:
    return run_unsharded(facts, known=True)


@per_shard("random_bits", summary="the elements of {dims} are counted", padded=True)
def _own_bits(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    (keys,), shape, width = operands, sharded.params["shape"], sharded.params["bit_width"]
    splits = sharded.results[0].splits[keys.ndim :]
    part = local_shape(sharded.result_shapes[0], sharded.results[0], device.sizes)[keys.ndim :]
    firsts = [device.index(split) * size if split else 0 for split, size in zip(splits, part, strict=True)]
    data = jax.random.key_data(keys)
    shard = (*keys.shape, *part)
    words = [lax.broadcast_in_dim(data[..., i], shard, range(keys.ndim)) for i in (0, 1)]
    counts = [jnp.broadcast_to(count, shard) for count in counters(shape, part, firsts)]
    high, low = threefry2x32_p.bind(*words, *counts)
    dtype = jnp.dtype(f"uint{width}")
    if width == 64:
        return [high.astype(dtype) << 32 | low.astype(dtype)]
    return [(high ^ low).astype(dtype)]


def counters(shape: Shape, part: Shape, firsts: Sequence[Any]) -> tuple[Any, Any]:
    """Numbers the elements of a part of an array, counted through the whole array, row by row.

    Args:
        shape: the whole array's.
        part: the part's.
        firsts: where the part begins, along each axis.

    Returns:
        The high and the low 32 bits of the numbers, in the shape of the part.
    """
    high = low = jnp.zeros(part, jnp.uint32)
    for axis, size in enumerate(shape):
        place = lax.broadcasted_iota(jnp.uint32, part, axis) + jnp.asarray(firsts[axis], jnp.uint32)
        if math.prod(shape[: axis + 1]) <= 2**32:
            low = low * jnp.uint32(size) + place
            continue
        high, low = _times(high, low, size)
        low += place
        high += (low < place).astype(jnp.uint32)
    return high, low


def _times(high: Any, low: Any, factor: int) -> tuple[Any, Any]:
    """Multiplies a number of 64 bits, in two words, by one of 32: by halves, whose products fit a word."""
    upper, lower = low >> 16, low & 0xFFFF
    f = [jnp.uint32(factor >> 16), jnp.uint32(factor & 0xFFFF)]
    middle = upper * f[1] + (lower * f[1] >> 16)
    carry = lower * f[0] + (middle & 0xFFFF)
    return high * jnp.uint32(factor) + upper * f[0] + (middle >> 16) + (carry >> 16), low * jnp.uint32(factor)
