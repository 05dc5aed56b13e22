"""Rules of linear algebra and Fourier transforms shard stacks of matrices or signals, each of which is unsharded.

    cholesky          [batch, n, m]              → [batch, n, m]           n and m unsharded
    triangular_solve  [batch, n, m], [batch, n, k] → [batch, n, k]         k runs through too: one solution per column

A single large matrix is gathered; algorithms that shard one are other programs, not other layouts of this one. Blocked
factorizations are matmuls for the most part, and are priced so (`matmuls`).

XLA for CPU computes Fourier transforms in row-major order alone, and fails where a gather or a gradient's transposes
give operand or result another layout in memory. So both are constrained to that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..code.operations import Operation
from ..jax_compat import in_memory_order
from . import matmuls
from .per_shard import binder
from .table import Factors, Facts, rule, without_rule
from .traits import FIRST, NOWHERE, Traits, linear_in, opaque

# How many axes of the first operand belong to a matrix or vector; the axes before are the stack.
_RANKS = {
    "cholesky": 2,
    "eig": 2,
    "eigh": 2,
    "hessenberg": 2,
    "householder_product": 2,
    "lu": 2,
    "lu_pivots_to_permutation": 1,
    "ormqr": 2,
    "qr": 2,
    "schur": 2,
    "svd": 2,
    "symmetric_product": 2,
    "tridiagonal": 2,
}


def _factorizing(multiplies: matmuls.Multiplies | None, *linear: int) -> Traits:
    return opaque(linear=linear_in(linear) if linear else NOWHERE, multiplies=multiplies)


@rule("cholesky", traits=_factorizing(matmuls.of_square(1 / 3)))
@rule("eig", traits=_factorizing(matmuls.of_eigenvalues("compute_left_eigenvectors", "compute_right_eigenvectors")))
@rule("eigh", traits=_factorizing(matmuls.of_square(9)))
@rule("hessenberg", traits=_factorizing(matmuls.of_square(10 / 3)))
@rule("householder_product", traits=_factorizing(matmuls.of_reflected))
@rule("lu", traits=_factorizing(matmuls.of_lu))
@rule("lu_pivots_to_permutation", traits=_factorizing(None))
@rule("ormqr", traits=_factorizing(matmuls.of_applied_reflectors, 2))
@rule("qr", traits=_factorizing(matmuls.of_qr))
@rule("schur", traits=_factorizing(matmuls.of_eigenvalues("compute_schur_vectors")))
@rule("svd", traits=_factorizing(matmuls.of_svd))
@rule("symmetric_product", traits=_factorizing(matmuls.of_own_product))
@rule("tridiagonal", traits=_factorizing(matmuls.of_square(4 / 3)))
def _of_stacks(operation: Operation, facts: Facts) -> Factors:
    stack = len(facts.operands[0]) - _RANKS[operation.name]
    count, axes = stack, []
    for shape in (*facts.operands, *facts.results):
        # The columns of a factor are not those of the matrix: each array has axes of its own.
        own = range(count, count + len(shape) - stack)
        axes.append((*range(stack), *own))
        count = own.stop
    cut = len(facts.operands)
    return Factors(tuple(axes[:cut]), tuple(axes[cut:]), unsharded=frozenset(range(stack, count)))


@rule("triangular_solve", traits=_factorizing(matmuls.of_triangular_solve, 1))
def _triangular_solve(operation: Operation, facts: Facts) -> Factors:
    right = facts.operands[1]
    rank = len(right)
    axes = tuple(range(rank))
    solved = rank - 2 if operation.params["left_side"] else rank - 1
    return Factors(((*range(rank - 2), rank, rank + 1), axes), (axes,), unsharded=frozenset((solved, rank, rank + 1)))


# Of a few operations for each element.
@rule("tridiagonal_solve", traits=_factorizing(None, 3))
def _tridiagonal_solve(_operation: Operation, facts: Facts) -> Factors:
    rank = len(facts.operands[3])
    axes = tuple(range(rank))
    diagonal = axes[:-1]
    return Factors((diagonal, diagonal, diagonal, axes), (axes,), unsharded=frozenset((rank - 2,)))


# `jax.nn.scaled_matmul` of narrow floats, which rounds at every step.
without_rule("scaled_matmul_wrapper", traits=_factorizing(matmuls.of_rows))


# It is memory-bound (`matmuls`).
@rule("fft", traits=opaque(linear=FIRST, multiplies=None))
def _fft(operation: Operation, facts: Facts) -> Factors:
    rank = len(facts.operands[0])
    stack = rank - len(operation.params["fft_lengths"])
    # Frequencies are another dim than times; of a real signal there are fewer of them.
    result = tuple(i if i < stack else i + rank for i in range(rank))
    return Factors((tuple(range(rank)),), (result,), unsharded=frozenset(range(stack, 2 * rank)))


@binder("fft")
def _in_order(operation: Operation, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    (operand,) = map(in_memory_order, operands)
    return [in_memory_order(operation.equation.primitive.bind(operand, **params))]
