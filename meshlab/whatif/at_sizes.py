"""The costs of a plan at many sizes of one dim: what a device sends and stores, and on a machine its step and its peak.

    costs = costs_at(plan, "batch", [8, 16, 32])
    costs.wire_bytes                    an array of three

The steps of the plan stay as they are, as in a sweep (`sweep.py`), which needs a machine. The peak is that of training,
where carried arguments are overwritten.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..api.stages import Plan
from ..cost.machines.hardware import HardwareError
from ..cost.machines.meshes import machine_of
from ..cost.peak_memory.memory import memory_of
from ..cost.step_time.time import time_of
from ..cost.workload.options import USUAL, Options
from ..cost.workload.per_shard_payloads import payload
from ..cost.workload.scenario import Numbers, Scenario, together
from ..engine.code.operations import item_bytes
from ..engine.planning.shared_steps import counted_only
from ..engine.planning.step import Step
from ..engine.planning.step_keys import Key
from ..engine.planning.steps import Compute, move_of
from ..engine.plans.per_shard_collectives import per_shard_collectives_of
from ..engine.plans.stage_hops import runs_in_branches
from .sweep import check_payloads
from .variations import check_names


@dataclasses.dataclass(frozen=True, eq=False)
class CostsAt:
    """The costs of a plan, one at each size.

    Attributes:
        wire_bytes: that a device sends in a step.
        argument_bytes: that a device stores of all arguments.
        seconds: of a step; None without a machine, or where a figure of it is missing.
        peak_bytes: of a device; None without a machine.
    """

    wire_bytes: np.ndarray
    argument_bytes: np.ndarray
    seconds: np.ndarray | None = None
    peak_bytes: np.ndarray | None = None


def costs_at(plan: Plan, name: str, sizes: Sequence[int], options: Options = USUAL) -> CostsAt:
    """Returns the costs of a plan at other sizes of a dim; all of them must be divided by its mesh axes.

    Args:
        plan: the plan.
        name: the dim that is varied.
        sizes: of it.
        options: assumptions about the run.

    Raises:
        HardwareError: the communication at other sizes is not known.
    """
    check_names(plan, [name])
    check_payloads(plan, [name])
    dims = together(plan.program, {name: np.array(sizes, float)})
    placements = () if plan.mesh.on is None else (machine_of(plan.mesh, "costs_at"),)
    scenario = Scenario(plan, dims, plan.grid, placements, options=options)

    def each(figure: Numbers) -> np.ndarray:
        return np.broadcast_to(figure, len(sizes))

    arguments = ((argument.value, plan.argument_specs[argument.value]) for argument in plan.program.arguments)
    stored: Numbers = sum(_bytes(scenario, argument) for argument in arguments)
    costs = CostsAt(each(_moved(plan, scenario) + _per_shard(plan, scenario)), each(stored))
    if not placements:
        return costs
    peak = memory_of(plan, scenario.platform).given(options.attention).donated.at(scenario)
    try:
        seconds = each(time_of(scenario).estimate)
    except HardwareError:  # a figure of the machine is missing, which the panel of time says
        seconds = None
    return dataclasses.replace(costs, seconds=seconds, peak_bytes=each(peak))


def _bytes(scenario: Scenario, key: Key) -> Numbers:
    """The bytes of one device's shard of a value, also of scores that a fused kernel would not store."""
    return math.prod(scenario.local(key)) * item_bytes(scenario.plan.program.code.dtypes[key[0]])


def _moved(plan: Plan, scenario: Scenario) -> Numbers:
    total: Numbers = 0.0
    for step, times in _runs(scenario, plan.steps, 1):
        if (move := move_of(step)) and move.collective:
            operand = _bytes(scenario, (move.value, move.start))
            total = total + move.via.kind.wire_bytes(operand, move.via.axes, plan.grid) * times
        for key, ticks in step.hops(plan.program.original_of):
            total = total + _bytes(scenario, key) * ticks
    return total


def _runs(scenario: Scenario, steps: Iterable[Step], times: Numbers) -> Iterator[tuple[Step, Numbers]]:
    """Yields every step with how often it runs: a loop over a dim that is varied runs as often as that is long."""
    for step in steps:
        yield step, times
        known = step.parts[0].times if step.loops else 0
        longer = scenario.trip_count(step.runs, known) / known if step.runs and known else 1
        for part in step.parts:
            yield from _runs(scenario, part.steps, times * (part.runs or part.times) * longer)


def _per_shard(plan: Plan, scenario: Scenario) -> Numbers:
    total: Numbers = 0.0
    inside = per_shard_collectives_of(plan.planned.steps, plan.program, plan.grid)
    branches = runs_in_branches(plan.planned.steps)
    for step, _ in counted_only(Compute, plan.planned.steps):
        runs, counted = branches.get(id(step), (1, 1))
        for sent, times in inside.get(step.operation, {}).items():
            nbytes = sent.kind.wire_bytes(payload(step, sent, scenario), sent.axes, plan.grid)
            total = total + nbytes * times * runs / counted
    return total
