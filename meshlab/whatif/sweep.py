"""Sweeps: the costs of one plan on other machines, meshes, batches and sequences, all points at once.

    swept = ml.sweep(plan, on=["v5e", "v5p", "h100"], batch=[8, 16, 32, 64], data=[8, 16, 32])
    swept.estimate                      seconds, an array of 3 x 4 x 3 points; nan where the plan is impossible
    swept.fits                          whether each fits in the memory of a device
    swept.columns()                     the same as columns of a table, one row for each point, ready to plot

The steps of a plan stay as they are; only sizes and machines change, and where a serial axis has one iteration there is
no loop. A pipeline is planned anew for each number of stages and of micro-batches: its schedule is another. (Planned
anew at another size, a plan may choose another chain of collectives for a reshard; all else stays.)
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..api.stages import Plan
from ..cost.machines.hardware import Hardware, HardwareError
from ..cost.machines.meshes import check_plan, machine_and_slice, machine_of
from ..cost.machines.placed import Placement
from ..cost.machines.placement import place_mesh
from ..cost.machines.units import seconds_text, share_text
from ..cost.peak_memory.memory import Memory, memory_of
from ..cost.step_time.links import links_of
from ..cost.step_time.time import FIGURES, Time, time_of
from ..cost.workload.options import Options
from ..cost.workload.per_shard_payloads import follows
from ..cost.workload.scenario import Scenario, together
from ..engine.errors import MeshlabError, numbered
from ..engine.planning.shared_steps import counted_only
from ..engine.planning.steps import Compute
from ..engine.plans.per_shard_collectives import per_shard_collectives_of
from ..engine.specs.mesh import Mesh
from ..engine.tables import html_rows, text_rows
from .variations import ON, UNEVEN, splits_of, uneven, values_of

Values = Mapping[str, tuple[Any, ...]]
# The most reasons that are listed.
_SHOWN = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Sweep:
    """The costs of a plan at many points. Every array has one axis for each argument that varies, in their order.

    Attributes:
        plan: the plan.
        varied: the varying arguments, "on", dims and mesh axes, with the values that each takes.
        figures: seconds by name, as in `Time`, with `flops`, `memory_bytes`, `mfu` and `bubble`; nan where a point is
            not possible, and for `expected` where no steps of the machine are published.
        communication: seconds of collectives by their mesh axes.
        peak_bytes: the peak memory of one device; see `plan.memory`. Buffers share space as at the plan's own sizes.
        limit_bytes: the memory of one device.
        reasons: for points that are not possible, by position, the reason.
    """

    plan: Plan
    varied: Mapping[str, tuple[Any, ...]]
    figures: Mapping[str, np.ndarray]
    communication: Mapping[str, np.ndarray]
    peak_bytes: np.ndarray
    limit_bytes: np.ndarray
    reasons: Mapping[tuple[int, ...], str]

    @property
    def estimate(self) -> np.ndarray:
        """Seconds of a step; nan where a point is not possible."""
        return self.figures["estimate"]

    @property
    def fits(self) -> np.ndarray:
        """Whether the peak fits the memory of a device; False where a point is not possible."""
        return self.peak_bytes <= self.limit_bytes

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each varying argument."""
        return tuple(map(len, self.varied.values()))

    def columns(self) -> dict[str, np.ndarray]:
        """Returns the columns of a table, one row for each point: the varying arguments, then every figure."""
        grids = np.meshgrid(*(np.array(list(map(_plain, values))) for values in self.varied.values()), indexing="ij")
        columns = {name: grid.ravel() for name, grid in zip(self.varied, grids, strict=True)}
        columns |= {name: values.ravel() for name, values in self.figures.items()}
        columns |= {f"communication over {axes}": values.ravel() for axes, values in self.communication.items()}
        return columns | {"peak_bytes": self.peak_bytes.ravel(), "fits": self.fits.ravel()}

    def rows(self) -> list[tuple[str, str]]:
        """Returns the varying arguments and the ranges of the figures as names and texts."""
        possible = self.estimate[~np.isnan(self.estimate)]
        rows = [(name, ", ".join(str(_plain(value)) for value in values)) for name, values in self.varied.items()]
        rows.append(("points", f"{self.estimate.size:,}, of which {possible.size:,} are possible"))
        rows.append(("estimated step time", f"{seconds_text(possible.min())} to {seconds_text(possible.max())}"))
        mfu = self.figures["mfu"]
        rows.append(("model FLOPs utilisation", f"{share_text(np.nanmin(mfu))} to {share_text(np.nanmax(mfu))}"))
        rows.append(
            ("peak memory per device", f"{np.nanmin(self.peak_bytes):,.0f} to {np.nanmax(self.peak_bytes):,.0f} B")
        )
        rows.append(("fit in memory", f"{self.fits.sum():,}"))
        why = list(dict.fromkeys(self.reasons.values()))
        rows += [("not possible", reason) for reason in why[:_SHOWN]]
        return rows + ([("", f"and {len(why) - _SHOWN:,} more reasons")] if len(why) > _SHOWN else [])

    def _repr_html_(self) -> str:
        return html_rows(self.rows())

    def __repr__(self):
        return text_rows(self.rows())


