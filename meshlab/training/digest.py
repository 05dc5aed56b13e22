"""A digest of an array's bits, which is the same however the array is sharded.

    digest(array)       "8f1c…": 16 digits

Each element's bits are mixed with its position in the whole array, and all are added up. The sum does not depend on an
order, so each device adds up its own shard, and one number of 4 bytes crosses the network. Mixing is one to one: an
element that differs changes the sum for certain. That several changes cancel in both sums has a chance of 1 in 2⁶⁴.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..engine.mixed_bits import mixed
from ..engine.typed_keys import words

_SEEDS = (0x9E3779B9, 0x7F4A7C15)


def digest(array: jax.Array) -> str:
    """Returns the digest of an array of any dtype, typed keys included; called in all processes that have shards."""
    return "".join(f"{int(part):08x}" for part in np.asarray(sums(array)))


@jax.jit
def sums(array: jax.Array) -> jax.Array:
    bits = _bits(array)
    place = jnp.zeros(bits.shape, jnp.uint32)
    for axis in range(bits.ndim):
        stride = math.prod(bits.shape[axis + 1 :]) % 2**32
        place += lax.broadcasted_iota(jnp.uint32, bits.shape, axis) * jnp.uint32(stride)
    terms = tuple(mixed(bits ^ mixed(place ^ jnp.uint32(seed))) for seed in _SEEDS)
    zeros = (jnp.uint32(0),) * len(terms)
    # Both sums in one reduction, which XLA fuses with what it adds up: for two it stores two arrays of that size.
    return jnp.stack(lax.reduce(terms, zeros, _added, tuple(range(bits.ndim))))


def _added(some: tuple[Any, ...], others: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(one + other for one, other in zip(some, others, strict=True))


def _bits(array: Any) -> jax.Array:
    """Returns the bits of an array as integers of 32 bits; of wider elements along an axis more."""
    array = words(array)
    if array.dtype == jnp.bool_:
        array = array.astype(jnp.uint8)
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        array = jnp.stack([array.real, array.imag], axis=-1)
    size = (jnp.finfo if jnp.issubdtype(array.dtype, jnp.floating) else jnp.iinfo)(array.dtype).bits
    # Of elements of 64 bits two halves, along a new axis.
    return lax.bitcast_convert_type(array, f"uint{min(size, 32)}").astype(jnp.uint32)
