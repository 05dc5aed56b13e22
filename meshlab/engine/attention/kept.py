"""Tells where an operation takes its elements over from another value."""

from __future__ import annotations

import jax.numpy as jnp

from ..code.operations import Input, Operation
from ..rules import names_where

_KEEPS = names_where(lambda traits: traits.keeps)
# The fewest bits of a fraction with which scores are still what they were: those of bfloat16.
_FRACTION = 7


def kept(operation: Operation | None, value: int) -> Input | None:
    """Returns what has the elements of a result, in whatever order and precision of 16 bits or more; None.

    Whole numbers, and floats of 8 bits, are other numbers.
    """
    if operation is None or not operation.inputs or not _rounds_little(operation):
        return None
    # A barrier has as many results as operands.
    return operation.inputs[operation.outputs.index(value)]


def _rounds_little(operation: Operation) -> bool:
    if operation.name == "reduce_precision":
        return operation.params["mantissa_bits"] >= _FRACTION
    if operation.name == "convert_element_type":
        dtype = operation.params["new_dtype"]
        return bool(jnp.issubdtype(dtype, jnp.floating)) and jnp.finfo(dtype).nmant >= _FRACTION
    return operation.name in _KEEPS