def sweep(plan: Plan, *, on: Any = None, **varied: Any) -> Sweep:
    """Costs a plan at many points at once.

    Args:
        plan: the plan; mesh axes that are varied have more than one device in it.
        on: a machine, or several: names as in `ml.mesh`, or `Hardware`. None: that of the plan's mesh, with as many
            slices and the same requested placements; a slice's shape is chosen again where mesh axes vary.
        varied: sizes of dims and mesh axes by name, one or several each; options as in `Time.given`.

    Raises:
        HardwareError: `plan` is not a plan; there is no such machine, dim, mesh axis or option; sizes are not positive
            integers; there are more than ten million points; or the plan is impossible at all of them.
    """
    check_plan(plan, "ml.sweep")
    known = [field.name for field in dataclasses.fields(Options)]
    options = Options(**{name: varied.pop(name) for name in known if name in varied})
    axes = values_of(plan, on, varied)
    of_schedule = [name for name in axes if plan.schedule is not None and name in _axes_of_pipeline(plan)]
    swept = _over_schedules(plan, axes, of_schedule, options) if of_schedule else _of_plan(plan, axes, options)
    if len(swept.reasons) == swept.estimate.size:
        raise HardwareError(f"The plan is not possible at any of these points:{_reasons_text(swept.reasons.values())}")
    return swept


def _of_plan(plan: Plan, axes: Values, options: Options) -> Sweep:
    """Costs the steps of a plan, and where a serial axis has one iteration those without its loop."""
    in_loops, without = _by_loops(plan, axes)
    if without is None:
        return _swept(plan, axes, options)
    axis, alone, points = without
    of_axis = axes[axis]
    parts = [({axis: [of_axis.index(1)]}, _swept(alone, points, options))]
    if in_loops[axis]:
        others = [i for i, size in enumerate(of_axis) if size != 1]
        parts.append(({axis: others}, _swept(plan, in_loops, options)))
    return _together(plan, axes, parts)


def _axes_of_pipeline(plan: Plan) -> tuple[str, ...]:
    """The axes whose sizes the schedule of a pipeline holds for."""
    return *plan.rules.stages, *plan.rules.in_time


def _over_schedules(plan: Plan, axes: Values, names: Sequence[str], options: Options) -> Sweep:
    """Plans a pipeline for each number of stages and of micro-batches, and costs each plan at all other points."""
    parts: list[tuple[Mapping[str, Sequence[int]], Sweep | str]] = []
    for position in itertools.product(*(range(len(axes[name])) for name in names)):
        at = {name: [i] for name, i in zip(names, position, strict=True)}
        sizes = {name: axes[name][i] for name, (i,) in at.items()}
        own = {name: (sizes[name],) if name in sizes else values for name, values in axes.items()}
        try:
            parts.append((at, _of_plan(_planned_at(plan, sizes), own, options)))
        except MeshlabError as error:
            parts.append((at, str(error)))
    return _together(plan, axes, parts)


def _planned_at(plan: Plan, sizes: Mapping[str, int]) -> Plan:
    """Plans the same layout at other sizes of mesh axes."""
    mesh = plan.mesh.resized(sizes)
    placed = None if plan.mesh.on is None else _try(plan, mesh, None)
    if isinstance(placed, str):
        raise HardwareError(placed)
    return plan.program.plan(dataclasses.replace(mesh, on=placed), plan.layout, pad=bool(plan.grid.padded))


def _by_loops(plan: Plan, axes: Values) -> tuple[Values, tuple[str, Plan, Values] | None]:
    """Takes the points at which a serial axis has one iteration: there is no loop there, and the plan is another.

    Returns:
        The values of the other points; and the axis, the plan without its loop, and the values of these points.
    """
    axis = next((axis for axis in plan.mesh.in_time if 1 in axes.get(axis, ())), None)
    if axis is None:
        return axes, None
    mesh = dataclasses.replace(plan.mesh.resized({axis: 1}), on=plan.mesh.on)
    alone = plan.program.plan(mesh, plan.layout, pad=bool(plan.grid.padded))
    others = tuple(size for size in axes[axis] if size != 1)
    return {**axes, axis: others}, (axis, alone, {**axes, axis: (1,)})


