"""Conditions on how a plan shards: which work is repeated, which axes are silent, where dims lie.

    Busy(1.0)                               repeats no work
    Silent("model")                         sends nothing over `model`
    Keeps("batch", ())                      keeps `batch` whole
    StoredAs("params/*", "embed", ("x",))   stores `params/*` with `embed` on `x`

Specs are read off the plan's steps, among devices: an axis in time has none, and is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ..api.silent import axes_problem, line_of, sent_over
from ..cost.machines.units import bytes_text, share_text
from ..engine.code.operations import Operation
from ..engine.errors import closest, some
from ..engine.planning.shared_steps import counted, counted_only
from ..engine.planning.steps import Compute
from ..engine.plans import work
from ..engine.plans.wording import quoted
from ..engine.programs.trained import output_names
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes
from .bounded import place_problem
from .conditions import Condition, Costs, Judged, Price


@dataclasses.dataclass(frozen=True)
class Busy(Condition):
    """The devices divide the work of a step: each does at most so many times its even share of it.

    Once, none repeats another's work. With room for more, the time in which a pipeline's stage waits counts too, as
    the work that it could have done meanwhile.
    """

    times: float = 1.0

    @property
    def text(self) -> str:
        return "repeats no work" if self.times == 1 else f"does at most {self.times:g}× its even share of the work"

    def problems(self, program: Any, mesh: Mesh) -> Iterator[str]:
        yield from ()

    def judge(self, plan: Any, costs: Costs) -> Judged:
        made = plan.work
        met = (made.share if self.times == 1 else made.taken) <= self._most(plan)
        each, even = share_text(made.share), share_text(1 / made.devices)
        is_even = made.is_divided or made.devices == 1
        value = f"{each} each" if is_even else f"{each} each, not {even}"
        value += f", stages wait for {share_text(made.waits)}" if made.waits else ""
        return Judged(met, value, "" if met else _repeated(plan) or _waited(plan))

    def priced(self, plan: Any) -> tuple[Price, float] | None:
        # What a drop makes of the work is known, but not how long stages would wait.
        return None if self.times != 1 and plan.mesh.stages else ("work", self._most(plan))

    def _most(self, plan: Any) -> float:
        """The largest share of the work that a device may do."""
        return self.times * (1 + work.LITTLE) / plan.work.devices


def _repeated(plan: Any) -> str:
    """Says where work is repeated: from which line on it is whole, or the first line that an axis does not split."""
    if plan.whole_from is not None:
        return f"Parallelism is lost at {work.line_of(plan.whole_from)}: what follows is replicated."
    of_program, least = work.measured(plan.program), work.LITTLE * plan.work.amount
    for step, times in counted_only(Compute, plan.planned.steps):
        specs = (*step.operands, *step.results)
        idle = work.repeated_along(step, plan.mesh, plan.rules.stages)
        if not idle or step.operation not in of_program:
            continue
        if times * work.multiply_adds(plan.program, step.operation, specs, plan.grid) > least:
            on = "it" if len(idle) == 1 else "them"
            return f"Devices along {quoted(idle)} repeat {work.line_of(step.operation)}: no dim there is on {on}."
    return ""


def _waited(plan: Any) -> str:
    """Says how long stages wait; "" without stages."""
    made = plan.work
    return f"Stages wait for {share_text(made.waits)} of the schedule {plan.schedule}." if made.waits else ""


@dataclasses.dataclass(frozen=True)
class Silent(Condition):
    """Nothing is sent over a mesh axis."""

    axis: str

    @property
    def text(self) -> str:
        return f"sends nothing over `{self.axis}`"

    def problems(self, program: Any, mesh: Mesh) -> Iterator[str]:
        if problem := axes_problem(mesh, (self.axis,)):
            yield f"silent: {problem}"

    def judge(self, plan: Any, costs: Costs) -> Judged:
        if problem := axes_problem(plan.mesh, (self.axis,)):
            return Judged(False, "unknown", problem)
        loud = sent_over(plan, (self.axis,))
        sent = bytes_text(sum(c.wire_bytes * c.times for c in loud))
        return Judged(not loud, sent, line_of(loud[0]) if loud else "")


@dataclasses.dataclass(frozen=True)
class Keeps(Condition):
    """A dim lies on exactly these mesh axes, major first, wherever it is computed with; on none: it stays whole."""

    dim: str
    axes: Axes

    @property
    def text(self) -> str:
        return f"keeps `{self.dim}` {_lies(self.axes)}"

    def problems(self, program: Any, mesh: Mesh) -> Iterator[str]:
        yield from _dim_problem(program, "keeps", self.dim)
        if problem := axes_problem(mesh, self.axes):
            yield f"keeps: {problem}"

    def judge(self, plan: Any, costs: Costs) -> Judged:
        if self.dim not in plan.program.dims:
            return Judged(False, "unknown", f"The program has no dim `{self.dim}`.")
        wanted = _split_by(plan.mesh, self.axes)
        for operation, axes in _lies_where(plan, self.dim):
            if axes != wanted:
                return Judged(False, _lies(axes), f"`{self.dim}` is {_lies(axes)} at {work.line_of(operation)}.")
        return Judged(True)


@dataclasses.dataclass(frozen=True)
class StoredAs(Condition):
    """A dim lies on exactly these mesh axes in whatever is stored at the places of a glob and has it."""

    place: str
    dim: str
    axes: Axes

    @property
    def text(self) -> str:
        return f"stores `{self.place}` with `{self.dim}` {_lies(self.axes)}"

    def problems(self, program: Any, mesh: Mesh) -> Iterator[str]:
        there = program.matching(self.place)
        yield from place_problem(program, self.place)
        yield from _dim_problem(program, "stored", self.dim)
        if there and self.dim in program.dims and not any(self.dim in program.place_dims[place] for place in there):
            yield f"stored: nothing at `{self.place}` has the dim `{self.dim}`"
        if problem := axes_problem(mesh, self.axes):
            yield f"stored: {problem}"

    def judge(self, plan: Any, costs: Costs) -> Judged:
        wanted, program, there = _split_by(plan.mesh, self.axes), plan.program, 0
        for place in program.matching(self.place):
            axes = _stored_axes(plan, place, self.dim) if self.dim in program.place_dims[place] else None
            if axes is not None and axes != wanted:
                return Judged(False, _lies(axes), f"`{place}` is stored with `{self.dim}` {_lies(axes)}.")
            there += axes is not None
        return (
            Judged(True) if there else Judged(False, "unknown", f"Nothing at `{self.place}` has the dim `{self.dim}`.")
        )


def _lies(axes: Axes) -> str:
    return f"on `{'+'.join(axes)}`" if axes else "whole"


def _split_by(mesh: Mesh, axes: Axes) -> Axes:
    """Returns the axes that split anything: those of one device alone stand in no spec."""
    return tuple(axis for axis in axes if mesh.axes.get(axis) != 1)


def _dim_problem(program: Any, name: str, dim: str) -> Iterator[str]:
    if dim not in program.dims:
        near = closest(dim, program.dims) or f" There are {some(list(program.dims))}."
        yield f"{name}: the program has no dim `{dim}`.{near}"


def _lies_where(plan: Any, dim: str) -> Iterator[tuple[Operation, Axes]]:
    """Yields the mesh axes of devices that a dim lies on, for each operation that reads or makes something with it."""
    program, devices = plan.program, plan.mesh.devices.axes
    for step, _ in counted(plan.planned.steps):
        # What is moved is read before or after, and a constant is made in whatever spec its readers have.
        if step.runs is None or not (step.computes or step.parts):
            continue
        for values, specs in (step.read(), step.made()):
            for value, spec in zip(values, specs, strict=True):
                splits = (
                    zip(program.dims_of(value), spec.splits, strict=True) if isinstance(value, int) and spec else ()
                )
                for axes in (axes for found, axes in splits if found == dim):
                    yield step.runs, tuple(axis for axis in axes if axis in devices)


def _stored_axes(plan: Any, place: str, dim: str) -> Axes | None:
    """Returns the mesh axes of devices that a dim lies on in what is stored at a place; None where nothing has it."""
    program = plan.program
    names = dict(zip(program.outputs, output_names(program), strict=True)).get(place)
    dims = program.dims_of(program.place(place).number) if names is None else map(program.dim_of, names)
    return next((axes for found, axes in zip(dims, plan.device_spec(place).splits, strict=True) if found == dim), None)
