"""The rule of Fourier transforms: the axes that are transformed are whole, the others run through.

XLA for CPU computes them on arrays whose axes lie in memory in their own order, and ends with an error where a gather
or a gradient's transposes left operand or result in another one. Both are held to that order, which is the usual one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..code.operations import Operation
from ..jax_compat import in_memory_order
from .local_forms import bound
from .table import Factors, Facts, rule
from .traits import FIRST, opaque


# What it costs is what it moves (`matmuls`).
@rule("fft", traits=opaque(linear=FIRST, multiplies=None))
def _fft(operation: Operation, facts: Facts) -> Factors:
    rank = len(facts.operands[0])
    kept = rank - len(operation.params["fft_lengths"])
    # Frequencies are no times, and of real numbers there are fewer of them.
    result = tuple(i if i < kept else i + rank for i in range(rank))
    return Factors((tuple(range(rank)),), (result,), whole=frozenset(range(kept, 2 * rank)))


@bound("fft")
def _in_order(operation: Operation, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    (operand,) = map(in_memory_order, operands)
    return [in_memory_order(operation.equation.primitive.bind(operand, **params))]
