"""How much of a step has a dim: in seconds of kernels, and in bytes at the peak, of the plan that splits nothing.

    edges [of a graph network: gathers and sums]      most of the step
    half [of rotary positions, in Llama 3 8B]         less than a hundredth

What has a small share gains a small share at most where it is split, so that a search may leave it whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ...cost.machines.hardware import HardwareError
from .pricer import LayoutPrice


def shares(unsplit: LayoutPrice) -> Mapping[str, float]:
    """Returns for each dim the larger one of its shares; that of seconds counts on machines only.

    Args:
        unsplit: what the plan costs that splits nothing.
    """
    program, held = unsplit.plan.program, Counter[str]()
    for alive in unsplit.memory.at_peak:
        held.update(dict.fromkeys({dim for name in alive.dims for dim in program.splitters(name)}, alive.bytes))
    of_peak = _shares(held, unsplit.peak_bytes)
    if unsplit.plan.mesh.on is None:
        return of_peak
    try:
        kernels = unsplit.time.spent.kernels
    except HardwareError:  # a figure of the machine is missing: the least peak is found without
        return of_peak
    spent, total = Counter[str](), 0.0
    for step, times, kernel in kernels:
        seconds = float(times * kernel.seconds)
        total += seconds
        factors = program.factor_dims.get(step.computes, ()) if step.computes else ()
        spent.update(dict.fromkeys({dim for _, name in factors for dim in program.splitters(name)}, seconds))
    of_time = _shares(spent, total)
    return {dim: max(of_peak.get(dim, 0.0), of_time.get(dim, 0.0)) for dim in (*of_peak, *of_time)}


def _shares(amounts: Mapping[str, float], total: float) -> dict[str, float]:
    return {dim: amount / total for dim, amount in amounts.items()} if total else {}
