"""The floating-point operations of one device: those of products, exactly.

    dot_general [batch/2, embed] x [embed, ffn/4] → [batch/2, ffn/4]        2 · batch/2 · ffn/4 · embed

A product's multiplications and additions count as two operations, as in machines' figures (Chowdhery et al. 2022, PaLM,
appendix B); those of complex numbers as eight, four multiplications and four additions of their parts.
What is no product runs on the vector units, whose time is that of the memory: it is not counted.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..engine.code import Code, Literal, Operation
from ..engine.steps import Compute

if TYPE_CHECKING:
    from .setting import Numbers, Setting

PRODUCTS = ("dot_general", "conv_general_dilated")


@dataclasses.dataclass(frozen=True)
class Product:
    """A product of matrices on one device: [rows, inner] x [inner, columns], so often.

    Attributes:
        rows: of the first operand and of the result.
        columns: of the second operand and of the result.
        inner: what is summed.
        times: how many such products: the dims that ride along.
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
    """Returns of what dtype the products of an operation are, if the matrix units compute them, and how many there are.

    Those are products of floats, or of integers of a byte or less. One of complex numbers is four of their parts; one
    of truth values, of wide integers, or of no elements is none.
    """
    if operation.name not in PRODUCTS:
        return None
    operands = [code.dtypes[value] for value in operation.inputs[:2] if isinstance(value, int)]
    dtype = jnp.promote_types(operands[0], operands[-1])
    is_narrow = jnp.issubdtype(dtype, np.integer) and np.dtype(dtype).itemsize == 1
    is_empty = any(0 in code.shape_of(value) for value in (*operation.inputs[:2], *operation.outputs))
    if is_empty or not (is_narrow or jnp.issubdtype(dtype, np.inexact)):
        return None
    return (jnp.finfo(dtype).dtype, 4) if jnp.issubdtype(dtype, np.complexfloating) else (dtype, 1)


def product_of(step: Compute, setting: Setting) -> Product | None:
    """Returns the product that a step computes, if it is one that the matrix units compute; see `multiplied`."""
    operation = step.operation
    found = multiplied(operation, setting.plan.program.code)
    if found is None:
        return None
    dtype, each = found
    first, second, result = shapes(step, setting)
    if operation.name == "dot_general":
        (summed, _), (riding, _) = operation.params["dimension_numbers"]
        inner, times = (math.prod(first[axis] for axis in axes) for axes in (summed, riding))
        rows = math.prod(size for axis, size in enumerate(first) if axis not in (*summed, *riding))
        return Product(rows, math.prod(result) / (rows * times), inner, times * each, dtype)
    numbers = operation.params["dimension_numbers"]
    features, inputs, *window = numbers.rhs_spec
    rows = math.prod(size for axis, size in enumerate(result) if axis != numbers.out_spec[1])
    taps = math.prod(second[axis] for axis in (inputs, *window))
    # Groups of channels are products of their own.
    groups = operation.params["feature_group_count"]
    return Product(rows, second[features] / groups, taps, groups * each, dtype)


def shapes(step: Compute, setting: Setting) -> list[tuple[Numbers, ...]]:
    """The shapes of what a step reads, and of the first that it makes, on one device; literals are scalars."""
    operation = step.operation
    read = [
        () if isinstance(value, Literal) or spec is None else setting.local((value, spec))
        for value, spec in zip(operation.inputs, step.operands, strict=True)
    ]
    return [*read, setting.local((operation.outputs[0], step.results[0]))]
