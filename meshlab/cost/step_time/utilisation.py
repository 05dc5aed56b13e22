"""Says how well a step uses its devices, in the units that published runs are told in.

    model FLOPs utilisation   model FLOPs of a device / (seconds · its peak FLOP/s)      PaLM, appendix B
    hardware FLOPs utilis.    the same of all FLOPs that it executes, rematerialised and replicated ones too
    tokens/s per device       batch · seq / (seconds · devices)
    arithmetic intensity      FLOPs per byte of the step, beside the ridge, where a machine computes as long as it reads

A device's peak is its data sheet's figure for dense matmuls, without any share that it reaches in practice; where
dtypes differ, each operation counts by the peak of its own. See `model_flops` for what counts.

Source: Chowdhery et al. 2022, PaLM (https://arxiv.org/abs/2204.02311), appendix B; Williams, Waterman and Patterson
2009, Roofline (CACM 52(4)).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...engine.errors import DimError, closest, listed, shown
from ...engine.tensors.dims import Dim
from ..machines.accuracy import TimeFactor
from ..machines.units import seconds_text
from ..workload.scenario import Numbers, Scenario
from .flops import multiplied_at
from .model_flops import model_flops, second_runs
from .spent import Spent

# The dims whose product is a language model's tokens.
TOKENS = ("batch", "seq")


def of_a_device(scenario: Scenario) -> Numbers:
    """Returns the model FLOPs of one run, over the number of devices."""
    return sum(model_flops(scenario).values()) / _devices(scenario)


def seconds_at_peak(scenario: Scenario) -> Numbers:
    """Returns the seconds that a device's share of the model FLOPs takes at its peak."""
    by_dtype = model_flops(scenario)
    return sum(flops / _peak(scenario, dtype) for dtype, flops in by_dtype.items()) / _devices(scenario)


def seconds_executed(scenario: Scenario, spent: Spent) -> Numbers:
    """Returns the seconds that all FLOPs that a device executes take at its peak."""
    matmuls = (
        (known[0], cost.flops * times)
        for step, times, cost in spent.kernels
        if step.computes and (known := multiplied_at(step.computes, scenario)) is not None
    )
    return sum((flops / _peak(scenario, dtype) for dtype, flops in matmuls), 0.0)


def over(amount: Numbers, seconds: Numbers) -> Numbers:
    """Returns an amount over the seconds that it takes; nothing takes no time."""
    if isinstance(seconds, np.ndarray):
        return np.where(seconds > 0, amount / np.where(seconds > 0, seconds, 1.0), 0.0)
    return amount / seconds if seconds else 0.0


def items(scenario: Scenario, dims: tuple[str | Dim, ...]) -> Numbers:
    """Returns the product of the sizes of dims, over the number of devices."""
    known = scenario.plan.program.dims
    names = [dim.name if isinstance(dim, Dim) else dim for dim in dims]
    for name in names:
        if not isinstance(name, str) or name not in known:
            text = f"`{name}`" if isinstance(name, str) else shown(name)
            raise DimError(f"{text} is not a dim of this program.{closest(name, known)} There are {listed(known)}.")
    if not names or len(set(names)) < len(names):
        raise DimError(f'Items are counted by dims, each given once, such as per_second("batch"), not {listed(names)}.')
    return math.prod(scenario.dims.get(name, known[name]) for name in names) / _devices(scenario)


def seconds_again(scenario: Scenario, spent: Spent) -> Numbers:
    """Returns the seconds of the kernels that run a second time, under `jax.checkpoint`."""
    second = second_runs(scenario.plan.program)
    return sum(
        (
            cost.seconds * times * second[operation]
            for step, times, cost in spent.kernels
            if (operation := step.computes) is not None and operation in second
        ),
        0.0,
    )


def balance(scenario: Scenario) -> Numbers:
    """Returns the FLOPs per byte at which a machine computes as long as it reads and writes its memory."""
    by_dtype = model_flops(scenario)
    seconds = sum(flops / _peak(scenario, dtype) for dtype, flops in by_dtype.items())
    return over(sum(by_dtype.values()), seconds) / scenario.of_machine(lambda p: p.hardware.bytes_per_second)


def expected_between(expected: Numbers, spread: Numbers) -> tuple[Numbers, Numbers]:
    """Returns the least and the most seconds that a step takes, where its prediction is off by `spread` at most."""
    return expected / (1 + spread), expected / (1 - spread)


def expected_text(expected: float | None, factor: TimeFactor | None, machine: str, precision: str = "") -> str:
    """Returns the expected step time as text, with the published runs that it rests on."""
    if expected is None or factor is None:
        return f"not known: no steps{f' in {precision}' if precision else ''} on {machine} are published"
    times = f"{factor.factor:g} times the estimate"
    if factor.spread is None:
        return f"{seconds_text(expected)}: {times}, as in the one published run"
    low, high = map(seconds_text, expected_between(expected, factor.spread))
    return f"{seconds_text(expected)} ({low} to {high}): {times}, as in {factor.runs} published runs"


def _devices(scenario: Scenario) -> Numbers:
    return scenario.ways(tuple(scenario.plan.mesh.devices.axes))


def _peak(scenario: Scenario, dtype: Any) -> Numbers:
    return scenario.of_machine(lambda placement: placement.hardware.flops_per_second(dtype))
