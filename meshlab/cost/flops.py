"""The floating-point operations of one device: products exactly, all else by its elements.

    dot_general [batch/2, embed] x [embed, ffn/4] → [batch/2, ffn/4]        2 · batch/2 · ffn/4 · embed

A product's multiplications and additions count as two operations, as in machines' figures (Chowdhery et al. 2022, PaLM,
appendix B). What is no product counts one operation for each element that it makes, or, where it makes fewer than it
reads, as sums do, for each that it reads: these run on the vector units, whose time is that of the memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..engine.code import Literal
from ..engine.spec import local_shape
from ..engine.steps import Compute

if TYPE_CHECKING:
    from ..engine.program import Program

PRODUCTS = ("dot_general", "conv_general_dilated")


def step_flops(step: Compute, program: Program, sizes: Mapping[str, int]) -> float:
    """Returns the operations of one step on one device.

    Args:
        step: of a plan.
        program: its program.
        sizes: the mesh axes' sizes.
    """
    operands, results = local_shapes(step, program, sizes)
    if step.operation.name == "dot_general":
        (contracted, _), _ = step.operation.params["dimension_numbers"]
        return 2.0 * math.prod(results[0]) * math.prod(operands[0][axis] for axis in contracted)
    if step.operation.name == "conv_general_dilated":
        _, inputs, *window = step.operation.params["dimension_numbers"].rhs_spec
        taps = math.prod(operands[1][axis] for axis in (inputs, *window))
        return 2.0 * math.prod(results[0]) * taps
    made, read = (sum(map(math.prod, shapes)) for shapes in (results, operands))
    return float(max(made, read if len(operands) == 1 else 0))


def local_shapes(
    step: Compute, program: Program, sizes: Mapping[str, int]
) -> tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]:
    """The shapes of what a step reads and makes on one device; literals are scalars."""
    code = program.code
    operands = [
        () if isinstance(value, Literal) or spec is None else local_shape(code.shapes[value], spec, sizes)
        for value, spec in zip(step.operation.inputs, step.operands, strict=True)
    ]
    results = [
        local_shape(code.shapes[value], spec, sizes)
        for value, spec in zip(step.operation.outputs, step.results, strict=True)
    ]
    return operands, results
