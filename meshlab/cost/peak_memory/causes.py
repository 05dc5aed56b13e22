"""Says why values are in memory at the peak, and why each of them is as large as it is.

    plan.memory.at_peak[0].because      "An argument, in memory for the whole step. Replicated along `data`: none of …"
    plan.memory.at_peak[0].repeated     ("data",)
    plan.memory.because                 "Most of it: 12.6 MB of parameters, of which `params/up` is 4.19 MB. …"

A value is there since something has yet to read it, or all step long as arguments and the space of outputs are. It is
as large as it is since no mesh axis but those of its spec divides it: along all others it is replicated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ...engine.code.source import Source
from ...engine.errors import listed
from ...engine.planning.step import Step
from ...engine.plans.plan_data import Plan
from ...engine.plans.wording import quoted
from ...engine.specs.spec import Axes, Spec
from ..machines.units import bytes_text
from .alive import Alive
from .liveness import LiveBuffer
from .pipelines import held
from .roles import ACTIVATIONS, GATHERED, roles_of

# From this share on a part is most of it.
_MOST = 0.5


def repeated_along(plan: Plan, spec: Spec) -> Axes:
    """Returns the mesh axes along which devices hold the same part of a value.

    Stages of a pipeline hold different micro-batches of a value that exists in an iteration.
    """
    sizes, there = plan.mesh.devices.axes, {*spec.axes, *spec.partial}
    there |= plan.rules.stages.keys() if not there.isdisjoint(plan.rules.in_time) else set()
    return tuple(axis for axis, size in sizes.items() if size > 1 and axis not in there)


def gathered_over(plan: Plan, value: int, spec: Spec) -> Axes:
    """Returns the mesh axes that divide a weight where it is stored, and not this form of it.

    A stage reads the layers that it stores, one after the other: nothing is gathered over stages.
    """
    stored = plan.argument_specs[roles_of(plan.program).weights[value]]
    return tuple(axis for axis in stored.axes if axis not in spec.axes and axis not in plan.rules.stages)


def because(plan: Plan, buffer: LiveBuffer, role: str, made_at: Source | None, last: Step | None) -> str:
    """Says why a buffer is in memory, and why it is no smaller.

    Args:
        plan: the plan.
        buffer: one of its buffers.
        role: see `roles`.
        made_at: the line that makes it.
        last: the step that reads it last.
    """
    return f"{_there(plan, buffer, role, made_at, last)}{_as_large(plan, *buffer.size.key)}"


def _there(plan: Plan, buffer: LiveBuffer, role: str, made_at: Source | None, last: Step | None) -> str:
    """Says why a buffer is in memory at all."""
    if buffer.argument >= 0:
        return "An argument, in memory for the whole step."
    if buffer.output >= 0:
        return "An output, whose memory is allocated for the whole step."
    value, spec = buffer.size.key
    made, reader = f"Made at {made_at}" if made_at else "Made", _line(last)
    if role == GATHERED:
        over = quoted(gathered_over(plan, value, spec))
        return f"A sharded weight, gathered over {over}" + (f" for {reader}." if reader else ".")
    if role == ACTIVATIONS and value in held(plan):
        slots = ", in slots for the micro-batches in flight" if buffer.size.factor != 1 else ""
        return f"{made} in the forward pass and stored for a later cell of its stage or the next one{slots}."
    if role == ACTIVATIONS:
        return f"{made} in the forward pass and stored for the backward pass" + (f", for {reader}." if reader else ".")
    return made + (f", read last by {reader}." if reader else ".")


def _as_large(plan: Plan, value: int, spec: Spec) -> str:
    """Says along which mesh axes it is replicated, or an addend of a sum."""
    text = ""
    if same := repeated_along(plan, spec):
        names = [name for name in plan.program.names[value] if name]
        dims = f"none of its dims ({listed(names)}) is on" if names else "no dim of it is on"
        text += f" Replicated along {quoted(same)}: {dims} {'it' if len(same) == 1 else 'them'}."
    if spec.partial:
        text += f" An addend of a sum over {quoted(spec.partial)}, as large as the sum."
    return text


def _line(step: Step | None) -> str:
    """Returns what a step is called, and its line, "" where it has none: `dot_general at model.py:7`."""
    operation = step.serves if step else None
    if step is None or operation is None:
        return ""
    return f"{step.title or operation.called}{f' at {operation.source}' if operation.source else ''}"


def summary(at_peak: Sequence[Alive], peak_bytes: int) -> str:
    """Says of what kind most bytes at the peak are, and why the largest value of that kind is there.

    Args:
        at_peak: what is in memory then, the largest first.
        peak_bytes: the peak.
    """
    parts = Counter[str]()
    for alive in at_peak:
        parts[alive.role] += alive.bytes
    if not any(parts.values()):
        return ""
    role, total = max(parts.items(), key=lambda part: part[1])
    of_it = [alive for alive in at_peak if alive.role == role]
    largest, head = of_it[0], "Most of it" if total > _MOST * peak_bytes else "The largest part"
    return f"{head}: {bytes_text(total)} of {role}, {_largest(of_it)}. {largest.because}"


def _largest(of_it: Iterable[Alive]) -> str:
    first, *others = of_it
    return f"of which `{first.name}` is {bytes_text(first.bytes)}" if others else f"`{first.name}`"
