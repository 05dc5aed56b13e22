"""The stages that users hold: a `Program` and its `Plan`s, with all their methods.

    program = ml.trace(step, params, ml.f32[Batch, Rows, Cols])
    plan = program.plan(ml.mesh(data=2, model=2), "batch:data hidden:model")
    plan.collectives      every collective: kind, axes, bytes, times, the user's line, why, and what would remove it
    plan.check()          compiles it, and holds collectives and results against what was predicted
    plan.run(...)         runs it

Both are values: making one changes nothing, and a new layout is a new plan. Their data stand below, in
`programs/program.py` and `plans/plan_data.py`, which planning, running and verifying work on; the methods here only
call them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import jax

from ..engine.argument_checks import flag
from ..engine.gc_pause import no_collection
from ..engine.inside import first_difference
from ..engine.legality.asked import as_asked
from ..engine.legality.examine import examine, refusals
from ..engine.legality.refusal import Refusal
from ..engine.planning.plan_steps import plan_steps
from ..engine.plans.every_problem import refuse_all
from ..engine.plans.iterations import divided
from ..engine.plans.plan_data import Plan as PlanData
from ..engine.plans.zigzag_moves import refuse_zigzag_moves
from ..engine.programs import program as programs
from ..engine.programs.outline import outline
from ..engine.programs.rename import made_up, renamed
from ..engine.programs.resize import resized
from ..engine.programs.scoped import scoped, scopes
from ..engine.running import run
from ..engine.running.compiler_process import Cancel, Progress
from ..engine.running.printing import run_printing
from ..engine.specs.layout import Layout, LayoutLike, on_mesh
from ..engine.specs.mesh import Mesh
from ..engine.specs.scopes import path
from ..engine.verifying import check, xla_partitioner
from ..training import fit, moves
from ..training.checkpoints import Checkpoint
from ..training.feeding import Training
from ..training.fit import Fit
from . import explain, looked_into, silent, step_trace

# What the function returns, and a run of its plan with it.
Result = TypeVar("Result")


class Program(programs.Program, Generic[Result]):
    """A traced function, with a dim name on every axis of every value; made by `ml.trace`."""

    def plan(self, mesh: Mesh, layout: LayoutLike = None, *, pad: bool = False) -> Plan[Result]:
        """Plans the program under a layout on a mesh.

        Args:
            mesh: made by `ml.mesh`.
            layout: a string, dict or `Layout`; None shards nothing.
            pad: whether a dim whose size its axes do not divide is padded; without, it is refused. Results are the
                same; the last devices hold and compute fewer elements that count.

        Returns:
            The `Plan`.

        Raises:
            LayoutError: the layout is not legal; all problems are listed.
        """
        return make_plan(self, mesh, layout, flag("plan()", "pad", pad))

    def refusals(
        self, mesh: Mesh, layout: LayoutLike = None, *, pad: bool = False
    ) -> dict[str, dict[str, Refusal | None]]:
        """Says for every dim and mesh axis what would be refused if the dim were moved there; None if nothing.

        Args:
            mesh: made by `ml.mesh`.
            layout: the layout in which one dim is moved.
            pad: whether it would be planned with padding.
        """
        return refusals(self, mesh, layout, flag("refusals()", "pad", pad))

    def rename(self, names: Mapping[str, str] | None = None, **keywords: str) -> Program[Result]:
        """Returns the same program with dims called otherwise; so a made-up name becomes one that layouts can address.

        Several names may become one: `program.rename({"~seq": "kv", "~seq_2": "kv"})` makes the keys of two layers one
        dim.

        Args:
            names: new names by old ones: `{"~seq": "kv"}`.
            keywords: nothing: names are given in a dict.

        Raises:
            DimError: there is no such name; or names that become one differ in size, or are in one value.
        """
        return renamed(self, names, keywords)

    def resize(self, *given: object, **sizes: int) -> Program[Result]:
        """Traces the function again, with other sizes of its arguments.

        Axes that merge a dim, and those that were cut off it and are as long, follow; so do renames.

        Args:
            given: nothing: sizes are given by name.
            sizes: new sizes by dim: `program.resize(batch=128)`.

        Raises:
            DimError: there is no such dim, or no argument has it; or a size is invalid.
            TraceError: the function cannot be traced at these sizes: it closes over one, on the line that is named.

        Example:
            >>> program.resize(batch=128).dims["batch"]
            128
        """
        return resized(self, sizes, given)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that its operations are in, in order, as a layout writes them: `@attention/core`."""
        return tuple(f"@{path(scope)}" for scope in scopes(self))

    @property
    def made_up(self) -> dict[str, int]:
        """The made-up names, `~seq` say, with their sizes above 1: those that `rename` makes yours."""
        return made_up(self)


