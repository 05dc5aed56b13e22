"""Conditions on numbers of a plan: bytes, seconds, how often it communicates.

Bounded("sends", Most(8000.0, "8 kB"))      sends at most 8 kB
Fits(None)                                  fits its device
Counted("all-reduce", "y", Count(2, 2))     runs exactly 2 all-reduces over `y`
StoredBytes("params/*", Most(2e6, "2 MB"))  stores `params/*` in at most 2 MB
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..api.silent import axes_problem, line_of
from ..cost.machines.bounds import Count, Most, read_bytes, read_seconds
from ..cost.machines.hardware import Hardware, HardwareError
from ..cost.machines.meshes import machine_of
from ..cost.machines.units import bytes_text, seconds_text
from ..engine.code.operations import nbytes
from ..engine.errors import closest, listed
from ..engine.plans.collective import Collective
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import local_shape
from .conditions import PENDING, Condition, Cost, Costs, Judged, Price, platform_of

# Any kind of collective.
ANY = "*"


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number of a plan that may be bounded.

    Attributes:
        text: the condition, around its bound.
        read: reads the bound.
        of: gives the number and what makes it large; None while it is worked out.
        written: writes it.
        price: the price of a drop that is the same number; None where there is none.
        on_machine: whether it is known on a machine alone.
    """

    text: str
    read: Callable[[Any], Most]
    of: Callable[[Any, Costs], Cost | None]
    written: Callable[[float], str]
    price: Price | None = None
    on_machine: bool = False


def _sent(plan: Any) -> Cost:
    return Cost(round(plan.wire_bytes), lambda: _most_sent(plan))


def _stored(plan: Any) -> Cost:
    return Cost(plan.stored.argument_bytes, lambda: _most_stored(plan))


def _most_sent(plan: Any) -> str:
    most = max(plan.collectives, key=lambda c: c.wire_bytes * c.times, default=None)
    return f"Most of it: {line_of(most)}" if most else ""


def _most_stored(plan: Any) -> str:
    sizes = {name: plan.stored.parts[name] for name in plan.program.parameters if name in plan.stored.parts}
    most = max(sizes, key=sizes.__getitem__, default=None)
    return f"Most of it: {bytes_text(sizes[most])} of `{most}`." if most else ""


MEASURES: Mapping[str, Measure] = {
    "sends": Measure("sends at most {}", read_bytes, lambda plan, _: _sent(plan), bytes_text, "bytes"),
    "peak": Measure(
        "uses at most {} at its peak",
        read_bytes,
        lambda plan, costs: costs.peak(platform_of(plan.mesh)),
        bytes_text,
        price="peak",
    ),
    "stores": Measure(
        "holds at most {} of arguments",
        read_bytes,
        lambda plan, _: _stored(plan),
        bytes_text,
    ),
    "step": Measure(
        "takes at most {} a step",
        read_seconds,
        lambda _, costs: costs.seconds(),
        seconds_text,
        price="seconds",
        on_machine=True,
    ),
}


@dataclasses.dataclass(frozen=True)
class Bounded(Condition):
    """A number of `MEASURES` stays within a bound."""

    name: str
    most: Most

    @property
    def text(self) -> str:
        if self.most.value == 0:
            return f"{self.name} nothing"
        return MEASURES[self.name].text.format(self.most.text)

    def problems(self, program: Any, mesh: Mesh) -> Iterator[str]:
        if MEASURES[self.name].on_machine:
            yield from _machine_problem(mesh, self.name)

    def judge(self, plan: Any, costs: Costs) -> Judged:
        measure = MEASURES[self.name]
        try:
            cost = measure.of(plan, costs)
        except HardwareError as error:  # the machine was taken away, or lacks a figure
            return Judged(False, "unknown", str(error))
        return PENDING if cost is None else _judged(cost.value, self.most, measure.written, cost.because)

    def priced(self, plan: Any) -> tuple[Price, float] | None:
        price = MEASURES[self.name].price
        return None if price is None else (price, self.most.limit)


