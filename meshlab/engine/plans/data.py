"""Plans: a program under a layout on a mesh, exactly as each device runs it.

    plan = program.plan(ml.mesh(data=2, model=2), "batch:data hidden:model")
    plan.collectives      every collective: kind, axes, bytes, times, the user's line, why, and what would remove it
    plan.check()          compiles it, and holds collectives and results against what was predicted
    plan.run(...)         runs it

A plan is a value: making one changes nothing, and a new layout is a new plan.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax

from ..code.operations import Literal, nbytes
from ..gc_pause import no_collection
from ..planning.legality import Rules, resolve
from ..planning.planner import Planned, plan_steps
from ..planning.shared_steps import unfolded
from ..planning.steps import Step
from ..running import run
from ..specs.layout import Layout, LayoutLike
from ..specs.mesh import Mesh
from ..specs.spec import Grid, Spec, local_shape, whole
from ..verifying import check, xla_partitioner
from . import estimates, explain
from .collectives import Collective, collectives_of

if TYPE_CHECKING:
    from ..programs.data import Program, Value
    from ..running.compiler_process import Cancel, Progress


@dataclasses.dataclass(frozen=True)
class Stored:
    """Bytes on each device, exact, of what goes in and comes out.

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
        program: what is computed.
        mesh: where.
        layout: what splits what.
        rules: the layout as it applies to this program and mesh.
        planned: what becomes of the program, copies of a repeated stretch told once.
    """

    program: Program
    mesh: Mesh
    layout: Layout
    rules: Rules
    planned: Planned

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """The program of each device."""
        return unfolded(self.planned.steps)

    @functools.cached_property
    def homes(self) -> Mapping[int, Spec]:
        """The spec in which each value is made, by number."""
        return self.planned.homes()

    @functools.cached_property
    def grid(self) -> Grid:
        """The mesh axes' sizes, and which sizes are padded."""
        return Grid(self.mesh.axes, self.rules.padded)

    @functools.cached_property
    def argument_specs(self) -> dict[int, Spec]:
        """How each argument, and each constant, is stored, by number."""
        names = self.program.names
        places = {a.value: a.place for a in self.program.arguments}
        return {
            v: self.rules.spec(names[v], places[v]) if v in places else whole(len(names[v]))
            for v in self.program.code.block.inputs
        }

    @functools.cached_property
    def output_specs(self) -> tuple[Spec, ...]:
        """How each output is stored."""
        program = self.program
        return tuple(
            self.rules.spec(program.names[v], place) if isinstance(v, int) else whole(0)
            for v, place in zip(program.code.block.outputs, program.outputs, strict=True)
        )

    @functools.cached_property
    def collectives(self) -> tuple[Collective, ...]:
        """Every collective, in the order of the steps."""
        with no_collection():
            return collectives_of(self)

    @property
    def wire_bytes(self) -> float:
        """Bytes that one device sends in one run of the plan."""
        return sum(c.wire_bytes * c.times for c in self.collectives)

    @functools.cached_property
    def memory(self) -> Any:
        """Predicted bytes of one device at the peak, and what they are; a `meshlab.cost.peak_memory.memory.Memory`."""
        return estimates.estimate("memory", self)

    @functools.cached_property
    def stored(self) -> Stored:
        """Exact bytes of arguments and outputs on each device."""
        parts: dict[str, int] = {}
        for argument in self.program.arguments:
            count = self._local_bytes(argument.value, self.argument_specs[argument.value])
            parts[argument.parameter] = parts.get(argument.parameter, 0) + count
        arguments = sum(parts.values())
        outputs = 0
        for value, place, spec in zip(
            self.program.code.block.outputs, self.program.outputs, self.output_specs, strict=True
        ):
            if isinstance(value, Literal):
                count = nbytes(1, jax.dtypes.result_type(value.value))
            else:
                count = self._local_bytes(value, spec)
            part = "/".join(place.split("/")[:2])
            parts[part] = parts.get(part, 0) + count
            outputs += count
        return Stored(parts, arguments, outputs)

    @functools.cached_property
    def time(self) -> Any:
        """Predicted seconds of one run on the machine that the mesh lies on; a `meshlab.cost.step_time.time.Time`.

        Raises:
            HardwareError: the mesh lies on no machine, or a figure of the machine is missing.
        """
        return estimates.estimate("time", self)

    def _local_bytes(self, value: int, spec: Spec) -> int:
        code = self.program.code
        return nbytes(math.prod(local_shape(code.shapes[value], spec, self.grid)), code.dtypes[value])

    def spec(self, value: Value | str) -> Spec:
        """How a value lies on the mesh: where it is stored if it is a place, else where it is made.

        Args:
            value: a `Value` of the program, or a place.

        Raises:
            MeshlabError: there is no such place, or it is no value of this program.
        """
        found = self.program.find(value)
        place = value if isinstance(value, str) else value.place
        if place is not None and place in self.program.places:
            return self.rules.spec(found.dims, place)
        home = self.homes.get(found.number)
        return home if home is not None else self.rules.spec(found.dims)

    def shard(self, value: Value | str, device: int) -> tuple[tuple[int, int], ...]:
        """The index range of each axis of a value that a device holds: (start, stop).

        Args:
            value: a `Value` of the program, or a place.
            device: from 0, row-major over the mesh.

        Raises:
            MeshError: there is no such device.
            MeshlabError: there is no such place, or it is no value of this program.
        """
        found = self.program.find(value)
        where = self.mesh.coordinates(device)
        ranges = []
        for size, split in zip(found.shape, self.spec(value).splits, strict=True):
            index = 0
            for axis in split:
                index = index * self.mesh.axes[axis] + where[axis]
            part = self.grid.padded.get(size, size) // math.prod(self.grid[a] for a in split) if split else size
            ranges.append((min(index * part, size), min((index + 1) * part, size)))
        return tuple(ranges)

    def explain(self) -> explain.Explanation:
        """Every collective with its cause and what would remove it, as text and as rows."""
        return explain.explain(self)

    def compile(self) -> Any:
        """Compiles the plan for attached or simulated devices.

        Returns:
            JAX's compiled executable (`as_text()` is its HLO).
        """
        return run.compiled(self)

    def run(self, *args: Any, donate: bool = False) -> Any:
        """Runs the plan.

        Args:
            *args: as for the function: tensors, NumPy or JAX arrays.
            donate: whether the arguments that the next call gets anew may be overwritten.

        Returns:
            The function's own output tree.

        Raises:
            RunError: an argument does not fit, or one that may be overwritten is the same array as another.
        """
        return run.run(self, args, donate)

    def check(self, *args: Any) -> check.Report:
        """Compiles and runs the plan, and holds it against its prediction and the unsharded function.

        Args:
            *args: as for `run`; without any, data is drawn.

        Returns:
            A `Report`; `.ok` says whether everything is equal.
        """
        if args:
            run.flat_arguments(self, args)
        return check.check(self, args)

    @property
    def shardings(self) -> tuple[Any, Any]:
        """How arguments and outputs are stored, in JAX's words: `jax.sharding.NamedSharding`s on the plan's devices.

        Two trees: of the tuple of arguments, and of the outputs. In the place of each tensor or array stands one
        sharding, as JAX wants it: `jax.jit(fn, in_shardings=inputs, out_shardings=outputs)` for the function that was
        traced, `jax.device_put(args, inputs)`. To walk the trees beside those of the data, take each tensor for a leaf
        (`is_leaf=lambda leaf: isinstance(leaf, ml.Tensor)`).

        Raises:
            LayoutError: an argument or output is padded: JAX takes no shards of different sizes.
            MeshError: there are too few devices, and too many are asked for to simulate them.
        """
        return xla_partitioner.shardings(self)

    @property
    def partition_specs(self) -> tuple[Any, Any]:
        """The trees of `shardings`, of `jax.sharding.PartitionSpec`s: they need no devices.

        Raises:
            LayoutError: an argument or output is padded: JAX takes no shards of different sizes.
        """
        return xla_partitioner.partition_specs(self)

    def xla(
        self,
        constraints: str = "all",
        *,
        timeout: float = 600,
        progress: Callable[[Progress], Any] | None = None,
        cancel: Cancel | None = None,
    ) -> xla_partitioner.Partitioned:
        """Hands the same layout to XLA's own partitioner, compiles what it makes of it, and reads its collectives.

        There are programs in which that partitioner ends its process: it runs in one of its own.

        Args:
            constraints: what XLA is told: "all", the spec in which the plan makes each value (partial sums excepted,
                of which XLA has no word), or "stored", arguments, outputs and tags with rules alone.
            timeout: seconds after which XLA is ended.
            progress: called with a `Progress` at each stage, and each second in between; `print` will do.
            cancel: such as a `threading.Event`, asked several times a second; once it is set, XLA is ended.

        Returns:
            What XLA inserts beside what is planned; `.compiled` and `.run` are its program.

        Raises:
            MeshlabError: there are no such constraints.
            CompilerError: XLA's partitioner fails on the program, takes too long, or was cancelled.
            LayoutError: an argument or output is padded: XLA's partitioner takes no shards of different sizes.
            MeshError: there are too few devices, and too many are asked for to simulate them.
            RunError: the compiled program holds a collective that cannot be read.
        """
        return xla_partitioner.partitioned(self, constraints, timeout, progress, cancel)

    def to_json(self) -> str:
        """The plan as JSON: mesh, layout, collectives, memory, and the time where the mesh lies on a machine."""
        return explain.to_json(self)

    def __repr__(self):
        return explain.table(self)

    def _repr_html_(self) -> str:
        return explain.html_table(self)


def make_plan(program: Program, mesh: Mesh, layout: LayoutLike, pad: bool | None = None) -> Plan:
    """Plans a program; see `Program.plan`, and for `pad` `legality.resolve`.

    Raises:
        MeshlabError: `mesh` is no `Mesh`.
        LayoutError: the layout is not legal.
    """
    with no_collection():
        rules = resolve(program, mesh, layout, pad)
        planned = plan_steps(program, rules, Grid(mesh.axes, rules.padded), program.outline)
    return Plan(program, mesh, Layout.of(layout), rules, planned)
