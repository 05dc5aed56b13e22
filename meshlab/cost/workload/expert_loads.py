"""Says how many rows the busiest device multiplies, by how tokens fall on experts.

    plan.time.given(load="zipf:1.0").experts
        device 0 of 4 along `data`, with `experts` 0 to 1, is the busiest: it multiplies 2.21 times the mean number of
        rows

Each device has a part of the experts, in their order, and multiplies the rows of these. Rows go back when all have
done so: the device with most of them decides how long that takes. It has no more of them than places: what finds none
is dropped. Arrays of rows have a size, that of their places, and so much is stored however few of them are taken. So
much is sent, too, but on TPUs, where empty places are left out (`engine.collectives.ragged`).

MaxText's documentation has an example of one expert that is chosen ten times as often as each other, of 256: experts
on 64 devices take 3 times as long, on 16 half as long again (`tests/cost/workload/test_expert_loads.py`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from ...engine.planning.shared_steps import counted_only
from ...engine.planning.steps import Compute
from ...engine.plans.wording import quoted
from ...engine.specs.spec import Axes
from ..machines.figures import HardwareError
from ..machines.units import share_text
from .scenario import Numbers, Scenario
from .token_load import Load, rows_of

# A number of experts, and where their axis is sharded.
_Homes = tuple[str, Numbers, Axes, float]


@dataclasses.dataclass(frozen=True)
class Busiest:
    """The device that has most rows of experts, and why.

    Attributes:
        dim: the dim of the experts.
        axes: the mesh axes that they are on.
        device: its number along these.
        of: how many devices there are along them.
        experts: the first and the last of its experts.
        asked: how many rows are sent to it, as multiples of the mean.
        rows: how many of them find a place, as multiples of the mean.
        dropped: the share of all choices that find no place on any device.
    """

    dim: str
    axes: Axes
    device: int
    of: int
    experts: tuple[int, int]
    asked: float
    rows: float
    dropped: float

    def __str__(self):
        if not self.axes:
            return f"each device has all `{self.dim}`: the load does not change the time"
        if math.isclose(self.asked, 1.0):
            return f"each device along {quoted(self.axes)} has equally many rows of `{self.dim}`"
        first, last = self.experts
        which = f"{first}" if first == last else f"{first} to {last}"
        text = (
            f"device {self.device} of {self.of} along {quoted(self.axes)}, with `{self.dim}` {which}, is the busiest:"
        )
        if not self.dropped:
            return f"{text} it multiplies {self.rows:.3g} times the mean number of rows"
        lost = f"{share_text(self.dropped)} of all choices are dropped"
        has = f"it gets {self.asked:.3g} times the mean number of rows, and has places for {self.rows:.3g} times"
        return f"{text} {has}; {lost}"


def busiest(scenario: Scenario) -> tuple[Busiest, ...]:
    """Returns for each kind of experts that rows are sent to the device that has most of them, at a single point."""
    homes = (_homes(step, scenario) for step, _ in counted_only(Compute, scenario.plan.planned.steps))
    return tuple(_busiest(scenario, each) for each in dict.fromkeys(each for each in homes if each is not None))


def _busiest(scenario: Scenario, homes: _Homes) -> Busiest:
    dim, count, axes, factor = homes
    parts = int(scenario.ways(axes))
    rows = _rows(scenario.options.load, round(count), parts, dim)
    device, each = int(np.argmax(rows)), round(count) // parts
    most = float(rows[device])
    dropped = float(np.maximum(rows - factor, 0.0).sum()) / parts
    return Busiest(
        dim, axes, device, parts, (device * each, (device + 1) * each - 1), most, min(most, factor), round(dropped, 12)
    )


def as_filled(step: Compute, shapes: Sequence[tuple[Numbers, ...]], scenario: Scenario) -> list[tuple[Numbers, ...]]:
    """Returns the shapes of operands with as many places as are full on the busiest device, for each full on average.

    Args:
        step: any; of one that multiplies rows of experts it changes the axis of places.
        shapes: of the operands' shards.
        scenario: the sizes, and how tokens fall on experts.
    """
    homes, factors = _homes(step, scenario), scenario.plan.program.factors[step.operation]
    if homes is None or factors.routed is None:
        return list(shapes)
    dim, count, axes, factor = homes
    more = _most(scenario.options.load, count, scenario.ways(axes), factor, dim)
    slots = factors.routed.slots
    return [
        tuple(size * more if axis in slots else size for axis, size in zip(has, shape, strict=True))
        for has, shape in zip(factors.operands, shapes, strict=True)
    ]


def share_full(step: Compute, scenario: Scenario) -> Numbers:
    """Returns which share of its places the busiest device has rows in, of a step that sends rows; else 1."""
    homes = _homes(step, scenario, getattr(step.operation.params.get("how"), "factor", None))
    if homes is None:
        return 1.0
    dim, count, axes, factor = homes
    return _most(scenario.options.load, count, scenario.ways(axes), factor, dim) / factor


def _homes(step: Compute, scenario: Scenario, factor: float | None = None) -> _Homes | None:
    """The experts whose rows a step multiplies: their dim, number, mesh axes, and places for each row on average.

    Of a step that sends rows, `factor` says how many places.
    """
    program, operation = scenario.plan.program, step.operation
    routed, factor = program.factors[operation].routed, factor or operation.params.get("factor")
    if routed is None or factor is None or not routed.followed:
        return None
    ids = routed.followed[-1]
    axis = next(at for at, each in enumerate(program.factors[operation].operands[ids]) if each in routed.homes)
    value, spec = operation.inputs[ids], step.operands[ids]
    assert isinstance(value, int)
    assert spec is not None
    on = spec.splits[axis]
    size = scenario.local((value, spec))[axis] * scenario.ways(on)
    return program.names[value][axis] or "experts", size, on, float(factor)


def _most(load: Load, count: Numbers, parts: Numbers, factor: float, dim: str) -> Numbers:
    """How many rows the busiest device has places for, as multiples of the mean; at each point."""

    def one(count: float, parts: float) -> float:
        return min(float(_rows(load, round(count), round(parts), dim).max()), factor)

    if isinstance(count, np.ndarray) or isinstance(parts, np.ndarray):
        return np.vectorize(one, otypes=[float])(count, parts)
    return one(count, parts)


def _rows(load: Load, count: int, parts: int, dim: str) -> np.ndarray:
    """How many rows each part of the experts gets, as multiples of the mean."""
    if isinstance(load, tuple) and len(load) != count:
        raise HardwareError(f"load has {len(load)} counts; there are {count} `{dim}`, and each of them needs one.")
    return rows_of(load, count, parts)