def _together(plan: Plan, axes: Values, parts: Iterable[tuple[Mapping[str, Sequence[int]], Sweep | str]]) -> Sweep:
    """Puts the costs of several plans together: each at some positions of some axes, or the reason why it has none."""
    shape = tuple(map(len, axes.values()))
    names = ("peak_bytes", "limit_bytes")
    figures = {name: np.full(shape, np.nan) for name in (*FIGURES, *names)}
    sent: dict[str, np.ndarray] = {}
    reasons: dict[tuple[int, ...], str] = {}
    for where, part in parts:
        indices = [where.get(name, range(count)) for name, count in zip(axes, shape, strict=True)]
        if isinstance(part, str):
            reasons |= dict.fromkeys(itertools.product(*indices), part)
            continue
        there = np.ix_(*indices)
        for name, values in figures.items():
            values[there] = getattr(part, name) if name in names else part.figures[name]
        for name, values in part.communication.items():
            sent.setdefault(name, np.full(shape, np.nan))[there] = values
        for position, reason in part.reasons.items():
            reasons[tuple(index[i] for index, i in zip(indices, position, strict=True))] = reason
    peak, limit = (figures.pop(name) for name in names)
    return Sweep(plan, axes, figures, sent, peak, limit, dict(sorted(reasons.items())))


def _swept(plan: Plan, axes: Values, options: Options) -> Sweep:
    """Costs the steps of a plan at all points."""
    check_payloads(plan, [name for name in axes if name != ON])
    points = list(itertools.product(*axes.values()))
    shape = tuple(map(len, axes.values()))
    placements, reasons = _placed(plan, axes, points)
    figures = {name: np.full(len(points), np.nan) for name in FIGURES}
    sent: dict[str, np.ndarray] = {}
    peak, limit = np.full(len(points), np.nan), np.full(len(points), np.nan)
    memories: dict[str, Memory] = {}
    blocks: dict[Any, Any] = {}
    groups = _alike(plan, placements)
    while groups:
        group = groups.pop()
        scenario = _scenario(plan, axes, [points[i] for i in group], [placements[i] for i in group])
        scenario = dataclasses.replace(scenario, options=options, blocks=blocks, _known={})
        try:
            time = time_of(scenario)
        except HardwareError as error:  # one of these machines or slices lacks a figure
            apart = _by_placement(group, placements)
            groups += apart if len(apart) > 1 else []
            reasons |= dict.fromkeys(group, str(error)) if len(apart) == 1 else {}
            continue
        _enter(time, group, figures, sent, len(points))
        if scenario.platform not in memories:
            memories[scenario.platform] = memory_of(plan, scenario.platform).given(options.attention)
        peak[group] = memories[scenario.platform].at(scenario)
        limit[group] = scenario.of_machine(lambda placed: placed.hardware.memory_bytes)
    return Sweep(
        plan,
        axes,
        {name: values.reshape(shape) for name, values in figures.items()},
        {name: values.reshape(shape) for name, values in sent.items()},
        peak.reshape(shape),
        limit.reshape(shape),
        {tuple(map(int, np.unravel_index(i, shape))): reasons[i] for i in sorted(reasons)},
    )


def _plain(value: Any) -> Any:
    return value.name if isinstance(value, Hardware) else value


def _reasons_text(reasons: Iterable[str]) -> str:
    """The reasons for which no point is possible, each once, and a remedy."""
    distinct = list(dict.fromkeys(reasons))
    listing = f" {distinct[0]}" if len(distinct) == 1 else f"\n{numbered(distinct, _SHOWN)}"
    if not any(UNEVEN in reason for reason in distinct):
        return listing
    fix = "Give sizes that divide, or sweep a plan made with pad=True at one of these points."
    return f"{listing}{' ' if len(distinct) == 1 else chr(10)}{fix}"


