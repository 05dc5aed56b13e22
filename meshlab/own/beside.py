"""Puts a plan beside what XLA's partitioner makes of the same shardings: who sends what, line by line.

    print(ml.explain(plan).beside)

    XLA's program beside the plan (bytes that one device sends)
                                              plan      XLA
      ≠ readme.py:7   all-reduce over model  6,000  12,000
      sent per device                        6,000  12,000
      peak memory per device                29,224  28,712

XLA is given what a person would write: the shardings of arguments, results, and tags that have rules. All else is its
own choice, by its version and platform.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
from jax.sharding import NamedSharding

from ..api.stages import Plan
from ..cost.machines.units import seconds_text
from ..engine.code.operations import walk
from ..engine.collectives.kinds import REDUCE_SCATTER
from ..engine.errors import MeshlabError, listed
from ..engine.jax_programs import constrained, number_of
from ..engine.plans.collective import Collective
from ..engine.plans.wording import quoted
from ..engine.running.lower import partition_spec
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes
from ..engine.tables import comparison, named, note_lines
from ..engine.verifying.check import executed
from .explained import Explained
from .naming.errors import OwnError
from .prices import on_machine
from .step import Step
from .step import of_plan as step_of_plan
from .subject import Subject

Predicted = TypeVar("Predicted")

# What is said of one run of both on a machine.
_FIGURES = {
    "compute": "kernels",
    "lower": "step, if everything overlaps",
    "upper": "step, if nothing overlaps",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """What the plan and XLA's program send at one line.

    Attributes:
        source: the user's line; "?" where XLA has kept none.
        kind: of the collectives.
        axes: their mesh axes; None where the devices that take part are those of no set of axes.
        planned: bytes that one device sends for them in one run of the plan.
        inserted: the same of XLA's program.
        planned_seconds: what they take on the machine, one after another; None without one.
        inserted_seconds: the same of XLA's program.
    """

    source: str
    kind: str
    axes: Axes | None
    planned: float
    inserted: float
    planned_seconds: float | None = None
    inserted_seconds: float | None = None

    @property
    def is_equal(self) -> bool:
        """Whether as much is sent."""
        return round(self.planned) == round(self.inserted)


@dataclasses.dataclass(frozen=True)
class Beside:
    """A plan beside XLA's program for the same shardings; prints as a table.

    Attributes:
        rows: by line, kind and mesh axes; lines that differ most first.
        notes: remarks on the comparison.
        planned_peak: predicted peak memory of one device in the plan, in bytes.
        inserted_peak: the same of XLA's program, by the same model; None where that does not predict it.
        planned_step: what one run of the plan takes on the machine; None without one.
        inserted_step: the same of XLA's program; None where its kernels have no price.
    """

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    planned_peak: int | None = None
    inserted_peak: int | None = None
    planned_step: Step | None = None
    inserted_step: Step | None = None

    @property
    def planned(self) -> float:
        """Bytes that one device sends in one run of the plan."""
        return sum(row.planned for row in self.rows)

    @property
    def inserted(self) -> float:
        """Bytes that one device sends in one run of XLA's program."""
        return sum(row.inserted for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Returns the comparison as plain data."""
        return dataclasses.asdict(self)

    def __str__(self):
        priced = any(row.planned_seconds is not None for row in self.rows)
        heads = ("", "plan", "XLA", *(("plan", "XLA") if priced else ()))
        rows = [_cells(row, priced) for row in self.rows]
        total: list[Any] = ["sent per device", round(self.planned), round(self.inserted)]
        if priced:
            total += [_took(row.planned_seconds for row in self.rows), _took(row.inserted_seconds for row in self.rows)]
        rows += [total, *self._peaks(priced), *self._steps()]
        head = "XLA's program beside the plan (bytes that one device sends)"
        return "\n".join([head, *comparison(heads, rows), *note_lines(self.notes)])

    def _peaks(self, priced: bool) -> list[list[Any]]:
        """The predicted peak of both, in bytes."""
        if self.planned_peak is None:
            return []
        peaks = [self.planned_peak, "?" if self.inserted_peak is None else self.inserted_peak]
        return [["peak memory per device", *peaks, *(("", "") if priced else ())]]

    def _steps(self) -> list[list[Any]]:
        """What both take on the machine, figure by figure."""
        both = self.planned_step, self.inserted_step
        if both[0] is None:
            return []
        return [
            [name, "", "", *(seconds_text(getattr(s, key)) if s else "?" for s in both)]
            for key, name in _FIGURES.items()
        ]

    __repr__ = __str__


def _cells(row: Row, priced: bool) -> list[Any]:
    name = f"{'=' if row.is_equal else '≠'} {row.source}  {named(row.kind, row.axes)}"
    times = [_took([row.planned_seconds]), _took([row.inserted_seconds])] if priced else []
    return [name, round(row.planned), round(row.inserted), *times]


def _took(seconds: Iterable[float | None]) -> str:
    total = sum(each or 0.0 for each in seconds)
    return seconds_text(total) if total else ""


def beside(
    plan: Plan,
    collectives: Sequence[Explained],
    on: Mesh | None,
    peak: Callable[[], int],
    step: Callable[[], Step],
) -> Beside:
    """Compares a plan with XLA's program for its shardings.

    Args:
        plan: the plan.
        collectives: those of XLA's program.
        on: the mesh on a machine, which prices both.
        peak: predicts the peak memory of XLA's program.
        step: predicts on the machine what one run of it takes.
    """
    price, sent_as = (on_machine(on) if on is not None else None), executed("cpu")
    order = list(plan.mesh.axes)
    sums: dict[tuple[str, str, Axes | None], _Sums] = defaultdict(_Sums)
    for c in plan.collectives:
        row = sums[key_of(c, order)]
        row.planned += c.wire_bytes * c.times * (1 if sent_as(c.dtype) == c.dtype else 2)
        row.planned_seconds += price(c.kind, c.axes, c.payload_bytes, c.dtype, c.dtype) * c.times if price else 0
    for e in collectives:
        row = sums[str(e.source or "?"), e.kind, e.axes]
        row.inserted += e.wire_bytes * e.times
        row.inserted_seconds += (e.seconds or 0) * e.times
    rows = [_row(*key, row, price is not None) for key, row in sums.items()]
    apart: dict[str, float] = defaultdict(float)
    for row in rows:
        apart[row.source] = max(apart[row.source], abs(row.planned - row.inserted))
    # What a line sends stands together: where the plan gathers XLA may sum.
    rows.sort(key=lambda row: (-apart[row.source], row.source, row.is_equal, -row.planned, -row.inserted))
    most, unknown = predicted(peak)
    took, why = predicted(step) if on is not None else (None, ())
    notes = tuple(dict.fromkeys((*_notes(plan), *why, *unknown)))
    mine = step_of_plan(plan) if on is not None else None
    return Beside(tuple(rows), notes, plan.memory.peak_bytes, most, mine, took)


def predicted(predict: Callable[[], Predicted]) -> tuple[Predicted | None, tuple[str, ...]]:
    """Returns what is predicted of XLA's program; or None, and why."""
    try:
        return predict(), ()
    except MeshlabError as error:
        return None, (str(error),)
    except Exception as error:  # a mistake in a prediction takes nothing from what XLA has compiled
        return None, (f"meshlab fails to predict XLA's program, and has no price for it: {error!r}.",)


def key_of(planned: Collective, order: Sequence[str]) -> tuple[str, str, Axes]:
    """The row that a plan's collective belongs to: its line, kind, and mesh axes in their order."""
    return str(planned.source or "?"), planned.kind, tuple(sorted(planned.axes, key=order.index))


@dataclasses.dataclass
class _Sums:
    """What both send at one line, as it is added up."""

    planned: float = 0.0
    inserted: float = 0.0
    planned_seconds: float = 0.0
    inserted_seconds: float = 0.0


def _row(source: str, kind: str, axes: Axes | None, sums: _Sums, priced: bool) -> Row:
    took = (sums.planned_seconds, sums.inserted_seconds) if priced else (None, None)
    return Row(source, kind, axes, sums.planned, sums.inserted, *took)


def _notes(plan: Plan) -> Iterable[str]:
    if any(c.kind == REDUCE_SCATTER.name for c in plan.collectives):
        yield "XLA for CPU makes no reduce-scatter: it all-reduces, and every device keeps its part."
    sent_as = executed("cpu")
    if any(sent_as(c.dtype) != c.dtype for c in plan.collectives):
        yield "XLA for CPU widens bfloat16 and float8: their bytes are counted double here."


def of_plan(
    plan: Plan, args: Sequence[Any], kwargs: Any, names: Any, mesh: Any
) -> tuple[Callable, tuple[Any, ...], Mapping[str, str], Mesh]:
    """Returns a plan's function with its shardings, arguments without data, their dims, and the plan's mesh.

    Raises:
        OwnError: arguments, by keyword too, names or a mesh were given as well, or the plan has an axis in time.
        LayoutError: the plan pads arguments or results, which JAX's shardings do not.
    """
    if args or kwargs or names is not None or mesh is not None:
        raise OwnError("ml.explain(plan) takes no arguments, kwargs, names or mesh beside the plan: it has its own.")
    if plan.rules.in_time:
        raise OwnError(
            f"ml.explain(plan) passes the shardings to XLA's own partitioner, which has no serial axes: this plan"
            f" runs {listed(plan.rules.in_time)} one block after another. Plan without"
            f" {quoted([*plan.rules.in_time, *plan.mesh.stages])}."
        )
    program = plan.program
    inputs, outputs = plan.shardings
    jitted = jax.jit(program.fn, in_shardings=inputs, out_shardings=outputs, keep_unused=True)
    dims = {}
    for argument in program.arguments:
        names_here = [name if name in program.dims else "_" for name in map(str, program.names[argument.value])]
        dims |= {argument.place: " ".join(names_here)} if names_here else {}
    return jitted, jax.tree.unflatten(program.structure, program.templates), dims, plan.mesh


def with_tags(plan: Plan, subject: Subject) -> Any:
    """Returns the jaxpr with the tags held to the plan's specs that have rules there; None where there are none."""
    closed, mesh = subject.jitted.closed, subject.jitted.mesh
    specs: dict[int, list[NamedSharding]] = {}
    for tag, planned in plan.program.tags.items():
        if tag not in plan.rules.storage:
            continue
        own = [one for one in walk(subject.code.block) if one.name == "tag" and one.params["tag"] == tag]
        for mine, theirs in zip(own, planned, strict=True):
            spec, number = plan.producer_specs.get(theirs.outputs[0]), number_of(mine.equation)
            if spec is not None and number is not None and not spec.partial:
                specs[number] = [NamedSharding(mesh, partition_spec(spec))]
    return constrained(closed, specs) if specs else None
