"""Ranks: floats as integers in the same order, so that no extreme over devices loses a NaN.

    -inf < -1 < -0 = 0 < 1 < inf < NaN      float32, and int32 in the same order

What a collective makes of NaN is the backend's affair: a CPU's all-reduce of maxima drops it. So devices send ranks,
which are as wide: read as an integer, a float that is not negative has its rank already, and of negative ones all bits
but the sign are turned round. NaN stands above all for a maximum, below all for a minimum: it wins, as in JAX.

Whatever asks for an extreme of one array sends the same ranks, so they are sent once. All of it is written in `lax`:
functions of `jax.numpy` are traced as calls, which takes several times as long, while somebody waits for a plan.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..specs.spec import Axes
from .local_forms import Device


def extreme(device: Device, value: Any, axes: Axes, kind: str) -> Any:
    """Returns the greatest of what all devices have, or the least; NaN where one has NaN.

    Args:
        device: this one.
        value: what it has.
        axes: the mesh axes along which the others stand.
        kind: "max" or "min".
    """
    return from_rank(device.all_reduce(to_rank(value, kind), axes, kind), value.dtype)


def to_rank(value: Any, kind: str) -> Any:
    """Returns integers in the order of floats, for a "max" or a "min"; what is no float is its own rank."""
    if not jnp.issubdtype(value.dtype, jnp.floating):
        return value
    # Both zeros are equal, and so is what the backend takes for zero: denormal numbers, on a CPU.
    zero = _filled(value, 0)
    value = lax.convert_element_type(lax.select(lax.eq(value, zero), zero, value), _sent(value.dtype))
    bits = lax.bitcast_convert_type(value, _integer(value.dtype))
    limits = jnp.iinfo(bits.dtype)
    beyond = _filled(bits, limits.max if kind == "max" else limits.min)
    return lax.select(lax.ne(value, value), beyond, _turned(bits))


def from_rank(rank: Any, dtype: Any) -> Any:
    """Returns the floats of some ranks; of the least and of the greatest rank NaN."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return rank
    return lax.convert_element_type(lax.bitcast_convert_type(_turned(rank), _sent(dtype)), dtype)


def _turned(bits: Any) -> Any:
    """Bits of floats as ranks, and ranks as bits: of negative ones all but the sign is turned round."""
    turned = lax.bitwise_xor(bits, _filled(bits, jnp.iinfo(bits.dtype).max))
    return lax.select(lax.lt(bits, _filled(bits, 0)), turned, bits)


def _filled(like: Any, number: int) -> Any:
    """One number in the shape of an array: `lax.full_like`, in a third of its time."""
    return lax.broadcast(np.asarray(number, like.dtype), like.shape)


def _sent(dtype: Any) -> Any:
    """The float that is sent: the 8-bit ones, some of which have but one NaN and no infinity, as bfloat16."""
    return jnp.bfloat16 if jnp.dtype(dtype).itemsize == 1 else dtype


def _integer(dtype: Any) -> Any:
    return {2: jnp.int16, 4: jnp.int32, 8: jnp.int64}[jnp.dtype(dtype).itemsize]