def check_payloads(plan: Plan, varied: Sequence[str]):
    """Refuses sizes at which the payload of a per-shard implementation is unknown, since it was traced at others."""
    involved = {dim: name for name in varied for dim in together(plan.program, {name: 0})} | {n: n for n in varied}
    sent = per_shard_collectives_of(plan.planned.steps, plan.program, plan.grid) if varied else {}
    for step, _ in counted_only(Compute, plan.planned.steps):
        for collective in sent.get(step.operation, ()):
            if (name := follows(step, collective, plan, involved)) is not None:
                raise HardwareError(
                    f"`{name}` cannot be varied: the communication of the {step.operation.name} at"
                    f" {step.operation.source} is known only at this size. Trace and plan the program at the other"
                    " sizes."
                )


def _placed(
    plan: Plan, axes: Mapping[str, tuple[Any, ...]], points: Sequence[tuple[Any, ...]]
) -> tuple[list[Placement | None], dict[int, str]]:
    """For each point the placement of its mesh, or the reason why the plan is impossible there."""
    machines, count = axes.get(ON, (None,)), plan.mesh.size
    if any(machine is None for machine in machines):
        machine_of(plan.mesh, "ml.sweep")
    slices = [None if machine is None else machine_and_slice(machine, count) for machine in machines]
    known: dict[Any, Placement | str] = {}
    placements: list[Placement | None] = []
    reasons: dict[int, str] = {}
    rules = splits_of(plan)
    follows = {dim: name for name in axes for dim in together(plan.program, {name: 0})}
    for i, point in enumerate(points):
        values = dict(zip(axes, point, strict=True))
        mesh = plan.mesh.resized({name: values[name] for name in plan.mesh.axes if name in values})
        at = i * len(slices) // len(points)  # the machine varies slowest
        key = (at, mesh.shape)
        if key not in known:
            known[key] = _try(plan, mesh, slices[at])
        placement = known[key]
        sizes = {**plan.program.dims, **{dim: values[name] for dim, name in follows.items()}}
        refused = placement if isinstance(placement, str) else uneven(rules, sizes, mesh.axes)
        if isinstance(placement, str) or refused:
            reasons[i] = refused
            placements.append(None)
        else:
            placements.append(placement)
    return placements, reasons


def _try(plan: Plan, mesh: Mesh, slice_: tuple[Hardware, tuple[int, ...] | None, int] | None) -> Placement | str:
    """The placement of a mesh on a machine, the plan's own for None, or the reason why there is none."""
    try:
        if slice_ is not None:
            machine, shape, count = slice_
            return place_mesh(machine, shape, mesh, count=count)
        own = machine_of(plan.mesh, "ml.sweep")
        if mesh.devices.shape == plan.mesh.devices.shape:
            return own
        return place_mesh(own.hardware, None, mesh, count=own.count, requested=own.requested)
    except HardwareError as error:
        return str(error)


def _alike(plan: Plan, placements: Sequence[Placement | None]) -> list[list[int]]:
    """The possible points, grouped by platform and by the links that their mesh axes use."""
    groups: dict[Any, list[int]] = {}
    seen: dict[int, Any] = {}
    for i, placement in enumerate(placements):
        if placement is not None:
            if id(placement) not in seen:
                links = [links_of(placement, axis) for axis in plan.mesh.devices.axes]
                seen[id(placement)] = placement.hardware.platform, *links
            groups.setdefault(seen[id(placement)], []).append(i)
    return list(groups.values())


def _by_placement(group: Sequence[int], placements: Sequence[Placement | None]) -> list[list[int]]:
    by_placement: dict[int, list[int]] = {}
    for i in group:
        by_placement.setdefault(id(placements[i]), []).append(i)
    return list(by_placement.values())


def _scenario(
    plan: Plan,
    axes: Mapping[str, tuple[Any, ...]],
    points: Sequence[tuple[Any, ...]],
    placements: Sequence[Placement | None],
) -> Scenario:
    values = {name: np.array([point[i] for point in points]) for i, name in enumerate(axes) if name != ON}
    numbers: dict[int, int] = {}
    distinct = []
    for placement in placements:
        assert placement is not None
        if id(placement) not in numbers:
            numbers[id(placement)] = len(distinct)
            distinct.append(placement)
    which = np.array([numbers[id(placement)] for placement in placements])
    grid = {name: values.get(name, size) for name, size in plan.mesh.axes.items()}
    dims = {name: sizes.astype(float) for name, sizes in together(plan.program, values).items()}
    return Scenario(plan, dims, grid, tuple(distinct), which)


def _enter(time: Time, group: Sequence[int], figures: dict[str, np.ndarray], sent: dict[str, np.ndarray], count: int):
    for name, values in figures.items():
        values[group] = getattr(time, name)
    for axes, seconds in time.communication.items():
        sent.setdefault(axes, np.full(count, np.nan))[group] = seconds
