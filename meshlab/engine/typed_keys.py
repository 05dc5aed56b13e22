"""Typed PRNG keys: which arrays hold them, and the words that they consist of.

is_key(jax.random.key(0))       True
words(jax.random.key(0))        [0, 0], as uint32
words(x)                        x
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def is_key(array: Any) -> bool:
    """Says whether an array, or what stands for one, holds typed keys; what has no dtype does not."""
    return jnp.issubdtype(getattr(array, "dtype", np.float32), jax.dtypes.prng_key)


def words(array: Any) -> Any:
    """Returns the words of typed keys; every other array as it is."""
    return jax.random.key_data(array) if is_key(array) else array
