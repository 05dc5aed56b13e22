"""A rank is a float as an integer in the same order, so that no extreme over devices loses a NaN.

    -inf < -1 < -0 = 0 < 1 < inf < NaN      float32, and int32 in the same order

Backends differ in how a collective treats NaN: a CPU's all-reduce of maxima drops it. So devices send ranks, which are
as wide: the bits of a float that is not negative are its rank already, and of a negative one all bits but the sign are
inverted. NaN ranks above all for a maximum, below all for a minimum: it wins, as in JAX.

Operations that take an extreme of one array send the same ranks, so they are sent once. All of it is written in `lax`:
functions of `jax.numpy` are traced as calls, which takes several times as long, while somebody waits for a plan.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..collectives.device import Device
from ..specs.spec import Axes


def extreme(device: Device, value: Any, axes: Axes, kind: str) -> Any:
    """Returns the "max" or "min" of all devices' values; NaN where one is NaN."""
    return from_rank(device.all_reduce(to_rank(value, kind), axes, kind), value.dtype)


def to_rank(value: Any, kind: str) -> Any:
    """Returns integers in the order of floats, for a "max" or a "min"; an integer is its own rank."""
    if not jnp.issubdtype(value.dtype, jnp.floating):
        return value
    # Both zeros are equal, and so are denormal numbers where the backend flushes them to zero, as on a CPU.
    zero = _filled(value, 0)
    value = lax.convert_element_type(lax.select(lax.eq(value, zero), zero, value), _sent(value.dtype))
    bits = lax.bitcast_convert_type(value, _integer(value.dtype))
    limits = jnp.iinfo(bits.dtype)
    beyond = _filled(bits, limits.max if kind == "max" else limits.min)
    return lax.select(lax.ne(value, value), beyond, _inverted(bits))


def from_rank(rank: Any, dtype: Any) -> Any:
    """Returns the floats of some ranks; of the least and of the greatest rank NaN."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return rank
    return lax.convert_element_type(lax.bitcast_convert_type(_inverted(rank), _sent(dtype)), dtype)


def _inverted(bits: Any) -> Any:
    """Converts the bits of floats to ranks, and ranks to bits: inverts all but the sign of negative ones."""
    inverted = lax.bitwise_xor(bits, _filled(bits, jnp.iinfo(bits.dtype).max))
    return lax.select(lax.lt(bits, _filled(bits, 0)), inverted, bits)


def _filled(like: Any, number: int) -> Any:
    """Fills the shape of an array with one number: `lax.full_like`, in a third of its time."""
    return lax.broadcast(np.asarray(number, like.dtype), like.shape)


def _sent(dtype: Any) -> Any:
    """Returns the float that is sent: bfloat16 for 8-bit ones, some of which have a single NaN and no infinity."""
    return jnp.bfloat16 if jnp.dtype(dtype).itemsize == 1 else dtype


def _integer(dtype: Any) -> Any:
    return {2: jnp.int16, 4: jnp.int32, 8: jnp.int64}[jnp.dtype(dtype).itemsize]
