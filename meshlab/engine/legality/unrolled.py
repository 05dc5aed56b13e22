"""Says where layers are a Python loop, which no scan steps through: a pipeline needs a scan over them.

If their weights are separate arrays, or rows of arrays, `ml.scan_layers` makes scans of the loop (`rolling`).

for weights in params["blocks"]: x = block(weights, x)

The function runs its layers in a Python loop, at model.py:12.
"""

from __future__ import annotations

from collections import Counter

from ..programs.outline import LEAST_SAVED, Repetition, outline_of
from ..programs.program import Program, analysis
from ..rules.traits import TRAITS

REMEDY = (
    "Trace ml.scan_layers(step) on ml.stack_layers(params), or on params if layers are rows of their arrays, `w[i]`:"
    " its layers are scans, and `layers` is a dim of its weights."
)
SCAN = "Put the layers in one jax.lax.scan over their stacked weights, and name the first axis of these `layers`."
ROWS = f"{SCAN} If the loop reads their rows, `w[i]`, ml.scan_layers(step) does so."


@analysis
def unrolled(program: Program) -> str:
    """Names the loop that traces most of a program, of those that multiply something; "" where there is none."""
    items = (item for block in outline_of(program, 0, LEAST_SAVED).values() for item in block)
    times = Counter(item.representative for item in items if isinstance(item, Repetition))
    layers = [each for each in times if any(_multiplies(operation.name) for operation in each.operations)]
    if not layers:
        return ""
    first = max(layers, key=lambda each: times[each] * len(each.operations))
    source = next((operation.source for operation in first.operations if operation.source), None)
    return f"The function runs its layers in a Python loop{f', at {source}' if source else ''}."


def _multiplies(name: str) -> bool:
    return name in TRAITS and TRAITS[name].multiplies is not None
