"""Predicts how long the user's program takes on a machine, as XLA has split it, by the clock of plans.

    step = step_of(jitted, made, collectives, mesh)
    step.compute        seconds of its kernels, as `plan.time` prices them: of the plan that `as_plan` makes of it
    step.lower          if kernels and collectives overlap wherever they can
    step.upper          if nothing overlaps

The collectives are those that XLA has compiled. Kernels are priced where XLA's program multiplies as much as its
shardings say, which the compiled text shows; where it does not, it runs something in a way that is not known.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ..api.priced import Plan
from ..cost.machines.meshes import machine_of
from ..cost.machines.units import scaled_text
from ..cost.step_time.schedule import links_of, spend
from ..cost.workload.scenario import at_plan_sizes
from ..engine.specs.mesh import Mesh
from ..engine.verifying.hlo_flops import flops
from .as_plan import as_plan
from .compiled import Compiled
from .explained import Explained
from .jitted import Jitted
from .naming.errors import OwnError

# From this part on FLOPs differ.
_APART = 0.01


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


def of_xla(jitted: Jitted, made: Compiled, collectives: Sequence[Explained], mesh: Mesh) -> Step:
    """Predicts the seconds of XLA's program.

    Args:
        jitted: the program, its equations numbered.
        made: what XLA made of it.
        collectives: those of the compiled program, priced.
        mesh: the mesh on its machine.

    Raises:
        MeshlabError: it says by hand what devices do, is split unevenly, or runs otherwise than its shardings say.
    """
    if made.before is None:
        raise OwnError("This version of XLA does not show what its partitioner is given: kernels have no price.")
    plan = as_plan(jitted, made.before, mesh)
    spent = spend(at_plan_sizes(plan), is_free=lambda _move: True)
    multiplied, compute = flops(made.text), float(spent.compute)
    if not math.isclose(multiplied, plan.work.flops, rel_tol=_APART):
        run, asked = scaled_text(multiplied, "FLOPs"), scaled_text(plan.work.flops, "FLOPs")
        raise OwnError(
            f"XLA's program multiplies {run} on a device, its shardings ask for {asked}: it runs something otherwise,"
            " and its kernels have no price."
        )
    placement, busy = machine_of(mesh, "ml.explain"), defaultdict[Any, float](float)
    for c in collectives:
        for link in frozenset().union(*(links_of(placement, axis) for axis in c.axes or ())):
            busy[link] += (c.seconds or 0.0) * c.times
    sent = sum((c.seconds or 0.0) * c.times for c in collectives)
    return Step(compute, sent, max(compute, *busy.values(), 0.0), compute + sent, float(spent.flops))
