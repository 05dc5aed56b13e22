"""Scales the payloads of per-shard implementations to other sizes than the plan's own.

    halo of [batch, width, channels], split along width               [batch, 1, channels]: a column, whatever the width
    largest of each device, of [batch, vocab] split along vocab       [batch]

A collective is known from tracing the per-shard implementation at the plan's own sizes. An axis of its array that is as
long as that of a shard that the step reads or writes counts as the same axis, and scales with it; all others keep their
size. Where such an axis is also sharded over the collective's mesh axes, other sizes are refused. What sends rows of
experts sends as many as there are places: it scales with the array of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ...engine.collectives.ragged import PLATFORMS, leaves_out_empty
from ...engine.planning.steps import Compute
from ...engine.plans.per_shard_collectives import PerShardCollective
from ...engine.plans.plan_data import Plan
from ...engine.specs.spec import Spec, local_shape
from .expert_loads import share_full
from .expert_places import array_of_places
from .scenario import Numbers, Scenario

# The value and spec whose shard a collective is shaped like, and the axes that both share.
_Likeness = tuple[int, Spec, tuple[int, ...]]


def payload(step: Compute, sent: PerShardCollective, scenario: Scenario) -> Numbers:
    """Returns the bytes of a collective's operand on one device."""
    own = sent.payload_bytes
    if scenario.has_plan_sizes:
        return own
    plan = scenario.plan
    rows = array_of_places(step, plan.program)
    if rows is not None:
        value, spec = rows
        before = math.prod(local_shape(plan.program.code.shapes[value], spec, plan.grid))
        return own * math.prod(scenario.local(rows)) / before
    alike = likeness(step, sent, plan)
    if alike is None:
        return own
    value, spec, axes = alike
    sizes = scenario.local((value, spec))
    return own * math.prod(sizes[axis] / sent.shape[axis] for axis in axes)


def on_wires(step: Compute, sent: PerShardCollective, scenario: Scenario) -> Numbers:
    """Returns the bytes of a collective's operand that the busiest device does not leave out as empty."""
    whole = payload(step, sent, scenario)
    if not sent.asked.ragged or not leaves_out_empty(sent.shape, sent.dtype, sent.asked.axis):
        return whole
    leaves_out = scenario.of_machine(lambda placement: float(placement.hardware.platform in PLATFORMS))
    return whole * (1 - leaves_out * (1 - share_full(step, scenario)))


def follows(step: Compute, sent: PerShardCollective, plan: Plan, names: Mapping[str, str]) -> str | None:
    """Returns a changed size with which a collective scales in an unknown way; None where there is none."""
    if array_of_places(step, plan.program) is not None or likeness(step, sent, plan) is not None:
        return None
    for value, spec in _shards(step, sent.reads):
        parts = [part for name in plan.program.names[value] if name for part in name.split("*")]
        for name in (*(part.lstrip("~").split(".")[0] for part in parts), *spec.axes):
            if name in names:
                return names[name]
    return None


def likeness(step: Compute, sent: PerShardCollective, plan: Plan) -> _Likeness | None:
    """Returns the shard that a collective is shaped like; None where that is ambiguous."""
    candidates: list[_Likeness] = []
    for value, spec in _shards(step, sent.reads):
        local = local_shape(plan.program.code.shapes[value], spec, plan.grid)
        if len(local) != len(sent.shape):
            continue
        same = tuple(axis for axis, (one, other) in enumerate(zip(local, sent.shape, strict=True)) if one == other)
        if any(set(spec.splits[axis]) & set(sent.axes) for axis in same if local[axis] > 1):
            return None
        candidates.append((value, spec, same))
    return max(candidates, key=lambda alike: len(alike[2]), default=None)


def _shards(step: Compute, reads: Sequence[int]) -> Iterator[tuple[int, Spec]]:
    """The shards that a collective may be shaped like: the operands that it is made of, and the results."""
    given = [(step.operation.inputs[position], step.operands[position]) for position in reads]
    for value, spec in (*given, *zip(step.operation.outputs, step.results, strict=True)):
        if isinstance(value, int) and spec is not None:
            yield value, spec
