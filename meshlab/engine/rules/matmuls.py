"""Counts the matmuls of a primitive: [rows, inner] x [inner, columns], `times` of them.

    dot_general [batch/2, embed] x [embed, ffn/4] → [batch/2, ffn/4]      2 · batch/2 · embed · ffn/4 operations
    ragged_dot  [rows, embed] x [group, embed, ffn] → [rows, ffn]         2 · rows · embed · ffn: a row meets one group
    cholesky    [n, n] → [n, n]                                           n³/3

The first two are exact. Factorizations are blocked, so that nearly all their work is matmuls; their counts are those of
LAPACK, to the leading order in the sizes: S. Blackford and J. Dongarra, *Installation Guide for
LAPACK* (LAPACK Working Note 41), appendix C; for eigenvalues and singular values, Golub and Van Loan, *Matrix
Computations*, 4th edition, 7.5.6, 8.3.5 and figure 8.6.1. They are written as one matmul of the matrix's own rows and
columns that takes as many operations.

A Fourier transform is no matmul: its 5·N·log₂N operations are additions and rotations, which run on the vector units,
and for any N that fits in memory it takes less than ten operations for each byte that it reads or writes.

Sizes are numbers, or arrays of numbers: one function serves one plan and a sweep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..code.operations import Operation

Sizes = Sequence[Any]


class Matmuls(NamedTuple):
    """Describes matmuls [rows, inner] x [inner, columns], `times` of them."""

    rows: Any
    columns: Any
    inner: Any
    times: Any

    @property
    def products(self) -> Any:
        """Returns the number of multiply-adds: half the floating-point operations."""
        return self.rows * self.columns * self.inner * self.times


Multiplies = Callable[[Operation, Sequence[Sizes], Sizes], Matmuls]


def of_dot(operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
    """Counts a contraction: summed axes are inner, batched ones times."""
    return _contracted(operation.params["dimension_numbers"], operands, ())


def of_ragged_dot(operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
    """Counts a grouped contraction: each row, or each summed element, is in one group."""
    numbers = operation.params["ragged_dot_dimension_numbers"]
    return _contracted(numbers.dot_dimension_numbers, operands, numbers.rhs_group_dimensions)


def _contracted(numbers: Any, operands: Sequence[Sizes], groups: Sequence[int]) -> Matmuls:
    """Counts a contraction; some axes of the second operand are groups, of which each row meets one."""
    (left, right), ((summed, others), (riding, along)) = operands[:2], numbers
    inner, times = (math.prod(left[axis] for axis in axes) for axes in (summed, riding))
    rows = math.prod(size for axis, size in enumerate(left) if axis not in (*summed, *riding))
    columns = math.prod(size for axis, size in enumerate(right) if axis not in (*others, *along, *groups))
    return Matmuls(rows, columns, inner, times)


def of_convolution(operation: Operation, operands: Sequence[Sizes], result: Sizes) -> Matmuls:
    """Counts a convolution: a window's elements are inner; groups of channels are matmuls of their own."""
    second, numbers = operands[1], operation.params["dimension_numbers"]
    features, inputs, *window = numbers.rhs_spec
    rows = math.prod(size for axis, size in enumerate(result) if axis != numbers.out_spec[1])
    taps = math.prod(second[axis] for axis in (inputs, *window))
    groups = operation.params["feature_group_count"]
    return Matmuls(rows, second[features] / groups, taps, groups)


def of_square(each: float) -> Multiplies:
    """Returns the count of a factorization of square matrices that takes `each` · n³ operations."""

    def count(_operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
        *stack, _, n = operands[0]
        return Matmuls(n, n, each / 2 * n, math.prod(stack))

    return count


def of_eigenvalues(*vectors: str) -> Multiplies:
    """Returns the count of eigenvalues: 10n³ operations; 25n³ where one of some parameters asks for vectors."""
    both = of_square(25), of_square(10)

    def count(operation: Operation, operands: Sequence[Sizes], result: Sizes) -> Matmuls:
        return both[not any(operation.params[name] for name in vectors)](operation, operands, result)

    return count


def of_triangular_solve(operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
    """Counts a solve of a triangular matrix of n rows for k columns: k · n² operations (xTRSM)."""
    *stack, rows, columns = operands[1]
    n, k = (rows, columns) if operation.params["left_side"] else (columns, rows)
    return Matmuls(n, k, n / 2, math.prod(stack))


def _as_one(operations: Any, rows: Any, columns: Any, times: Any) -> Matmuls:
    return Matmuls(rows, columns, operations / (2 * np.maximum(rows * columns, 1)), times)


def _long_and_short(shape: Sizes) -> tuple[Any, Any, Any]:
    *stack, rows, columns = shape
    return np.maximum(rows, columns), np.minimum(rows, columns), math.prod(stack)


def of_lu(_operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
    """Counts m·n² - n³/3 for the shorter side n (xGETRF)."""
    m, n, times = _long_and_short(operands[0])
    return _as_one(m * n**2 - n**3 / 3, m, n, times)


def of_reflected(_operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
    """Counts a matrix [m, n] of k reflectors: 4·m·n·k - 2(m + n)·k² + 4k³/3 (xORGQR)."""
    *stack, m, n = operands[0]
    k = operands[1][-1]
    return _as_one(4 * m * n * k - 2 * (m + n) * k**2 + 4 * k**3 / 3, m, n, math.prod(stack))


def of_applied_reflectors(operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
    """Counts k reflectors on [m, n]: 4·m·n·k - 2·n·k² from the left; m and n swapped from the right (xORMQR)."""
    *stack, m, n = operands[2]
    k = operands[1][-1]
    other = n if operation.params["left"] else m
    return _as_one(4 * m * n * k - 2 * other * k**2, m, n, math.prod(stack))


def of_qr(operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
    """Counts the reflectors of [m, n], and their matrix: [m, m] in full, [m, k] else (xGEQRF and xORGQR).

    The former take 2·m·n² - 2n³/3 operations for the shorter side n.
    """
    *_, m, n = operands[0]
    long, k, times = _long_and_short(operands[0])
    wide = m if operation.params["full_matrices"] else k
    matrix = 4 * m * wide * k - 2 * (m + wide) * k**2 + 4 * k**3 / 3
    return _as_one(2 * long * k**2 - 2 * k**3 / 3 + matrix, m, n, times)


def of_svd(operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
    """Counts singular values of [m, n], m >= n: 4mn² - 4n³/3; with vectors 14mn² + 8n³; full 4m²n + 8mn² + 9n³."""
    m, n, times = _long_and_short(operands[0])
    if not operation.params["compute_uv"]:
        operations = 4 * m * n**2 - 4 * n**3 / 3
    elif operation.params["full_matrices"]:
        operations = 4 * m**2 * n + 8 * m * n**2 + 9 * n**3
    else:
        operations = 14 * m * n**2 + 8 * n**3
    return _as_one(operations, m, n, times)


def of_rows(_operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
    """Counts the rows of one matrix times those of another, both [rows, inner]."""
    (*stack, rows, inner), (*_, columns, _) = operands[:2]
    return Matmuls(rows, columns, inner, math.prod(stack))


def of_own_product(_operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
    """Counts a matrix [n, k] times its own transpose, computed as any other matmul."""
    *stack, n, k = operands[0]
    return Matmuls(n, n, k, math.prod(stack))
