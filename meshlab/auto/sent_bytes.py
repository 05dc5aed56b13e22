"""What a plan sends, value by value, and how much of its contractions one device computes.

The numbers are read off the steps of a plan, which are what runs; `plan.wire_bytes` adds up the same bytes.
"""

from __future__ import annotations

import math
from collections import defaultdict

from ..engine.code.operations import nbytes
from ..engine.planning.shared_steps import counted
from ..engine.planning.steps import Compute, Move
from ..engine.plans.data import Plan
from ..engine.plans.local_collectives import local_collectives_of
from ..engine.specs.reshard import sent_shape, wire_bytes


def sent_by_value(plan: Plan) -> dict[int, float]:
    """Returns the bytes that one device sends in one run, by the value that is moved.

    What an operation sends in its local form stands under the value that it makes.
    """
    sizes = plan.grid
    sent: dict[int, float] = defaultdict(float)
    exchanged = local_collectives_of(plan.steps, plan.program, sizes)
    for step, times in counted(plan.steps):
        if isinstance(step, Move):
            if step.hop.kind != "slice":
                shape = sent_shape(plan.program.code.shapes[step.value], step.start, step.hop, sizes)
                payload = nbytes(math.prod(shape), plan.program.code.dtypes[step.value])
                sent[step.value] += times * wire_bytes(step.hop.kind, payload, step.hop.axes, sizes)
        elif isinstance(step, Compute) and step.exchanged:
            for one, often in exchanged[step.operation].items():
                count = often * wire_bytes(one.kind, one.payload_bytes, one.axes, sizes)
                sent[step.operation.outputs[0]] += count
    return dict(sent)
