"""The bytes that a plan sends, value by value.

They are read off the steps of a plan, which are what runs; `plan.wire_bytes` adds up the same bytes.
"""

from __future__ import annotations

from collections import defaultdict

from ...engine.planning.shared_steps import counted
from ...engine.planning.steps import Compute, Move
from ...engine.plans.collectives import payload
from ...engine.plans.data import Plan
from ...engine.plans.per_shard_collectives import per_shard_collectives_of


def sent_by_value(plan: Plan) -> dict[int, float]:
    """Returns the bytes that one device sends in one run, by the value that is moved.

    What an operation sends by its per-shard implementation stands under the value that it makes.
    """
    sizes = plan.grid
    sent: dict[int, float] = defaultdict(float)
    collectives = per_shard_collectives_of(plan.steps, plan.program, sizes)
    for step, times in counted(plan.steps):
        if isinstance(step, Move):
            if step.via.kind.sends:
                _, nbytes = payload(plan.program, plan.grid, step.value, step.start, step.via)
                sent[step.value] += times * step.via.kind.wire_bytes(nbytes, step.via.axes, sizes)
        elif isinstance(step, Compute) and step.per_shard:
            for one, often in collectives[step.operation].items():
                nbytes = often * one.kind.wire_bytes(one.payload_bytes, one.axes, sizes)
                sent[step.operation.outputs[0]] += nbytes
    return dict(sent)
