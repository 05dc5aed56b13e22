"""Explains a program that the user's own `jax.jit` compiles: `ml.explain`.

report = ml.explain(jax.jit(step, in_shardings=…, out_shardings=…), params, x)
print(report)
report.collectives      each with its line, value, dims, cause, and what started it
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import Mesh

from ..api.priced import Plan as Priced
from ..api.stages import Plan
from ..cost.machines.units import seconds_text
from ..engine.devices import devices
from ..engine.running.compiler_process import Cancel, Progress, Watch
from ..engine.running.run import jax_mesh
from ..engine.specs.mesh import Mesh as OurMesh
from .as_plan import as_plan
from .beside import Beside, beside, of_plan, predicted, with_tags
from .causes import Causes
from .compiled import Compiled, Memory, as_jit, compiled, with_numbers
from .decided import Splits, decided
from .explained import COUNTED, Explained, explained
from .jitted import Jitted, taken
from .lines import Cost, Lines, found, with_lines
from .naming.errors import OwnError
from .prices import on_machine
from .started import Starts
from .step import Step, of_xla, peak_of
from .subject import Asked, Subject, of_spec, subject_of

# So many of what started a collective are printed.
_STARTED = 3


@dataclasses.dataclass(frozen=True, eq=False)
class Report:
    """Why each collective is in the user's compiled program; prints as a table, those alike in one row.

    Attributes:
        name: the function's.
        axes: the mesh axes' sizes, major first.
        collectives: those of the compiled program, largest first.
        subject: the program.
        shardings: how its values are split, as XLA decided; None for one that is split by no whole mesh axes.
        made: what XLA made of it.
        on: the mesh on a machine, where one was given.
        plan: whose shardings these are, where a plan was explained.
    """

    name: str
    axes: Mapping[str, int]
    collectives: tuple[Explained, ...]
    subject: Subject
    shardings: Mapping[int, Splits | None]
    made: Compiled
    on: OurMesh | None = None
    plan: Plan | None = None

    @property
    def memory(self) -> Memory:
        """Bytes on one device, as XLA for CPUs lays the program out."""
        return self.made.memory

    @property
    def wire_bytes(self) -> float:
        """The bytes that one device sends in one run."""
        return sum(c.wire_bytes * c.times for c in self.collectives)

    @property
    def seconds(self) -> float | None:
        """What its collectives take on the machine, one after another; None without a machine.

        Those between devices of no set of mesh axes have no price, and are left out.
        """
        return _seconds(self.collectives) if self.on is not None else None

    @functools.cached_property
    def step(self) -> Step:
        """What one run takes on the machine: its kernels, on the shards that XLA has decided, and its collectives.

        Raises:
            MeshlabError: no machine was given; or the program says by hand what devices do, is split unevenly, or runs
                otherwise than its shardings say.
        """
        if self.on is None:
            raise OwnError('report.step needs a machine: ml.explain(…, mesh=ml.mesh("h100:1x8", data=8)).')
        return of_xla(self._planned, self.made, self.collectives)

    @functools.cached_property
    def peak_bytes(self) -> int:
        """The predicted peak memory of one device, by the model of `plan.memory`; on CPUs if there is no machine.

        Raises:
            MeshlabError: the program says by hand what devices do, is split unevenly, or XLA for CPUs allocates more or
                less than the same model predicts there.
        """
        return peak_of(self._planned, self.made)

    @functools.cached_property
    def _planned(self) -> Priced:
        """The plan of XLA's program."""
        mesh = self.on or OurMesh(tuple(self.axes.items()))
        return as_plan(self.subject.jitted, self.made.before, mesh)

    @functools.cached_property
    def beside(self) -> Beside:
        """The plan beside XLA's program: what each sends at each line, its peak, and what it costs on the machine.

        Raises:
            OwnError: no plan was explained.
        """
        if self.plan is None:
            raise OwnError("report.beside compares XLA's program with a plan: ml.explain(plan) explains one.")
        return beside(self.plan, self.collectives, self.on, lambda: self.peak_bytes, lambda: self.step)

    @functools.cached_property
    def lines(self) -> Lines:
        """The fewest `with_sharding_constraint` lines with which less is sent; compiles, so that it takes its time."""
        return self.find_lines()

    def find_lines(
        self,
        timeout: float = 600,
        progress: Callable[[Progress], Any] | None = None,
        cancel: Cancel | None = None,
    ) -> Lines:
        """Finds `lines` with progress; see `explain` for the arguments: the time is that of all that is compiled.

        Raises:
            CompilerError: it took too long, or was cancelled.
        """
        watch = _watch(self.subject.jitted, "report.find_lines", timeout, progress, cancel)

        def cost(jitted: Jitted) -> Cost:
            made = compiled(jitted, watch, is_explained=False)
            rows = _every(self.subject, {}, made, self.on)
            sent = sum(c.wire_bytes * c.times for c in rows)
            return Cost(sent, made.memory.total, _seconds(rows) if self.on is not None else None)

        before = Cost(self.wire_bytes, self.memory.total, self.seconds)
        lines = vars(self)["lines"] = found(self.subject, self.shardings, before, cost)
        return lines

    def apply(self) -> Callable[..., Any]:
        """Returns the function with `lines` in force, jitted, to be run and compared.

        It takes the arguments that were explained, those by keyword too, or others of their shapes, and overwrites
        none. The lines are found first, if they were not.
        """
        jitted = self.subject.jitted
        closed = with_lines(jitted, [line.candidate for line in self.lines.lines])
        mended, _ = as_jit(dataclasses.replace(jitted, closed=closed))

        def run(*args: Any, **keywords: Any) -> Any:
            given = jitted.arrays_of(args, keywords)
            pairs = zip(given, jitted.inputs, strict=True)
            placed = [jax.device_put(array, sharding) if sharding else array for array, sharding in pairs]
            with jax.set_mesh(jitted.mesh):
                return jax.tree.unflatten(jitted.tree, mended(*placed)[: jitted.tree.num_leaves])

        return run

    def to_json(self) -> str:
        """Returns the report as JSON: each collective, its line as text; `lines` where they are known.

        On a machine it has the step and the peak, None where they are not predicted, and `unpriced` says why.
        """
        rows = [{**dataclasses.asdict(c), "source": str(c.source) if c.source else None} for c in self.collectives]
        facts = {"function": self.name, "mesh": dict(self.axes), "memory": self.memory._asdict(), "collectives": rows}
        lines = {"lines": [line.to_dict() for line in self.lines.lines]} if "lines" in vars(self) else {}
        compared = {"beside": self.beside.to_dict()} if self.plan is not None else {}
        return json.dumps(facts | lines | self._predicted() | compared)

    def _predicted(self) -> dict[str, Any]:
        """What is predicted of one run on the machine, as plain data."""
        if self.on is None:
            return {}
        (step, no_step), (peak, no_peak) = predicted(lambda: self.step), predicted(lambda: self.peak_bytes)
        took = dataclasses.asdict(step) if step is not None else None
        return {"step": took, "peak_bytes": peak, "unpriced": list(dict.fromkeys((*no_step, *no_peak)))}

    def __str__(self):
        mesh = " ".join(f"{name}={size}" for name, size in self.axes.items())
        head = f"`{self.name}` on {mesh}, as XLA compiles it: a device sends {round(self.wire_bytes):,} B"
        if not self.collectives:
            return f"{head}. It has no collectives."
        alike: dict[tuple, list[Explained]] = {}
        for c in self.collectives:
            of = (c.kind, c.axes, c.wire_bytes, c.times, c.counted, c.source, c.phase, c.because, c.started_by)
            alike.setdefault(of, []).append(c)
        largest = sorted(alike.values(), key=lambda same: -sum(c.wire_bytes * c.times for c in same))
        what = dict.fromkeys(COUNTED[what] for c in self.collectives for what in c.counted)
        counted = f", counting {' and '.join(what)}" if what else ""
        took = f", {seconds_text(self.seconds)} one after another" if self.seconds is not None else ""
        compared = [str(self.beside)] if self.plan is not None else []
        head = f"{head} in {_count(len(self.collectives))}{counted}{took}"
        return "\n".join([head, *map(_lines, largest), *compared])

    __repr__ = __str__


