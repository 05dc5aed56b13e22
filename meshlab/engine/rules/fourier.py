"""The rule of Fourier transforms: the axes that are transformed are whole, the others run through."""

from __future__ import annotations

from ..code import Operation
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
