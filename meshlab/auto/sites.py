"""What a plan sends, value by value, and how much of its contractions one device computes.

The numbers are read off the steps of a plan, which are what runs; `plan.wire_bytes` adds up the same bytes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from ..engine.code import item_bytes
from ..engine.plan import Plan
from ..engine.relayout import wire_bytes
from ..engine.shifting import pieces
from ..engine.spec import Spec, local_shape
from ..engine.steps import Compute, Move, counted, shift_split


def sent_by_value(plan: Plan) -> dict[int, float]:
    """Returns the bytes that one device sends in one run, by the value that is moved.

    The all-reduce of a maximum, and what a shift sends, stand under the value that the operation makes.
    """
    sizes = plan.mesh.axes
    sent: dict[int, float] = defaultdict(float)
    for step, times in counted(plan.steps):
        if isinstance(step, Move):
            if step.hop.kind != "slice":
                payload = _bytes(plan, step.value, step.start)
                sent[step.value] += times * wire_bytes(step.hop.kind, payload, step.hop.axes, sizes)
        elif isinstance(step, Compute) and step.extremum:
            payload = _bytes(plan, step.operation.outputs[0], step.results[0])
            sent[step.operation.outputs[0]] += times * wire_bytes("all-reduce", payload, step.extremum, sizes)
        elif isinstance(step, Compute) and step.operation.name == "shift":
            sent[step.operation.outputs[0]] += times * _shifted(plan, step, sizes)
    return dict(sent)


def _bytes(plan: Plan, value: int, spec: Spec) -> int:
    code = plan.program.code
    return math.prod(local_shape(code.shapes[value], spec, plan.mesh.axes)) * item_bytes(code.dtypes[value])


def _shifted(plan: Plan, step: Compute, sizes: Mapping[str, int]) -> float:
    """The bytes of the permutes of a shift along a split axis: each sends its piece of the shard."""
    operation, split = step.operation, shift_split(step)
    if not split:
        return 0.0
    value = operation.outputs[0]
    payload = _bytes(plan, value, step.results[0])
    axis = operation.params["axis"]
    block = local_shape(plan.program.code.shapes[value], step.results[0], sizes)[axis]
    parts = pieces(operation.params["offset"], operation.params["wrap"], block, split, sizes)
    return float(sum(payload * (p.stop - p.start) // block for p in parts if p.axes))