@dataclasses.dataclass(frozen=True)
class Fits(Condition):
    """The donated peak fits a device of a machine; None: of the mesh's own."""

    machine: Hardware | None

    @property
    def text(self) -> str:
        return "fits its memory" if self.machine is None else f"fits the memory of one {self.machine.title}"

    def problems(self, program: Any, mesh: Mesh) -> Iterator[str]:
        if self.machine is None:
            yield from _machine_problem(mesh, "fits", 'fits="v5e"')

    def judge(self, plan: Any, costs: Costs) -> Judged:
        machine = self._machine(plan.mesh)
        if machine is None:
            return Judged(False, "unknown", "The mesh is on no machine, so there is no memory limit.")
        try:
            peak = costs.peak(machine.platform)
        except HardwareError as error:
            return Judged(False, "unknown", str(error))
        if peak is None:
            return PENDING
        limit, most = int(machine.memory_bytes), int(peak.value)
        met = most <= limit
        return Judged(met, f"{bytes_text(most)} of {bytes_text(limit)}", "" if met else peak.because())

    def priced(self, plan: Any) -> tuple[Price, float] | None:
        machine = self._machine(plan.mesh)
        if machine is None or machine.platform != platform_of(plan.mesh):
            return None
        return "peak", float(int(machine.memory_bytes))

    def _machine(self, mesh: Mesh) -> Hardware | None:
        return self.machine or (None if mesh.on is None else mesh.on.hardware)


@dataclasses.dataclass(frozen=True)
class Counted(Condition):
    """Collectives of a kind (`ANY` for all), over a mesh axis (None for all), are executed so often in a step."""

    kind: str
    axis: str | None
    count: Count

    @property
    def text(self) -> str:
        noun = "collective" if self.kind == ANY else self.kind
        over = f" over `{self.axis}`" if self.axis else ""
        return f"runs {self.count.of(noun, f'{noun}s')}{over}"

    def problems(self, program: Any, mesh: Mesh) -> Iterator[str]:
        if self.axis and (problem := axes_problem(mesh, (self.axis,))):
            yield f"collectives: {problem}"

    def judge(self, plan: Any, costs: Costs) -> Judged:
        if self.axis and (problem := axes_problem(plan.mesh, (self.axis,))):
            return Judged(False, "unknown", problem)
        counted = [c for c in plan.collectives if self._counts(c)]
        number = sum(int(c.times) for c in counted)
        met = self.count.holds(number)
        least = max(counted, key=lambda c: c.wire_bytes * c.times, default=None)
        too_many = not met and number > self.count.least
        return Judged(met, f"{number:,}", line_of(least) if too_many and least else "")

    def _counts(self, collective: Collective) -> bool:
        return self.kind in (ANY, collective.kind) and (self.axis is None or self.axis in collective.axes)


@dataclasses.dataclass(frozen=True)
class StoredBytes(Condition):
    """What is stored at the places of a glob takes a device so many bytes, all together."""

    place: str
    most: Most

    @property
    def text(self) -> str:
        return f"stores `{self.place}` in at most {self.most.text}"

    def problems(self, program: Any, mesh: Mesh) -> Iterator[str]:
        yield from place_problem(program, self.place)

    def judge(self, plan: Any, costs: Costs) -> Judged:
        places = [place for place in plan.program.matching(self.place) if place in plan.program.places_values]
        if not places:
            return Judged(False, "unknown", f"The program has no place `{self.place}`.")
        return _judged(sum(stored_bytes(plan, place) for place in places), self.most, bytes_text)


def place_problem(program: Any, place: str) -> Iterator[str]:
    if not program.matching(place):
        near = closest(place, program.places) or f" There are {listed(program.places[:8])}."
        yield f"stored: there is no place `{place}`.{near}"


def stored_bytes(plan: Any, place: str) -> int:
    """Returns the bytes of what is stored at a place on one device."""
    value = plan.program.place(place)
    return nbytes(math.prod(local_shape(value.shape, plan.device_spec(place), plan.grid)), value.dtype)


def _machine_problem(mesh: Mesh, name: str, instead: str = "") -> Iterator[str]:
    try:
        machine_of(mesh, name)
    except HardwareError as error:
        yield f"{name}: {error}" + (f" Or name one: {instead}." if instead else "")


def _judged(value: float, most: Most, written: Callable[[float], str], blame: Callable[[], str] = lambda: "") -> Judged:
    """Judges a number; where it misses the bound by less than its text shows, it is written out."""
    met, text = most.holds(value), written(value)
    if not met and text == written(most.value):
        text = f"{value:.9g} s" if written is seconds_text else f"{value:,.0f} B"
    return Judged(met, text, "" if met else blame())
