"""The bytes that a plan sends, value by value.

They are read off the steps of a plan, which are what runs; `plan.wire_bytes` adds up the same bytes.
"""

from __future__ import annotations

from collections import defaultdict

from ...engine.planning.shared_steps import counted_only
from ...engine.planning.steps import Move
from ...engine.plans.collectives import payload
from ...engine.plans.per_shard_collectives import per_shard_collectives_of
from ...engine.plans.plan_data import Plan


def sent_by_value(plan: Plan) -> dict[int, float]:
    """Returns the bytes that one device sends in one run, by the value that is moved.

    What an operation sends by its per-shard implementation stands under the value that it makes.
    """
    sizes = plan.grid
    sent: dict[int, float] = defaultdict(float)
    collectives = per_shard_collectives_of(plan.steps, plan.program, sizes)
    for move, times in counted_only(Move, plan.steps):
        if move.collective:
            _, nbytes = payload(plan.program, plan.grid, move.value, move.start, move.via)
            sent[move.value] += times * move.via.kind.wire_bytes(nbytes, move.via.axes, sizes)
    for operation, sends in collectives.items():
        for one, often in sends.items():
            sent[operation.outputs[0]] += often * one.kind.wire_bytes(one.payload_bytes, one.axes, sizes)
    return dict(sent)
