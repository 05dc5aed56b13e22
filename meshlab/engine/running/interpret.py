"""Interprets operations with blocks, loops, branches and rematerialised regions, by JAX's own control flow.

A plan's steps on one device's shards (`lower.py`) and a program's operations on unsharded arrays
(`verifying/xla_partitioner.py`) are evaluated by the same loops and branches; they differ in how a block is evaluated:

    run_blocks(scan, (carry, xs), evaluate)   =   lax.scan(lambda carry, x: evaluate(0, (carry, x)), carry, xs)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..code.loops import carried
from ..code.operations import Operation
from ..jax_compat import scan_options

# Evaluates the block of a number on its inputs, and returns its outputs.
Evaluate = Callable[[int, Sequence[Any]], Sequence[Any]]
# Returns the arrays of values of these numbers, constrained as they must lie.
Constrain = Callable[[Sequence[int], Iterable[Any]], list[Any]]


def run_blocks(
    operation: Operation,
    operands: Sequence[Any],
    evaluate: Evaluate,
    constrain: Constrain = lambda _, arrays: list(arrays),
) -> Sequence[Any]:
    """Runs an operation with blocks on its operands; returns its results.

    Args:
        operation: a loop, a `cond`, or a rematerialised region.
        operands: the arrays of its inputs.
        evaluate: what runs a block.
        constrain: what constrains a loop's carry, alike where it comes in and where an iteration returns it.
    """
    if operation.name in ("scan", "while"):
        return _loop(operation, operands, evaluate, constrain)
    if operation.name == "cond":
        return _branches(operation, operands, evaluate)
    # The barrier keeps the compiler from merging the region with the first computation.
    return evaluate(0, lax.optimization_barrier([jnp.asarray(operand) for operand in operands]))


def _loop(operation: Operation, operands: Sequence[Any], evaluate: Evaluate, constrain: Constrain) -> Sequence[Any]:
    """Runs a `scan` over slices, or a `while` that goes on as long as its test says so, on all devices alike."""
    count = carried(operation)
    numbers, dtypes = operation.blocks[0].inputs[:count], [v.aval.dtype for v in operation.equation.outvars[:count]]

    def carry(arrays: Sequence[Any]) -> list[Any]:
        return constrain(numbers, map(jnp.asarray, arrays[:count], dtypes))

    def iteration(before: Sequence[Any], slices: Sequence[Any] = ()) -> tuple[list[Any], list[Any]]:
        results = evaluate(0, (*before, *slices))
        return carry(results), list(results[count:])

    if operation.name == "while":
        return lax.while_loop(lambda c: evaluate(1, c)[0], lambda c: iteration(c)[0], carry(operands))
    options = scan_options(operation.equation)
    if len(operands) > count:  # a stage of a pipeline has some of the layers
        options["length"] = jnp.shape(operands[count])[0]
    last, stacked = lax.scan(iteration, carry(operands), list(operands[count:]), **options)
    return [*last, *stacked]


def _branches(operation: Operation, operands: Sequence[Any], evaluate: Evaluate) -> Sequence[Any]:
    """Runs one of several branches, the same on all devices; they read the values around them by themselves."""
    dtypes = [v.aval.dtype for v in operation.equation.outvars]

    def branch(number: int) -> Callable[[], list[Any]]:
        return lambda: list(map(jnp.asarray, evaluate(number, ()), dtypes))

    return lax.switch(jnp.asarray(operands[0], jnp.int32), [branch(i) for i in range(len(operation.blocks))])