def _count(collectives: int) -> str:
    return "one collective" if collectives == 1 else f"{collectives} collectives"


def _lines(same: Sequence[Explained]) -> str:
    """Says of collectives that are there for the same reason what they are, and why."""
    c, count = same[0], len(same)
    kinds = c.kind if count == 1 else f"{count} {c.kind}s"
    over = f"over {'+'.join(c.axes)}" if c.axes else "between some devices"
    factors = [f"{number:,}" for number in (c.times, count) if number > 1]
    times = f" ({' × '.join([f'{round(c.wire_bytes):,} B', *factors])})" if factors else ""
    times += "".join(f", {what}" for what in c.counted)
    where = f"{c.source}  {c.source.code}".rstrip() if c.source else "no line"
    where += f"   ({c.phase})" if c.phase else ""
    took = f", {seconds_text(c.seconds * c.times * count)}" if c.seconds is not None else ""
    started = [f"started by {what}" for what in c.started_by[:_STARTED]]
    started += [f"and by {len(c.started_by) - _STARTED} more"] if len(c.started_by) > _STARTED else []
    head = f"  {kinds} {over}, {round(c.wire_bytes * c.times * count):,} B sent{times}{took}   {where}"
    return "\n    ".join([head, c.because, *started])


def explain(
    fn: Callable | Plan,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    names: Mapping[str, Any] | None = None,
    mesh: Mesh | OurMesh | None = None,
    timeout: float = 600,
    progress: Callable[[Progress], Any] | None = None,
    cancel: Cancel | None = None,
) -> Report:
    """Explains the collectives of a program that `jax.jit` compiles.

    Args:
        fn: the function, which `jax.jit` has made, with its shardings, or a plain one; or a plan, whose function is
            then compiled with the plan's shardings of arguments, results and tags, and put beside the plan.
        *args: its arguments: arrays, or shapes (`jax.ShapeDtypeStruct`), with shardings or without; none for a plan.
        kwargs: its arguments by keyword: {"mask": mask}.
        names: the dims of arguments, by their places or globs over them: {"params/w1": "embed hidden"}; or specs, and
            trees of them: {"variables": nn.get_partition_spec(variables)}. What has no name is called after an
            argument that has the axis: `params/w1.0`.
        mesh: the devices, where no sharding names them; one of `ml.mesh` on a machine prices collectives there.
        timeout: seconds after which the compiler is ended.
        progress: called with a `Progress` at each stage, and each second in between, such as `print`.
        cancel: polled several times a second; once it is set, the compiler is ended.

    Returns:
        The `Report`.

    Raises:
        OwnError: the function cannot be traced or compiled, there is no mesh of several devices, or names do not fit.
        CompilerError: it took too long, or was cancelled.
    """
    plan = fn if isinstance(fn, Plan) else None
    if isinstance(fn, Plan):
        fn, args, names, mesh = of_plan(fn, args, kwargs, names, mesh)
    on = mesh if isinstance(mesh, OurMesh) else None
    given = jax_mesh(mesh, devices(mesh.size, mesh.order)) if isinstance(mesh, OurMesh) else mesh
    jitted = with_numbers(taken(fn, args, given, kwargs))
    subject = subject_of(jitted, names)
    if plan is not None and (closed := with_tags(plan, subject)):
        subject = subject_of(dataclasses.replace(jitted, closed=closed), names)
    jitted, on = subject.jitted, on if on is not None and on.on is not None else None
    watch = _watch(jitted, "ml.explain", timeout, progress, cancel)
    made = compiled(jitted, watch)
    shardings = decided(subject.code, subject.makers, made.before, jitted.axes) if made.before else {}
    every = _every(subject, shardings, made, on)
    largest = sorted(every, key=lambda c: -c.wire_bytes * c.times)
    return Report(jitted.name, jitted.axes, tuple(largest), subject, shardings, made, on, plan)


