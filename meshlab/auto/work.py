"""The work of one device: how far a layout divides the contractions.

A layout that splits nothing sends nothing, so the least traffic alone would be no answer: every device would do all of
the work. What is asked of a layout first is that it uses the machine. Of a contraction over dims of sizes b, h, c one
device computes b·h·c products, divided by every mesh axis that splits one of its dims; all contractions of one run
together are the **work** of one device. The least work that any legal layout reaches is the measure; layouts that do
at most `SLACK` more are those among which the traffic is compared.

    README model on 2 × 2: `batch` and `hidden` divide every contraction by 4      work = least
                           `rows` and `hidden` leave the logits' divided by 2      work = least + 1.9 %: not compared

A program without contractions is measured by the elements of all its results instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ..engine.code import Block, Operation
from ..engine.plan import Plan
from ..engine.program import Program
from ..engine.spec import local_shape
from ..engine.steps import Compute, counted
from .space import Space, Splits
from .tables import Dims, Table

SLACK = 0.01
_CONTRACTION = "dot_general"


def work_tables(program: Program, space: Space) -> tuple[Table, ...]:
    """The work of one device, as tables over the dims of each contraction."""
    amounts: dict[Dims, float] = {}
    for operation, times in _measured(program):
        dims = space.free(_dims(program, operation))
        amounts[dims] = amounts.get(dims, 0.0) + times * _products(program, operation)
    return tuple(
        Table(dims, {part: amount / _divided(part, space.axes) for part in space.splits(dims)})
        for dims, amount in amounts.items()
    )


def least_possible(tables: tuple[Table, ...], space: Space, part: Splits, about: Dims) -> float:
    """A bound from below on the work of every layout of which `part` is what it says about some dims."""
    return sum(
        min(
            (cost for other, cost in table.costs.items() if _agree(space, part, about, other, table.dims)),
            default=math.inf,
        )
        for table in tables
    )


def work_of(plan: Plan) -> float:
    """The work of one device in one run of a plan, read off its steps."""
    program = plan.program
    measured = {operation for operation, _ in _measured(program)}
    work = 0.0
    for step, times in counted(plan.steps):
        if isinstance(step, Compute) and step.operation in measured:
            sizes: dict[int, int] = {}
            factors = program.factors[step.operation]
            values = (*step.operation.inputs, *step.operation.outputs)
            specs = (*step.operands, *step.results)
            for value, spec, axes in zip(values, specs, (*factors.operands, *factors.results), strict=True):
                if isinstance(value, int) and spec is not None:
                    sizes.update(zip(axes, local_shape(program.code.shapes[value], spec, plan.mesh.axes), strict=True))
            work += times * math.prod(size for factor, size in sizes.items() if factor >= 0)
    return work


def _agree(space: Space, part: Splits, about: Dims, other: Splits, dims: Dims) -> bool:
    """Whether two parts of layouts, each about some dims, can belong to one layout."""
    shared = about & dims
    if any((pair in other) != (pair in part) for pair in (*part, *other) if pair[0] in shared):
        return False
    return all(space.fits(*pair, part) for pair in other - part)


def _measured(program: Program) -> list[tuple[Operation, int]]:
    every = list(_operations(program.code.block, 1))
    contractions = [(op, times) for op, times in every if op.name == _CONTRACTION]
    return contractions or [(op, times) for op, times in every if program.factors[op].known]


def _operations(block: Block, times: int) -> Iterator[tuple[Operation, int]]:
    """Every operation that is no block, with how often it runs."""
    for operation in block.operations:
        if operation.body is None:
            yield operation, times
        else:
            inside = operation.params["length"] if operation.name == "scan" else 1
            yield from _operations(operation.body, times * inside)


def _dims(program: Program, operation: Operation) -> Dims:
    return frozenset(dim for _, dim in program.factor_dims[operation])


def _products(program: Program, operation: Operation) -> int:
    factors, shapes = program.factors[operation], program.code.shapes
    sizes: dict[int, int] = {}
    values = (*operation.inputs, *operation.outputs)
    for value, axes in zip(values, (*factors.operands, *factors.results), strict=True):
        if isinstance(value, int):
            sizes.update(zip(axes, shapes[value], strict=True))
    return math.prod(size for factor, size in sizes.items() if factor >= 0)


def _divided(part: Splits, axes: Mapping[str, int]) -> int:
    return math.prod(axes[axis] for _, axis in part)
