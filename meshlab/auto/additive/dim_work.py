"""The work of one device: how far a layout divides the contractions.

A layout that splits nothing sends nothing, so the least traffic alone would be no answer: every device would do all of
the work. What is asked of a layout first is that it uses the machine. Of a contraction over dims of sizes b, h, c one
device does b·h·c multiply-adds, divided by every mesh axis that splits one of its dims; those of all contractions of
one run are the **work** of one device. The least work that any legal layout reaches is the measure; traffic is compared
among the layouts that do at most `SLACK` more.

    README model on 2 × 2: `batch` and `hidden` divide every contraction by 4      work = least
                           `rows` and `hidden` leave the logits' divided by 2      work = least + 1.9 %: not compared

A program without contractions is measured by the elements of all results instead. What a plan leaves to a device is
counted in `engine/plans/work.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ...engine.code.operations import Operation
from ...engine.plans.work import measured, multiplies, multiply_adds
from ...engine.programs.program import Program
from .choices import Dims

SLACK = 0.01

Amounts = Mapping[Dims, float]


def amounts_of(program: Program) -> Amounts:
    """The multiply-adds of one run, by the dims of the contractions."""
    amounts: dict[Dims, float] = defaultdict(float)
    for operation, times in measured(program).items():
        divisible = _divisible(program, operation)
        names = (name for factor, name in program.factor_dims[operation] if factor in divisible)
        dims = frozenset(dim for name in names for dim in program.splitters(name))
        amounts[dims] += times * multiply_adds(program, operation)
    return amounts


def matmuls(program: Program) -> tuple[Operation, ...]:
    """The contractions or, where there are none, all operations."""
    return tuple(measured(program))


def _divisible(program: Program, operation: Operation) -> frozenset[int]:
    """The factors that can be sharded, of a contraction all, of another operation those of its first result."""
    factors = program.factors[operation]
    axes = (*factors.operands, *factors.results) if multiplies(operation) else factors.results[:1]
    return frozenset(f for values in axes for f in values) - factors.unsharded