def _every(
    subject: Subject, shardings: Mapping[int, Splits | None], made: Compiled, on: OurMesh | None
) -> tuple[Explained, ...]:
    causes = Causes(subject, shardings, _asked(subject))
    starts = Starts(subject, made.records, causes)
    return explained(subject, causes, starts, made.text, on_machine(on) if on is not None else None)


def _seconds(rows: Sequence[Explained]) -> float:
    return sum(c.seconds * c.times for c in rows if c.seconds is not None)


def _watch(
    jitted: Jitted,
    asked: str,
    timeout: float,
    progress: Callable[[Progress], Any] | None,
    cancel: Cancel | None,
) -> Watch:
    return Watch(f"{jitted.mesh.size} simulated CPU devices", f"{asked}(…, timeout={{:g}})", timeout, progress, cancel)


def _asked(subject: Subject) -> dict[int, list[tuple[str, Asked]]]:
    """What `out_shardings` asks for, by the value of each result; a value may be several."""
    jitted, code = subject.jitted, subject.code
    asked: dict[int, list[tuple[str, Asked]]] = {}
    for value, place, sharding in zip(code.block.outputs, jitted.outputs, jitted.results, strict=True):
        if isinstance(value, int) and sharding is not None:
            asked.setdefault(value, []).append((place, of_spec(sharding.spec, len(code.shapes[value]))))
    return asked
