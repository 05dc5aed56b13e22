"""Crossovers: where along a batch, a number of devices or a bandwidth another layout gets the fastest.

    print(choice.crossovers(batch=[8192, 16_384, 32_768, 65_536]))

    batch       step      layout
    8,192       1.1 ms    ffn:data
    16,384      2.2 ms    ffn:data
    32,768      4.1 ms    batch:data      from here on another
    65,536      7.9 ms    batch:data

The layouts that the search has met are priced at each value, which takes seconds: the steps of a plan stay, and sizes
and machines vary, as in `ml.sweep`. With `exact` each value is searched for by itself, with a bound.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...cost.machines.hardware import HardwareError
from ...cost.machines.meshes import machine_of
from ...cost.machines.placed import Placement
from ...cost.machines.placement import place_mesh
from ...cost.machines.scaled import with_network
from ...cost.machines.units import seconds_text
from ...cost.step_time.time import time_of
from ...cost.workload.scenario import Scenario, together
from ...engine.argument_checks import is_whole
from ...engine.errors import MeshlabError, closest, listed, shown
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from ...engine.tables import html_rows, text_rows
from ..best_first.answers import NothingFits
from ..best_first.contest import contest
from ..best_first.pricer import LayoutPrice
from ..best_first.search import TIED, Search
from ..request.answer import Asked

BANDWIDTH = "bandwidth"
# Layouts that compute differently, at most, that are priced at each value: the fastest of each.
_KINDS = 24


@dataclasses.dataclass(frozen=True)
class Best:
    """The fastest layout at one value.

    Attributes:
        value: the size of the dim or mesh axis, or what bandwidths are multiplied by.
        layout: the layout; None where none was met that fits and divides.
        seconds: of a step under it; infinite where there is none.
        bound: seconds that every layout of the search takes at least; 0 where that was not looked for.
    """

    value: float
    layout: Layout | None
    seconds: float
    bound: float = 0.0


@dataclasses.dataclass(frozen=True)
class Crossovers:
    """The fastest layout at each of several values.

    Attributes:
        name: what varies: a dim, a mesh axis, or "bandwidth".
        points: the fastest layout at each value, in their order.
    """

    name: str
    points: tuple[Best, ...]

    @property
    def flips(self) -> tuple[tuple[Best, Best], ...]:
        """The neighbouring values with different answers."""
        return tuple(
            (before, after)
            for before, after in zip(self.points, self.points[1:], strict=False)
            if before.layout != after.layout
        )

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Returns a row for each value: itself, the step, the layout, and whether it is another than before."""
        changed = {after.value for _, after in self.flips}
        return [
            (
                f"{each.value:,g}",
                "nothing fits" if each.layout is None else seconds_text(each.seconds),
                "" if each.layout is None else str(each.layout) or "nothing sharded",
                "from here on another" if each.value in changed else "",
            )
            for each in self.points
        ]

    def __str__(self):
        return text_rows([(self.name, "step", "layout", ""), *self.rows()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_rows(self.rows(), (self.name, "step", "layout", ""))


def crossovers(search: Search, asked: Asked, varied: Mapping[str, Any]) -> Crossovers:
    """Returns the fastest of the layouts met at each value.

    Args:
        search: the search that has been.
        asked: what it was asked.
        varied: the name of what varies with its values.
    """
    name, values = _read(asked, varied)
    candidates = [_Candidate(price, asked, name, values) for price in _candidates(search)]
    points: list[Best] = []
    for i, value in enumerate(values):
        possible = sorted((c for c in candidates if c.seconds[i] < math.inf), key=lambda c: c.seconds[i])
        fastest = next((c for c in possible if c.fits(i)), None)
        if fastest is None:
            points.append(Best(value, None, math.inf))
            continue
        most = fastest.seconds[i] * (1 + TIED)
        good = [c for c in possible if fastest.seconds[i] <= c.seconds[i] <= most and c.fits(i)]
        # Of layouts that are as good the one that was before stays, else the one with the fewest rules is taken.
        before = points[-1].layout if points else None
        best = next((c for c in good if c.price.layout == before), min(good, key=lambda c: c.price.rules))
        points.append(Best(value, best.price.layout, float(best.seconds[i])))
    return Crossovers(name, tuple(points))


def exact_crossovers(asked: Asked, varied: Mapping[str, Any]) -> Crossovers:
    """Searches at each value, for as long as the search might take.

    Args:
        asked: what the search was asked.
        varied: the name of what varies with its values.
    """
    name, values = _read(asked, varied)
    points = []
    for value in values:
        try:
            answer, _ = contest([_at(asked, name, value)], time.perf_counter())
        except NothingFits:
            points.append(Best(value, None, math.inf, math.inf))
        else:
            points.append(Best(value, answer.layout, answer.value, answer.bound))
    return Crossovers(name, tuple(points))


def _read(asked: Asked, varied: Mapping[str, Any]) -> tuple[str, tuple[float, ...]]:
    """What varies, and its values."""
    known = [*asked.program.dims, *asked.mesh.devices.axes, BANDWIDTH]
    if len(varied) != 1:
        raise MeshlabError(
            f"Crossovers are along one thing, not {listed(varied) or 'none'}: write"
            " choice.crossovers(batch=[256, 1024, 4096]), a mesh axis, or bandwidth=[0.5, 1, 2]."
        )
    ((name, given),) = varied.items()
    if name not in known:
        raise MeshlabError(
            f"Crossovers were asked for along `{name}`, which is neither a dim nor a mesh axis.{closest(name, known)}"
            f" There are {listed(known)}."
        )
    values = tuple(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else ()
    least = _is_factor if name == BANDWIDTH else _is_size
    if len(values) < 2 or not all(map(least, values)):
        what = "numbers above 0" if name == BANDWIDTH else "sizes, 1 or more"
        raise MeshlabError(f"`{name}` was given {shown(given)} for crossovers: give two {what}, or more.")
    return name, tuple(sorted(set(values)))


def _is_size(value: Any) -> bool:
    return is_whole(value) and value >= 1


def _is_factor(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _candidates(search: Search) -> list[LayoutPrice]:
    """The fastest layout of each way to compute, and the simplest that is as good; those with the least peaks too."""
    kinds: dict[Any, list[LayoutPrice]] = defaultdict(list)
    for price in sorted(search.met.values(), key=lambda price: (price.seconds, price.rules)):
        kinds[price.layout.dim_rules].append(price)
    fastest = []
    for prices in sorted(kinds.values(), key=lambda prices: prices[0].seconds)[:_KINDS]:
        good = [price for price in prices if price.seconds <= prices[0].seconds * (1 + TIED)]
        fastest += [prices[0], min(good, key=lambda price: price.rules)]
    smallest = sorted(search.met.values(), key=lambda price: (price.peak_bytes, price.seconds))[: _KINDS // 4]
    return sorted(dict.fromkeys([*fastest, *smallest]), key=lambda price: (price.rules, price.seconds))


@dataclasses.dataclass(frozen=True, eq=False)
class _Candidate:
    """A layout at all values."""

    price: LayoutPrice
    asked: Asked
    name: str
    values: tuple[float, ...]

    @functools.cached_property
    def seconds(self) -> np.ndarray:
        """The seconds of a step at each value; infinite where the layout does not divide, or has no place."""
        return self._filled(lambda scenario: time_of(scenario).estimate)

    def fits(self, position: int) -> bool:
        """Whether the donated peak at a value takes at most its share of a device."""
        most = self.asked.limits.most_bytes
        return most is None or bool(self._peaks[position] <= most)

    @functools.cached_property
    def _peaks(self) -> np.ndarray:
        return self._filled(self.price.memory.at)

    def _filled(self, figure: Callable[[Scenario], Any]) -> np.ndarray:
        filled = np.full(len(self.values), math.inf)
        for positions, scenario in self._scenarios:
            filled[positions] = figure(scenario)
        return filled

    @functools.cached_property
    def _scenarios(self) -> Sequence[tuple[Sequence[int], Scenario]]:
        """Scenarios with the positions of the values that each is about: on other axes each has its own placement."""
        plan, options, name = self.price.plan, self.asked.options, self.name
        own = machine_of(self.asked.mesh, "choice.crossovers")
        if name == BANDWIDTH:
            machines = [with_network(own.hardware, times) for times in self.values]
            faster = tuple(dataclasses.replace(own, hardware=machine) for machine in machines)
            every = np.arange(len(faster))
            return [(range(len(every)), Scenario(plan, {}, plan.grid, faster, every, options=options))]
        there = [i for i, value in enumerate(self.values) if _divides(self.price, name, int(value))]
        if name not in plan.mesh.axes:
            sizes = together(self.asked.program, {name: np.array([self.values[i] for i in there], float)})
            return [(there, Scenario(plan, sizes, plan.grid, (own,), options=options))] if there else []
        scenarios = []
        for i in there:
            mesh = plan.mesh.resized({name: int(self.values[i])})
            with contextlib.suppress(HardwareError):  # there is no slice for it
                placed = (_placed(self.asked, mesh),)
                scenarios.append(([i], Scenario(plan, {}, mesh.axes, placed, options=options)))
        return scenarios


def _divides(price: LayoutPrice, name: str, size: int) -> bool:
    """Whether the axes of all rules divide their dims, where one of these, or of those, has another size."""
    layout, mesh, program = price.layout, price.plan.mesh, price.plan.program
    axes = {**mesh.axes, **({name: size} if name in mesh.axes else {})}
    sizes = {**program.dims, **(together(program, {name: size}) if name in program.dims else {})}
    splits = [*layout.dim_rules, *(pair for _, own in (*layout.place_rules, *layout.scope_rules) for pair in own)]
    return not any(sizes[dim] % math.prod(axes[axis] for axis in split) for dim, split in splits if dim in sizes)


def _placed(asked: Asked, mesh: Mesh) -> Placement:
    """The placement of a mesh, the search's own where the sizes are; else derived anew."""
    own = machine_of(asked.mesh, "choice.crossovers")
    if mesh.devices.shape == asked.mesh.devices.shape:
        return own
    return place_mesh(own.hardware, None, mesh, count=own.count, requested=own.requested)


def _at(asked: Asked, name: str, value: float) -> Asked:
    """What a search is asked at one value."""
    limits = dataclasses.replace(asked.limits, progress=None)
    if name in asked.program.dims:
        program = asked.program if asked.program.dims[name] == value else asked.program.resize(**{name: int(value)})
        return dataclasses.replace(asked, program=program, limits=limits)
    if name == BANDWIDTH:
        placed = machine_of(asked.mesh, "choice.crossovers")
        placed = dataclasses.replace(placed, hardware=with_network(placed.hardware, value))
        return dataclasses.replace(asked, mesh=dataclasses.replace(asked.mesh, on=placed), limits=limits)
    mesh = asked.mesh.resized({name: int(value)})
    return dataclasses.replace(asked, mesh=dataclasses.replace(mesh, on=_placed(asked, mesh)), limits=limits)
