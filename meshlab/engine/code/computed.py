"""Computes elements as a program does: what an operation makes of arrays that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .operations import Operation


def computed(operation: Operation, operands: Sequence[Any], dtypes: Sequence[Any] | None = None) -> Any:
    """Returns what an elementwise operation makes of arrays, in its own dtypes or others."""
    dtypes = dtypes or [variable.aval.dtype for variable in operation.equation.invars]
    arrays = [np.asarray(x).astype(dtype) for x, dtype in zip(operands, dtypes, strict=True)]
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return np.asarray(operation.equation.primitive.bind(*np.broadcast_arrays(*arrays), **operation.params))
