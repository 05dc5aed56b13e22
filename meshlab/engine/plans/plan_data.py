"""The data of a plan: the steps that each device runs under a layout on a mesh, and all that follows from them alone.

Users hold an `api.Plan`, which adds the verbs: check, run, explain.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar, cast

import jax

from ..code.operations import Literal, Operation, nbytes
from ..gc_pause import no_collection
from ..legality.legal_rules import LegalRules
from ..planning.planned import Planned
from ..planning.shared_steps import written_out
from ..planning.staged import Staged
from ..planning.step import Step, only, unfolded
from ..programs.trained import output_names
from ..schedules.schedule import Schedule
from ..specs.in_time import without
from ..specs.layout import Layout
from ..specs.mesh import Mesh
from ..specs.spec import Grid, Spec, local_shape, replicated
from .collective import Collective
from .collectives import collectives_by_step
from .trials import Trials
from .work import Work, whole_from, work

if TYPE_CHECKING:
    from ..programs.program import Program, Value

Known = TypeVar("Known")


@dataclasses.dataclass(frozen=True)
class Stored:
    """The exact bytes of arguments and outputs on each device.

    Attributes:
        parts: bytes by argument of the function, and by output (`out/0`, …).
        argument_bytes: of all arguments.
        output_bytes: of all outputs.
    """

    parts: Mapping[str, int]
    argument_bytes: int
    output_bytes: int


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """A program under a layout on a mesh; made by `program.plan`.

    Attributes:
        program: whose plan it is.
        mesh: the devices.
        layout: which dims lie on which mesh axes.
        rules: the layout as it applies to this program and mesh.
        planned: the steps, repetitions of a repeated stretch listed once.
        under: plans the same program on the same mesh under another layout; None where nobody asks for that.
        prints: plans a program that returns what is printed, alike; None where nothing is printed.
    """

    program: Program
    mesh: Mesh
    layout: Layout
    rules: LegalRules
    planned: Planned
    under: Callable[[Layout], Plan] | None = None
    prints: Callable[[Program], Plan] | None = None

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """The program of each device."""
        return unfolded(self.planned.steps)

    @functools.cached_property
    def schedule(self) -> Schedule | None:
        """Which stage runs what when, for the plan's micro-batches; None without a pipeline."""
        return next((step.schedule for step in only(Staged, self.planned.steps)), None)

    @functools.cached_property
    def producer_specs(self) -> Mapping[int, Spec]:
        """The spec in which each value is made, by number."""
        return self.planned.producer_specs()

    @functools.cached_property
    def grid(self) -> Grid:
        """The mesh axes' sizes, and which sizes are padded."""
        return self.rules.grid(self.mesh)

    @functools.cached_property
    def argument_specs(self) -> dict[int, Spec]:
        """The spec in which each argument, and each constant, is stored, by number."""
        names = self.program.names
        places = {a.value: a.place for a in self.program.arguments}
        return {
            v: self.rules.spec(names[v], places[v]) if v in places else replicated(len(names[v]))
            for v in self.program.code.block.inputs
        }

    @functools.cached_property
    def output_specs(self) -> tuple[Spec, ...]:
        """The spec in which each output is stored."""
        program = self.program
        return tuple(self.rules.spec(*stored) for stored in zip(output_names(program), program.outputs, strict=True))

    @functools.cached_property
    def collectives_by_step(self) -> tuple[tuple[Collective, ...], ...]:
        """The collectives of each step, as `shared_steps.each_once` goes through them."""
        with no_collection():
            trials = Trials(self, self.under) if self.under is not None else None
            return collectives_by_step(self.program, self.rules, self.grid, self.planned.steps, trials)

    @functools.cached_property
    def sent(self) -> Mapping[int, tuple[Collective, ...]]:
        """The collectives of each step as it runs (`steps`), by its identity."""
        sent = self.collectives_by_step
        rows = written_out(self.planned.steps, self.steps)
        return {id(row.step): sent[row.position] for row in rows if sent[row.position]}

    @functools.cached_property
    def collectives(self) -> tuple[Collective, ...]:
        """Every collective, in the order of the steps."""
        return tuple(itertools.chain.from_iterable(self.collectives_by_step))

    @property
    def wire_bytes(self) -> float:
        """Bytes that one device sends in one run of the plan."""
        return sum(c.wire_bytes * c.times for c in self.collectives)

    @functools.cached_property
    def work(self) -> Work:
        """The part of a step's work that each device does."""
        return work(self.program, self.mesh, self.grid, self.planned.steps)

    @functools.cached_property
    def whole_from(self) -> Operation | None:
        """The operation from which on work is whole that was divided before; None where no parallelism is lost."""
        return whole_from(self.program, self.rules, self.mesh, self.grid, self.steps, made=self.work)

    def once(self, function: Callable[[Plan], Known]) -> Known:
        """Returns what a function works out of the plan, which it does once."""
        if function not in self._known:
            self._known[function] = function(self)
        return cast(Known, self._known[function])

    @functools.cached_property
    def _known(self) -> dict[Callable, object]:
        return {}

    @functools.cached_property
    def stored(self) -> Stored:
        """Exact bytes of arguments and outputs on each device."""
        parts: dict[str, int] = {}
        names = [argument.parameter for argument in self.program.arguments]
        names += ["/".join(place.split("/")[:2]) for place in self.program.outputs]
        for name, count in zip(names, (*self.argument_sizes, *self.output_sizes), strict=True):
            parts[name] = parts.get(name, 0) + count
        return Stored(parts, sum(self.argument_sizes), sum(self.output_sizes))

    @functools.cached_property
    def argument_sizes(self) -> tuple[int, ...]:
        """Exact bytes of each argument on each device, in the program's order."""
        return tuple(self._local_bytes(a.value, self.argument_specs[a.value]) for a in self.program.arguments)

    @functools.cached_property
    def output_sizes(self) -> tuple[int, ...]:
        """Exact bytes of each output on each device, in the program's order."""
        return tuple(
            nbytes(1, jax.dtypes.result_type(v.value)) if isinstance(v, Literal) else self._local_bytes(v, spec)
            for v, spec in zip(self.program.code.block.outputs, self.output_specs, strict=True)
        )

    def _local_bytes(self, value: int, spec: Spec) -> int:
        code = self.program.code
        return nbytes(math.prod(local_shape(code.shapes[value], spec, self.grid)), code.dtypes[value])

    def spec(self, value: Value | str) -> Spec:
        """Returns a value's spec: that in which it is stored if it is a place, else its producer's.

        Args:
            value: a `Value` of the program, or a place.

        Raises:
            MeshlabError: there is no such place, or it is no value of this program.
        """
        asked = self.program.find(value)
        place = value if isinstance(value, str) else value.place
        if place is not None and place in self.program.places:
            names = dict(zip(self.program.outputs, output_names(self.program), strict=True)).get(place, asked.dims)
            return self.rules.spec(names, place)
        return self.producer_specs.get(asked.number) or self.rules.spec(asked.dims)

    def device_spec(self, value: Value | str) -> Spec:
        """Returns a value's spec among devices: without axes in time, whose blocks meet on one device; see `spec`."""
        return functools.reduce(without, self.mesh.in_time, self.spec(value))

    def shard(self, value: Value | str, device: int) -> tuple[tuple[int, int], ...]:
        """Returns the index range of each axis of a value that a device holds: (start, stop).

        Args:
            value: a `Value` of the program, or a place.
            device: from 0, row-major over the mesh.

        Raises:
            MeshError: there is no such device.
            MeshlabError: there is no such place, or it is no value of this program.
        """
        asked = self.program.find(value)
        where = self.mesh.coordinates(device)
        axes = zip(asked.shape, self.device_spec(value).splits, strict=True)
        return tuple(self.grid.part_range(size, split, where) for size, split in axes)
