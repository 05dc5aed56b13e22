"""Finds crossovers: the sizes at which two plans take equally long.

    ml.crossover(fsdp, tensor, "batch", 8, 4096)        the batches at which one plan overtakes the other

The difference of both times is sampled over the whole range. Where its sign changes from one sample to the next, the
size between is found by bisection, down to neighbouring floating-point numbers. Two plans may take equally long over a
whole interval, where both wait for the launch of their kernels, say: then both of its ends are returned.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..api.stages import Plan
from ..cost.machines.accuracy import time_factor
from ..cost.machines.hardware import HardwareError
from ..cost.machines.meshes import check_plan, machine_of
from ..cost.step_time.time import FIGURES, time_of
from ..cost.workload.options import Options
from ..cost.workload.scenario import Scenario, together
from ..engine.errors import closest, listed, shown
from .sweep import check_payloads

# The number of samples, and of bisections: down to neighbouring floats.
_SAMPLES, _BISECTIONS = 1025, 60
# Relatively shorter intervals are one size, and rounding.
_ONE_SIZE = 1e-9


def crossover(
    one: Plan,
    other: Plan,
    name: str = "",
    low: float = 0,
    high: float = 0,
    *,
    of: str = "estimate",
    **options: Any,
) -> tuple[float, ...]:
    """Returns the sizes at which two plans take equally long, smallest first; sizes between integers too.

    Args:
        one: a plan.
        other: another, of the same program or not.
        name: the dim that is varied.
        low: the least size.
        high: the greatest size.
        of: the attribute of `Time` to compare: "estimate", "lower", "upper", "compute", "exposed", …
        options: as in `Time.given`.

    Returns:
        The sizes; of an interval over which both take equally long, both ends. Two crossovers between neighbouring
        samples, which are a thousandth of the range apart on a logarithmic scale, are not found.

    Raises:
        HardwareError: an argument is not a plan; there is no such dim, figure or option; no steps are published of
            which an expected time follows; or `low` is not below `high`.
    """
    check_plan(one, "ml.crossover")
    check_plan(other, "ml.crossover")
    if not isinstance(of, str) or of not in FIGURES:
        raise HardwareError(f"A time has no figure {shown(of)}.{closest(of, FIGURES)} There are {listed(FIGURES)}.")
    for plan in (one, other) if of == "expected" else ():
        if time_factor(machine := machine_of(plan.mesh, "ml.crossover").hardware) is None:
            raise HardwareError(f"No steps on {machine} are published, so there is no expected time: use `estimate`.")
    ends = [isinstance(end, numbers.Real) and not isinstance(end, bool) for end in (low, high)]
    # A fraction may be too small for a float.
    if not all(ends) or not 0 < low < high <= sys.float_info.max or not float(low):
        raise HardwareError(f"`low` and `high` must be numbers, 0 < low < high, not {shown(low)} and {shown(high)}.")
    _check_dim(one, other, name)
    chosen = Options().given(**options)

    def sign(sizes: np.ndarray) -> np.ndarray:
        return np.sign(seconds_at(one, name, sizes, of, chosen) - seconds_at(other, name, sizes, of, chosen))

    return _zeros(sign, np.geomspace(float(low), float(high), _SAMPLES))


def _check_dim(one: Plan, other: Plan, name: Any):
    """Refuses a name that is no dim of both plans, or a dim of size 0."""
    if not isinstance(name, str):
        raise HardwareError(f'A dim must be given by its name, such as "batch", not {shown(name)}.')
    dims, others = one.program.dims, other.program.dims
    known = [dim for dim in dims if dim in others]
    if name not in known:
        is_axis = any(name in plan.mesh.axes and name not in plan.program.dims for plan in (one, other))
        lacks = "the second plan" if name in dims else "the first plan" if name in others else "either plan"
        problem = f"`{name}` is a mesh axis" if is_axis else f"There is no dim `{name}` in the program of {lacks}"
        raise HardwareError(f"{problem}; a crossover is along a dim.{closest(name, known)} There are {listed(known)}.")
    if not dims[name] or not others[name]:
        raise HardwareError(
            f"`{name}` has size 0 in this program, so no other size can scale with it: trace it with 1."
        )


def _zeros(sign: Callable[[np.ndarray], np.ndarray], sizes: np.ndarray) -> tuple[float, ...]:
    """The sizes at which a sign changes: between neighbouring floats, or at both ends of an interval of zeros."""
    signs = sign(sizes)
    changes = np.flatnonzero(signs[:-1] != signs[1:])
    below, above, before = sizes[changes], sizes[changes + 1], signs[changes]
    for _ in range(_BISECTIONS if len(changes) else 0):
        middle = (below + above) / 2
        same = sign(middle) == before
        below, above = np.where(same, middle, below), np.where(same, above, middle)
    # An interval of zeros ends below; all other changes are reached above.
    crossings = np.where(before == 0, below, above).tolist()
    crossings = [*sizes[:1][signs[:1] == 0], *crossings, *sizes[-1:][signs[-1:] == 0]]
    distinct: list[float] = []
    for size in crossings:
        if not distinct or size - distinct[-1] > _ONE_SIZE * size:
            distinct.append(float(size))
    return tuple(distinct)


def seconds_at(plan: Plan, name: str, sizes: np.ndarray, of: str, options: Options) -> np.ndarray:
    """Returns a figure of a plan's time at many sizes of one dim."""
    check_payloads(plan, [name])
    placement = machine_of(plan.mesh, "ml.crossover")
    scenario = Scenario(plan, together(plan.program, {name: sizes}), plan.grid, (placement,), options=options)
    return np.broadcast_to(getattr(time_of(scenario), of), sizes.shape)
