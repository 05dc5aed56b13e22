"""Scales the payloads of local forms to other sizes than the plan's own.

    halo of [batch, width, channels], split along width               [batch, 1, channels]: a column, whatever the width
    largest of each device, of [batch, vocab] split along vocab       [batch]

An exchange is known from tracing the local form at the plan's own sizes. An axis of its array that is as long as that
of a shard that the step reads or writes counts as the same axis, and scales with it; all others keep their size. Where
such an axis is also sharded over the exchange's mesh axes, its scaling is unknown, and other sizes are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ...engine.planning.steps import Compute
from ...engine.plans.data import Plan
from ...engine.plans.local_collectives import LocalCollective
from ...engine.specs.spec import Spec, local_shape
from .setting import Numbers, Setting

# The value and spec whose shard an exchange is shaped like, and the axes that both share.
_Likeness = tuple[int, Spec, tuple[int, ...]]


def payload(step: Compute, exchange: LocalCollective, setting: Setting) -> Numbers:
    """Returns the bytes of an exchange's operand on one device."""
    own = exchange.payload_bytes
    alike = None if setting.is_own else likeness(step, exchange, setting.plan)
    if alike is None:
        return own
    value, spec, axes = alike
    sizes = setting.local((value, spec))
    return own * math.prod(sizes[axis] / exchange.shape[axis] for axis in axes)


def follows(step: Compute, exchange: LocalCollective, plan: Plan, names: Mapping[str, str]) -> str | None:
    """Returns a changed size with which an exchange scales in an unknown way; None where there is none."""
    if likeness(step, exchange, plan) is not None:
        return None
    for value, spec in _shards(step, exchange.reads):
        parts = [part for name in plan.program.names[value] if name for part in name.split("*")]
        for name in (*(part.lstrip("~").split(".")[0] for part in parts), *spec.axes):
            if name in names:
                return names[name]
    return None


def likeness(step: Compute, exchange: LocalCollective, plan: Plan) -> _Likeness | None:
    """Returns the shard that an exchange is shaped like; None where that is ambiguous."""
    candidates: list[_Likeness] = []
    for value, spec in _shards(step, exchange.reads):
        local = local_shape(plan.program.code.shapes[value], spec, plan.grid)
        if len(local) != len(exchange.shape):
            continue
        same = tuple(axis for axis, (one, other) in enumerate(zip(local, exchange.shape, strict=True)) if one == other)
        if any(set(spec.splits[axis]) & set(exchange.axes) for axis in same if local[axis] > 1):
            return None
        candidates.append((value, spec, same))
    return max(candidates, key=lambda alike: len(alike[2]), default=None)


def _shards(step: Compute, reads: Sequence[int]) -> Iterator[tuple[int, Spec]]:
    """The shards that an exchange may be shaped like: the operands that it is made of, and the results."""
    given = [(step.operation.inputs[position], step.operands[position]) for position in reads]
    for value, spec in (*given, *zip(step.operation.outputs, step.results, strict=True)):
        if isinstance(value, int) and spec is not None:
            yield value, spec
