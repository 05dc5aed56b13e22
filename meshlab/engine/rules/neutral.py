"""A neutral element changes nothing when it is joined with another: zero for a sum, -inf for a maximum.

    a running sum from behind, of 10 elements in shards of 3: [1 1 1 | 1 1 1 | 1 1 1 | 1 ? ?]      ? must count as 0

Where an axis is padded, the last shards end in padding. Before an operation joins all elements of a shard, the padding
is replaced by neutral elements (`running.padding`).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..code.operations import Literal, Operation
from ..jax_compat import reducer
from .traits import IDEMPOTENT, TRAITS

# Functions that join two numbers, with their neutral element; where they are idempotent any start is neutral.
_NEUTRAL = {"add": 0, "mul": 1, "xor": 0}


def neutral(name: str, dtype: Any) -> np.ndarray:
    """Returns the neutral element of a primitive; zero where it joins nothing."""
    traits = TRAITS.get(name)
    joins = traits.joins if traits is not None else None
    if joins not in ("max", "min"):
        return np.asarray({"product": 1, "and": -1}.get(joins or "", 0)).astype(dtype)
    if jnp.issubdtype(dtype, jnp.bool_):
        return np.asarray(joins == "min")
    if jnp.issubdtype(dtype, jnp.inexact):
        return np.asarray(np.inf if joins == "min" else -np.inf, dtype)
    limits = jnp.iinfo(dtype)
    return np.asarray(limits.max if joins == "min" else limits.min, dtype)


def idle(operation: Operation) -> bool:
    """Says whether a reduction by a function of its own (`jaxpr`) may join its start value once more."""
    body = reducer(operation.equation)
    start = operation.inputs[-1]
    if len(body.equations) != 1 or not isinstance(start, Literal) or set(body.equations[0].invars) != set(body.invars):
        return False
    name = body.equations[0].primitive.name
    return name in IDEMPOTENT or (name in _NEUTRAL and bool(np.all(start.value == _NEUTRAL[name])))
