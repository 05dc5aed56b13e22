"""Crossovers: the sizes at which two plans take equally long.

    ml.crossover(fsdp, tensor, "batch", 8, 4096)        the batches at which one plan overtakes the other

Sizes are looked at over the whole range, and where one plan is faster at one of them and the other at the next, the
size between is found by halving, down to neighbouring floating-point numbers. Two plans may take equally long over a
whole stretch, where both wait for the launch of their kernels, say: of such a stretch both ends are told.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...engine.errors import closest, listed, shown
from ...engine.plans.data import Plan
from ..machines.hardware import HardwareError
from ..machines.meshes import check_plan, machine_of
from ..step_time.time import time_of
from ..workload.setting import Options, Setting, together
from .sweep import FIGURES, check_exchanges

# So many sizes are looked at for a change, and then so often halved: down to neighbouring floats.
_LOOKED_AT, _HALVINGS = 1025, 60
# Shorter stretches are one size, and rounding.
_ONE_SIZE = 1e-9


def crossover(
    one: Plan, other: Plan, name: str, low: float, high: float, *, of: str = "estimate", **options: Any
) -> tuple[float, ...]:
    """Returns the sizes at which two plans take equally long, smallest first; sizes between integers too.

    Args:
        one: a plan.
        other: another, of the same program or not.
        name: the dim that is varied.
        low: where to begin.
        high: where to end.
        of: which of a `Time`'s figures: "estimate", "lower", "upper", "compute", "exposed", …
        options: as in `Time.given`.

    Returns:
        The sizes; of a stretch over which both take equally long, both ends. Two crossovers that are nearer to each
        other than a thousandth of the way from `low` to `high`, as steps of equal ratio, are not seen.

    Raises:
        HardwareError: what is given are no plans; there is no such dim, figure or option; or `low` is not below `high`.
    """
    check_plan(one, "ml.crossover")
    check_plan(other, "ml.crossover")
    if not isinstance(of, str) or of not in FIGURES:
        raise HardwareError(f"A time has no figure {shown(of)}.{closest(of, FIGURES)} There are {listed(FIGURES)}.")
    ends = [isinstance(end, numbers.Real) and not isinstance(end, bool) for end in (low, high)]
    # A fraction may be too small for a float.
    if not all(ends) or not 0 < low < high <= sys.float_info.max or not float(low):
        raise HardwareError(
            f"A crossover was looked for between {shown(low)} and {shown(high)}; give numbers, 0 < low < high."
        )
    _check_dim(one, other, name)
    chosen = Options().given(**options)

    def sign(sizes: np.ndarray) -> np.ndarray:
        return np.sign(seconds_at(one, name, sizes, of, chosen) - seconds_at(other, name, sizes, of, chosen))

    return _zeros(sign, np.geomspace(float(low), float(high), _LOOKED_AT))


def _check_dim(one: Plan, other: Plan, name: Any):
    """Refuses what is no dim of both plans, or is one of no elements.

    Raises:
        HardwareError: it is; the nearest dims are told.
    """
    if not isinstance(name, str):
        raise HardwareError(f'{shown(name)} was given for a dim; give its name, such as "batch".')
    dims, others = one.program.dims, other.program.dims
    known = [dim for dim in dims if dim in others]
    if name not in known:
        is_axis = any(name in plan.mesh.axes and name not in plan.program.dims for plan in (one, other))
        lacks = "the second plan" if name in dims else "the first plan" if name in others else "either plan"
        told = f"`{name}` is a mesh axis" if is_axis else f"There is no dim `{name}` in the program of {lacks}"
        raise HardwareError(
            f"{told}; a crossover is looked for along a dim.{closest(name, known)} There are {listed(known)}."
        )
    if not dims[name] or not others[name]:
        raise HardwareError(
            f"`{name}` has size 0 in this program, so that nothing tells what follows it: trace it with 1."
        )


def _zeros(sign: Callable[[np.ndarray], np.ndarray], sizes: np.ndarray) -> tuple[float, ...]:
    """Where a sign changes: between neighbouring floats, or at both ends of a stretch of zeros."""
    signs = sign(sizes)
    turns = np.flatnonzero(signs[:-1] != signs[1:])
    below, above, before = sizes[turns], sizes[turns + 1], signs[turns]
    for _ in range(_HALVINGS if len(turns) else 0):
        middle = (below + above) / 2
        same = sign(middle) == before
        below, above = np.where(same, middle, below), np.where(same, above, middle)
    # A stretch of zeros ends below, all else is reached above.
    found = np.where(before == 0, below, above).tolist()
    found = [*sizes[:1][signs[:1] == 0], *found, *sizes[-1:][signs[-1:] == 0]]
    kept: list[float] = []
    for size in found:
        if not kept or size - kept[-1] > _ONE_SIZE * size:
            kept.append(float(size))
    return tuple(kept)


def seconds_at(plan: Plan, name: str, sizes: np.ndarray, of: str, options: Options) -> np.ndarray:
    """Returns a figure of a plan's time at many sizes of one dim.

    Raises:
        HardwareError: what is exchanged at other sizes is not known, or the plan's mesh lies on no machine.
    """
    check_exchanges(plan, [name])
    placement = machine_of(plan.mesh, "ml.crossover")
    setting = Setting(plan, together(plan.program, {name: sizes}), plan.grid, (placement,), options=options)
    return np.broadcast_to(getattr(time_of(setting), of), sizes.shape)
