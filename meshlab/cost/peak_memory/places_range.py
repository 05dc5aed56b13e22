"""The range of a peak, by how many places there are for rows of experts.

    plan.memory.range.least_bytes     a factor of 1: places for as many rows as there are, if all experts get as many
    plan.memory.range.most_bytes      a factor of n devices: places for all rows on one device, so that none is dropped

The factor between them is an argument of `ml.dispatch`: less memory, or fewer drops. Buffers of the sizes at other
factors are placed anew. On CPUs and GPUs the peaks are within 0.3% of those of plans with these factors, on TPUs within
10% (`tests/cost/peak_memory/test_places_range.py`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

from ...engine.planning.shared_steps import counted_only
from ...engine.planning.steps import Compute
from ...engine.plans.plan_data import Plan
from ..workload.expert_places import array_of_places, places


@dataclasses.dataclass(frozen=True)
class MemoryRange:
    """The least and the most that a peak is, by the factor of places.

    Attributes:
        least_bytes: with a factor of 1.
        most_bytes: with factors with which nothing is ever dropped.
        factors: the factors of the program, by the dim of places; none of a program that sends no rows.
        most: the least factors with which nothing is ever dropped, by the same.
    """

    least_bytes: int
    most_bytes: int
    factors: Mapping[str, float]
    most: Mapping[str, float]

    def __str__(self):
        if not self.factors:
            return f"{self.least_bytes:,} B: no rows are sent to experts"
        if max(self.most.values()) == 1:
            return f"{self.least_bytes:,} B with a factor of 1, which never drops: each device has all experts"
        upper = " and ".join(f"{factor:g}" for factor in sorted(set(self.most.values())))
        now = " and ".join(f"{factor:.3g}" for factor in sorted(set(self.factors.values())))
        return (
            f"{self.least_bytes:,} B with a factor of 1 to {self.most_bytes:,} B with a factor of {upper}, which never"
            f" drops; the factor is {now}"
        )


def range_of(plan: Plan, peak_bytes: int, peak: Callable[[Mapping[str, float]], int]) -> MemoryRange:
    """Returns the range of a plan's peak.

    Args:
        plan: the plan.
        peak_bytes: its peak.
        peak: returns it at other sizes of dims.
    """
    known, program = places(plan.program), plan.program
    if not known:
        return MemoryRange(peak_bytes, peak_bytes, {}, {})
    most = dict.fromkeys(known, 1)
    for step, _ in counted_only(Compute, plan.planned.steps):
        key = array_of_places(step, program)
        if key is None:
            continue
        first = step.operation.params["how"].stacked
        value, spec = key
        ways = math.prod(plan.grid[axis] for axis in spec.splits[first])
        rows = program.names[value][first + 1]
        if rows in most:
            most[rows] = max(most[rows], ways)
    factors = {rows: each.factor for rows, each in known.items()}
    fair = {rows: program.dims[rows] / factor for rows, factor in factors.items() if rows in program.dims}
    least, largest = peak(fair), peak({rows: each * most[rows] for rows, each in fair.items()})
    return MemoryRange(least, largest, factors, most)