class Plan(looked_into.Plan, Generic[Result]):
    """A program under a layout on a mesh, exactly as each device runs it; made by `Program.plan`."""

    program: Program[Result]

    def explain(self) -> explain.Explanation:
        """Explains every collective by its cause and the change that removes it, as text and as rows."""
        return explain.explain(self)

    def compile(self) -> jax.stages.Compiled:
        """Compiles the plan for attached or simulated devices.

        Returns:
            JAX's compiled executable (`as_text()` is its HLO).
        """
        return run.compiled(self)

    def run(self, *args: object, donate: bool = False) -> Result:
        """Runs the plan; then prints what `jax.debug.print` in the function prints: whole values, once, in its order.

        Args:
            *args: as for the function: tensors, NumPy or JAX arrays.
            donate: whether arguments that the next call passes again may be overwritten.

        Returns:
            The function's own output tree.

        Raises:
            RunError: an argument does not fit, or one that may be overwritten is the same array as another.
        """
        return run_printing(self, args, donate)

    def fit(
        self,
        state: Mapping[str, Any] | Fit | Checkpoint | Training,
        batches: Iterable[Mapping[str, Any]] | Callable[[], Iterable[Mapping[str, Any]]] | None = None,
        *,
        steps: int | None = None,
        loss: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int | None = None,
        keep: int | None = 3,
        until: Callable[[Fit], object] | None = None,
        progress: Callable[[Fit], object] | None = None,
        donate: bool = False,
    ) -> Fit:
        """Trains under the plan: feeds batches, carries the state from step to step, and saves it.

        Args:
            state: values of the program's arguments at the first step, by name: every argument that it carries, and
                every other one that the batches do not give. Or a fit or an `ml.restore(path)` to go on from, under
                any plan; or an `ml.Training`.
            batches: dicts of the other arguments by name: an iterator, an iterable or a function that makes one; the
                last two start over when they are used up. Begin with the batch of the training's first step: batches
                that were taken before a checkpoint are skipped, or an iterator with `get_state` and `set_state` gets
                the state that was saved.
            steps: the step at which the training ends, counted from its very first one.
            loss: the place of the output that is the loss, `"out/0"`; None if the step returns only one number, or only
                one that is called `loss`. Other numbers are metrics.
            checkpoint: the folder to save in. If there is a checkpoint in it, the training goes on from the last
                undamaged one, whatever `state` is.
            every: the number of steps from one checkpoint to the next; None saves only at the end.
            keep: the number of checkpoints to keep; None keeps all.
            until: called with the `Fit` after each step; the training ends when it returns something true.
            progress: called with the `Fit` about once a second, and at the end; `print` works.
            donate: whether the arrays in `state` may be overwritten, which saves memory; from step to step, they
                always are.

        Returns:
            A `Fit`: `.losses`, `.metrics`, `.state`, `.step`.

        Raises:
            RunError: the program carries nothing, or it is unclear which output is the loss; the state or a batch
                does not fit; a checkpoint cannot be saved; or all checkpoints in the folder are damaged.

        Example:
            >>> fit = plan.fit({"params": params}, batches, steps=1000, checkpoint="runs/llama", every=200)
        """
        given = {"steps": steps, "loss": loss, "checkpoint": checkpoint, "every": every, "keep": keep}
        return fit.fit(self, state, batches, **given, until=until, progress=progress, donate=donate)

    def move(self, other: Plan) -> moves.Move:
        """Predicts the cost of moving a training's state to another plan: bytes, collectives, seconds.

        Args:
            other: a plan of the same program, on any mesh, under any layout.

        Returns:
            A `Move`: `.read`, `.held` and `.new` in bytes; if one mesh fits both plans, also the collectives of each
            array in `.arrays`, `.wire_bytes`, `.seconds` on a machine, and `.constraints()` for your own `jit`.

        Raises:
            RunError: the plan's program has other arrays, or one of them is padded.
        """
        return moves.move(self, other)

    def check(
        self,
        *args: object,
        progress: Callable[[Progress], object] | None = None,
        cancel: Cancel | None = None,
    ) -> check.Report:
        """Compiles and runs the plan, and compares it with its prediction and the unsharded function.

        Args:
            *args: as for `run`; without any, data is drawn, more than once.
            progress: called with a `Progress` before each stage; `print` will do.
            cancel: such as a `threading.Event`, asked between any two stages; once it is set, the check ends.

        Returns:
            A `Report`; `.ok` says whether everything is equal, `.notes` what was not compared.

        Raises:
            RunError: arguments are missing or do not fit; or the check was cancelled.
        """
        if args:
            run.flat_arguments(self, args, "check()")
        return check.check(self, args, progress, cancel)

    def first_difference(
        self, other: Plan[Result] | Callable[..., Result], *args: object
    ) -> first_difference.Difference | None:
        """Runs two plans of one program, and finds the first value that differs by more than rounding explains.

        Args:
            other: a plan of the same program, or the function that was traced, which runs on one device.
            *args: as for `run`; without any, on random data.

        Returns:
            The value with its line, its iteration (from 0), the devices where it is wrong, and its error; or None.

        Raises:
            RunError: `other` is a plan of another program, or another function; or an argument does not fit.
        """
        right = self.once(_on_one_device) if other == self.program.fn else other
        return first_difference.between(self, right, args)

    @property
    def shardings(self) -> tuple[Any, Any]:
        """The shardings of arguments and outputs: `jax.sharding.NamedSharding`s on the plan's devices.

        Two trees: of the tuple of arguments, and of the outputs. In the place of each tensor or array stands one
        sharding, as JAX wants it: `jax.jit(fn, in_shardings=inputs, out_shardings=outputs)` for the function that was
        traced, `jax.device_put(args, inputs)`. To walk these trees together with the data's, treat each tensor as a
        leaf (`is_leaf=lambda leaf: isinstance(leaf, ml.Tensor)`).

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
        progress: Callable[[Progress], object] | None = None,
        cancel: Cancel | None = None,
    ) -> xla_partitioner.Partitioned:
        """Hands the same layout to XLA's own partitioner, compiles its result, and reads the collectives.

        There are programs in which that partitioner ends its process: it runs in one of its own.

        Args:
            constraints: the shardings that XLA must respect: "all", the spec in which the plan makes each value (but
                for partial sums, which JAX cannot express), or "stored", arguments, outputs and tags with rules alone.
            timeout: seconds after which XLA is ended.
            progress: called with a `Progress` at each stage, and each second in between; `print` will do.
            cancel: such as a `threading.Event`, asked several times a second; once it is set, XLA is ended.

        Returns:
            The collectives that XLA inserts, beside those planned; `.compiled` and `.run` are its program.

        Raises:
            MeshlabError: there are no such constraints.
            CompilerError: XLA's partitioner fails on the program, takes too long, or was cancelled.
            LayoutError: an argument or output is padded: XLA's partitioner takes no shards of different sizes; or the
                layout uses a serial axis, which that partitioner does not know.
            MeshError: there are too few devices, and too many are asked for to simulate them.
            RunError: the compiled program holds a collective that cannot be read.
        """
        return xla_partitioner.partitioned(self, constraints, timeout, progress, cancel)

    def assert_silent(self, *axes: str) -> None:
        """Holds that nothing is sent over mesh axes: `plan.assert_silent("model")`, in a test of a layout.

        Args:
            *axes: the names of axes of devices.

        Raises:
            LayoutError: something is sent over one of them; each collective is listed, with its line and its cause.
            MeshError: the mesh has no such axis of devices.
        """
        silent.assert_silent(self, axes)

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the predicted step as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

        Args:
            path: the file, which is replaced: `"step.json"`.

        Raises:
            HardwareError: the mesh is on no machine, or a figure of the machine is missing.
            MeshlabError: the file cannot be written.
        """
        step_trace.write_trace(self, path)

    def to_json(self) -> str:
        """Writes the plan as JSON: mesh, layout, collectives, memory, and the time where the mesh is on a machine."""
        return explain.to_json(self)

    def __repr__(self):
        return explain.table(self)

    def _repr_html_(self) -> str:
        return explain.html_table(self)


