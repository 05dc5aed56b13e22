"""Neutral elements: what changes nothing when it is joined with anything.

    a running sum from behind, of 10 elements in parts of 3: [1 1 1 | 1 1 1 | 1 1 1 | 1 ? ?]      ? must count as 0

Where an axis is padded, the last parts hold elements that are none. Before an operation joins all that it has, those
are made neutral (`padding`).
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..code.operations import Literal, Operation
from ..jax_compat import reducer
from .traits import IDEMPOTENT, TRAITS

# Functions that join two numbers, with the one that may come once more; any may where they are idempotent.
_NEUTRAL = {"add": 0, "mul": 1, "xor": 0}


def neutral(name: str, dtype: Any) -> Any:
    """The element that is neutral for a primitive: zero for a sum, one for a product, the least for a maximum.

    Zero for what joins nothing.
    """
    traits = TRAITS.get(name)
    joins = traits.joins if traits is not None else None
    if joins == "product":
        return jnp.ones((), dtype)
    if joins == "and":
        return ~jnp.zeros((), dtype)
    if joins not in ("max", "min"):
        return jnp.zeros((), dtype)
    if dtype == jnp.bool_:
        return jnp.asarray(joins == "min")
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.asarray(math.inf if joins == "min" else -math.inf, dtype)
    limits = jnp.iinfo(dtype)
    return jnp.asarray(limits.max if joins == "min" else limits.min, dtype)


def idle(operation: Operation) -> bool:
    """Whether it changes nothing if a reduction by a function of its own (`jaxpr`) meets its start once more."""
    body = reducer(operation.equation)
    start = operation.inputs[-1]
    if len(body.equations) != 1 or not isinstance(start, Literal) or set(body.equations[0].invars) != set(body.invars):
        return False
    name = body.equations[0].primitive.name
    return name in IDEMPOTENT or (name in _NEUTRAL and bool(np.all(start.value == _NEUTRAL[name])))
