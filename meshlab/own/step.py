"""Predicts how long the user's program takes on a machine, as XLA has split it, and its peak memory there.

    plan = as_plan(jitted, made.before, mesh)
    step = of_xla(plan, made, collectives)
    step.compute        seconds of its kernels, as `plan.time` prices them
    step.lower          if kernels and collectives overlap wherever they can
    step.upper          if nothing overlaps
    peak_of(plan, made) bytes, as `plan.memory` predicts them

The collectives are those that XLA has compiled. Kernels are priced where XLA's program multiplies as much as its
shardings say, which the compiled text shows; where it does not, it runs something in a way that is not known. The peak
is predicted where the same model is right about what XLA for CPUs has allocated for the compiled program.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ..api.priced import Plan
from ..cost.machines.meshes import machine_of
from ..cost.machines.units import bytes_text, scaled_text
from ..cost.peak_memory.memory import memory_of
from ..cost.step_time.links import links_of
from ..cost.step_time.schedule import spend
from ..cost.workload.scenario import at_plan_sizes
from ..engine.verifying.hlo_flops import flops
from .compiled import Compiled
from .explained import Explained
from .naming.errors import OwnError

# From this part on FLOPs differ.
_APART = 0.01
# A peak is not shown where the same model is further off than this on CPUs: it has not understood the program.
OFF = 0.2


@dataclasses.dataclass(frozen=True)
class Step:
    """Predicted seconds of one run of a program on a machine.

    Attributes:
        compute: of all kernels on one device.
        communication: of all collectives, one after another.
        lower: if everything overlaps that can.
        upper: if nothing overlaps.
        flops: of the matmuls on one device.
    """

    compute: float
    communication: float
    lower: float
    upper: float
    flops: float


def of_plan(plan: Plan) -> Step:
    """Returns what is predicted of a plan on its machine."""
    time = plan.time
    sent = sum(map(float, time.communication.values()))
    return Step(float(time.compute), sent, float(time.lower), float(time.upper), float(time.flops))


def of_xla(plan: Plan, made: Compiled, collectives: Sequence[Explained]) -> Step:
    """Predicts the seconds of XLA's program.

    Args:
        plan: of XLA's program, as `as_plan` makes it, on its machine.
        made: what XLA made of it.
        collectives: those of the compiled program, priced.

    Raises:
        OwnError: it runs otherwise than its shardings say.
    """
    spent = spend(at_plan_sizes(plan), is_free=lambda _move: True)
    multiplied, compute = flops(made.text), float(spent.compute)
    if not math.isclose(multiplied, plan.work.flops, rel_tol=_APART):
        run, asked = scaled_text(multiplied, "FLOPs"), scaled_text(plan.work.flops, "FLOPs")
        raise OwnError(
            f"XLA's program multiplies {run} on a device, its shardings ask for {asked}: it runs something otherwise,"
            " and its kernels have no price."
        )
    placement, busy = machine_of(plan.mesh, "ml.explain"), defaultdict[Any, float](float)
    for c in collectives:
        for link in frozenset().union(*(links_of(placement, axis) for axis in c.axes or ())):
            busy[link] += (c.seconds or 0.0) * c.times
    sent = sum((c.seconds or 0.0) * c.times for c in collectives)
    return Step(compute, sent, max(compute, *busy.values(), 0.0), compute + sent, float(spent.flops))


def peak_of(plan: Plan, made: Compiled) -> int:
    """Predicts the peak memory of XLA's program on a device of its machine, in bytes.

    Args:
        plan: of XLA's program, as `as_plan` makes it.
        made: what XLA made of it, for CPUs: the model must be right about that.

    Raises:
        OwnError: XLA for CPUs allocates more or less than the model predicts.
    """
    expected, allocated = memory_of(plan, "cpu").peak_bytes, made.memory.total
    if not math.isclose(expected, allocated, rel_tol=OFF):
        raise OwnError(
            f"XLA for CPUs allocates {bytes_text(allocated)} for its program, and meshlab predicts"
            f" {bytes_text(expected)} there: its peak memory has no prediction."
        )
    return plan.memory.peak_bytes