def _on_one_device(plan: PlanData) -> PlanData:
    """Returns the plan of the plain function."""
    program = plan.program.traced or plan.program
    assert isinstance(program, Program)
    return make_plan(program, Mesh(()), None)


def make_plan(program: Program, mesh: Mesh, layout: LayoutLike, pad: bool | None = None) -> Plan:
    """Plans a program; see `Program.plan`, and for `pad` `legality.examine.resolve`."""
    with no_collection():
        verdict = examine(program, mesh, layout, pad)
        layout, rules = on_mesh(Layout.of(layout), mesh), verdict.rules
        if verdict.problems or rules is None:
            refuse_all(program, mesh, layout, verdict, pad)
        assert rules is not None
        under = functools.partial(make_plan, program, mesh, pad=pad)
        prints = functools.partial(make_plan, mesh=mesh, layout=layout, pad=pad) if program.printing else None
        program = scoped(as_asked(program, mesh, layout), mesh, layout)
        grid = rules.grid(mesh)
        planned = plan_steps(program, rules, grid, outline(program))
        plan = Plan(program, mesh, layout, rules, planned, under, prints)  # pyright: ignore[reportArgumentType]
        if program.zigzags:
            refuse_zigzag_moves(program, plan.steps)
        return divided(plan) if rules.in_time else plan
