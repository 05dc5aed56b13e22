"""Mixes the bits of integers, as hashes do: the result looks random, and depends on the integer alone.

mixed(jnp.arange(2, dtype=jnp.uint32))        [0, 0x514e28b7]
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp


def mixed(bits: Any) -> Any:
    """Returns integers mixed one to one: the last steps of MurmurHash3, in which each bit changes half of all."""
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x85EBCA6B)
    bits = (bits ^ (bits >> 13)) * jnp.uint32(0xC2B2AE35)
    return bits ^ (bits >> 16)
