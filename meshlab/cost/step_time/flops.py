"""Counts the floating-point operations of one device: those of matmuls.

    dot_general [batch/2, embed] x [embed, ffn/4] → [batch/2, ffn/4]        2 · batch/2 · ffn/4 · embed

A multiplication and its addition count as two operations, as in machines' figures (Chowdhery et al. 2022, PaLM,
appendix B); those of complex numbers as eight, four multiplications and four additions of their parts. A primitive's
matmuls are one of its traits (`engine/rules/matmuls`): exact for contractions and convolutions, to the leading order
for factorizations. All other operations run on the vector units, and take the time of their memory traffic: they are
not counted.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...engine.code.operations import Code, Literal, Operation
from ...engine.planning.operation_specs import as_met
from ...engine.planning.steps import Compute
from ...engine.rules import TRAITS
from ..workload.expert_loads import as_filled
from ..workload.scenario import Numbers, Scenario


@dataclasses.dataclass(frozen=True)
class Matmul:
    """A batched matmul on one device: [rows, inner] x [inner, columns], `times` of them.

    Attributes:
        rows: of the first operand and of the result.
        columns: of the second operand and of the result.
        inner: the contracted size.
        times: the size of the batch dims.
        dtype: of the operands, the wider one; of complex numbers, that of their parts.
    """

    rows: Numbers
    columns: Numbers
    inner: Numbers
    times: Numbers
    dtype: Any

    @property
    def flops(self) -> Numbers:
        """Multiplications and additions."""
        return 2.0 * self.rows * self.columns * self.inner * self.times


def multiplied(operation: Operation, code: Code) -> tuple[Any, int] | None:
    """Returns the dtype of an operation's matmuls, and the real matmuls of each, if the matrix units run them.

    They run matmuls of floats, or of integers of a byte or less. A complex matmul is four real ones; one of booleans,
    of wide integers, or of no elements is none.
    """
    traits = TRAITS.get(operation.name)
    if traits is None or traits.multiplies is None:
        return None
    if any([0 in code.shape_of(value) for value in (*operation.inputs[:2], *operation.outputs)]):
        return None
    operands = [code.dtypes[value] for value in operation.inputs[:2] if isinstance(value, int)]
    return _of_dtypes(operands[0], operands[-1])


def multiplied_at(operation: Operation, scenario: Scenario) -> tuple[Any, int] | None:
    """Returns the same in the numbers in which a scenario computes it."""
    real = multiplied(operation, scenario.plan.program.code)
    return real and (scenario.dtype_of(operation, real[0]), real[1])


@functools.cache
def _of_dtypes(one: Any, other: Any) -> tuple[Any, int] | None:
    dtype = jnp.promote_types(one, other)
    is_narrow = jnp.issubdtype(dtype, np.integer) and np.dtype(dtype).itemsize == 1
    if not (is_narrow or jnp.issubdtype(dtype, np.inexact)):
        return None
    return (jnp.finfo(dtype).dtype, 4) if jnp.issubdtype(dtype, np.complexfloating) else (dtype, 1)


def matmul_of(step: Compute, scenario: Scenario) -> Matmul | None:
    """Returns the matmul of a step, if the matrix units run it; see `multiplied`."""
    return matmul_in(step.operation, scenario, lambda: shapes(step, scenario))


def matmul_in(
    operation: Operation, scenario: Scenario, shaped: Callable[[], Sequence[tuple[Numbers, ...]]]
) -> Matmul | None:
    """Returns the matmul of an operation, if the matrix units run it; see `multiplied`.

    Args:
        operation: of the program.
        scenario: which says in which numbers it is computed.
        shaped: returns the shapes of its operands, and of its first result.
    """
    real = multiplied_at(operation, scenario)
    if real is None:
        return None
    dtype, each = real
    count = TRAITS[operation.name].multiplies
    assert count is not None
    *operands, result = shaped()
    rows, columns, inner, times = count(operation, operands, result)
    return Matmul(rows, columns, inner, times * each, dtype)


def touches_scores(operation: Operation, scenario: Scenario) -> bool:
    """Says whether an operation reads or makes scores of attention that a fused kernel computes."""
    return any(map(scenario.is_score, (*operation.reads, *operation.outputs)))


def shapes(step: Compute, scenario: Scenario) -> list[tuple[Numbers, ...]]:
    """Returns the shapes of a step's operands, and of its first result, on one device; literals are scalars.

    Of rows of experts there are as many as on the busiest device.
    """
    operation = step.operation
    read = [
        () if isinstance(value, Literal) or spec is None else scenario.local((value, spec))
        for value, spec in zip(operation.inputs, step.operands, strict=True)
    ]
    factors = scenario.plan.program.factors[operation]
    if factors.exchangeable:
        read = as_met(factors, step.operands, read, scenario.grid)
    if factors.routed:
        read = as_filled(step, read, scenario)
    return [*read, scenario.local((operation.outputs[0], step.results[0]))]
