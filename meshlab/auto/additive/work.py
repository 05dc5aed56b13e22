"""The work of one device: how far a layout divides the contractions.

A layout that splits nothing sends nothing, so the least traffic alone would be no answer: every device would do all of
the work. What is asked of a layout first is that it uses the machine. Of a contraction over dims of sizes b, h, c one
device does b·h·c multiply-adds, divided by every mesh axis that splits one of its dims; those of all contractions of
one run are the **work** of one device. The least work that any legal layout reaches is the measure; traffic is compared
among the layouts that do at most `SLACK` more.

    README model on 2 × 2: `batch` and `hidden` divide every contraction by 4      work = least
                           `rows` and `hidden` leave the logits' divided by 2      work = least + 1.9 %: not compared

A program without contractions is measured by the elements of all results instead.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ...engine.code.loops import LOOPS, trip_count
from ...engine.code.operations import Block, Operation
from ...engine.planning.shared_steps import counted
from ...engine.planning.steps import Compute
from ...engine.plans.data import Plan
from ...engine.programs.data import Program, analysis
from ...engine.rules import TRAITS
from ...engine.rules.matmuls import Multiplies
from ...engine.specs.spec import Spec, local_shape
from .space import Dims, Space, Splits
from .tables import Table

SLACK = 0.01

Amounts = Mapping[Dims, float]


def amounts_of(program: Program) -> Amounts:
    """The multiply-adds of one run, by the dims of the contractions."""
    amounts: dict[Dims, float] = defaultdict(float)
    for operation, times in _measured(program).items():
        divisible = _divisible(program, operation)
        dims = frozenset(dim for factor, dim in program.factor_dims[operation] if factor in divisible)
        amounts[dims] += times * _multiply_adds(program, operation, None, {})
    return amounts


def matmuls(program: Program) -> tuple[Operation, ...]:
    """The contractions or, where there are none, all operations."""
    return tuple(_measured(program))


def work_tables(amounts: Amounts, space: Space) -> tuple[Table, ...]:
    """The work of one device, as tables over the dims of the contractions."""
    folded: dict[Dims, float] = defaultdict(float)
    for dims, amount in amounts.items():
        folded[space.free(dims)] += amount
    return tuple(
        Table(dims, {part: amount / math.prod(space.axes[a] for _, a in part) for part in space.splits(dims)})
        for dims, amount in folded.items()
    )


def work_bound(amounts: Amounts, space: Space, part: Splits, decided: Dims) -> float:
    """A bound from below on the work of every layout that has `part` for the decided dims."""
    able: dict[str, Dims] = {
        axis: frozenset(
            d
            for d, c in space.choices.items()
            if (d, axis) in part or (d not in decided and axis in c and space.fits(d, axis, part))
        )
        for axis in space.axes
    }
    return sum(
        amount / math.prod(n for axis, n in space.axes.items() if not able[axis].isdisjoint(dims))
        for dims, amount in amounts.items()
    )


def work_of(plan: Plan) -> float:
    """The work of one device in one run of a plan, read off its steps."""
    measured = _measured(plan.program)
    return float(
        sum(
            times * _multiply_adds(plan.program, step.operation, (*step.operands, *step.results), plan.mesh.axes)
            for step, times in counted(plan.planned.steps)
            if isinstance(step, Compute) and step.operation in measured
        )
    )


def share_of(plan: Plan) -> float:
    """The part of all multiply-adds of one run that one device does: 1 where a layout divides none of them."""
    total = _total(plan.program)
    return work_of(plan) / total if total else 1.0


@analysis
def _total(program: Program) -> float:
    """The multiply-adds of one run."""
    return sum(amounts_of(program).values())


@analysis
def _measured(program: Program) -> dict[Operation, int]:
    """The contractions or, where there are none, all operations, with how often they run."""
    every = dict(_operations(program.code.block, 1))
    return {op: times for op, times in every.items() if _multiplies(op)} or every


def _operations(block: Block, times: int) -> Iterator[tuple[Operation, int]]:
    """Every operation that is no block, with how often it runs."""
    for operation in block.operations:
        if not operation.blocks:
            yield operation, times
        for inside in operation.blocks:
            more = (trip_count(operation) or 1) if operation.name in LOOPS else 1
            yield from _operations(inside, times * more)


def _divisible(program: Program, operation: Operation) -> frozenset[int]:
    """The factors that can be sharded, of a contraction all, of another operation those of its first result."""
    factors = program.factors[operation]
    axes = (*factors.operands, *factors.results) if _multiplies(operation) else factors.results[:1]
    return frozenset(f for values in axes for f in values) - factors.unsharded


def _multiplies(operation: Operation) -> Multiplies | None:
    """The function that counts an operation's multiply-adds; None where it multiplies no matrices."""
    traits = TRAITS.get(operation.name)
    return traits.multiplies if traits is not None else None


def _multiply_adds(
    program: Program, operation: Operation, specs: Sequence[Spec | None] | None, sizes: Mapping[str, int]
) -> float:
    """The multiply-adds of an operation, or else the elements of its first result; on one device, given its specs."""
    values = (*operation.inputs, *operation.outputs[:1])
    shapes = [
        local_shape(program.code.shape_of(value), spec, sizes) if spec is not None else program.code.shape_of(value)
        for value, spec in itertools.zip_longest(values, (specs or ())[: len(values)])
    ]
    count, reads = _multiplies(operation), len(operation.inputs)
    if count is None:
        return math.prod(size for shape in shapes[reads:] for size in shape)
    return float(count(operation, shapes[:reads], shapes[reads]).products)
