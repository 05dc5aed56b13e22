"""`make own`: how much of other people's compiled programs `ml.explain` explains, into docs/own-jit.md (resumable).

    python -m benchmarks.own docs/own-jit.md            or so many programs of those that are left: docs/own-jit.md 4

Each model of the zoo under five patterns of shardings of arguments and results, as `jax.jit` takes them, is explained,
and held against the plain jit. Causes are tried by taking away what is named: of one collective drawn of each program
the mesh axes are taken from the arguments and results that started it (of a parameter, from its optimizer state and its
new value too), until none is named, or the collective is gone.
Where the plan of these shardings sends as much at a line as XLA's program, both say why: they should say the same; and
where it does so at all lines, the kernels of both should take as long on a machine. The peak that is predicted of XLA's
program for CPUs is held against what XLA allocates. What is known of a program is kept in benchmarks/results/own.jsonl.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import pathlib
import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

import meshlab as ml
from benchmarks.pages import Section
from meshlab.cost.peak_memory.memory import memory_of
from meshlab.engine.devices import compiler_options
from meshlab.engine.verifying.hlo import read_collectives, totals
from meshlab.models.zoo import Model, models
from meshlab.own.alike import alike
from meshlab.own.as_plan import as_plan
from meshlab.own.beside import Beside
from meshlab.own.explained import Explained
from meshlab.own.report import Report
from meshlab.own.step import OFF

SECTION = Section("own")
JOURNAL = pathlib.Path("benchmarks/results/own.jsonl")
MESH = ml.mesh("h100:1x8", data=2, model=4)
# How often what started a collective is looked for again, once what was named is taken away.
ROUNDS = 4
# Up to this part seconds are the same.
_NEAR = 0.02
_PLACE = re.compile(r"`([^`]+)` (?:came in|is asked to come out) as")


def _drawn(program: ml.Program, mesh: ml.Mesh) -> ml.Layout:
    """Some dims on some axes, as somebody might try."""
    draw = random.Random(program.fn.__name__)
    while True:
        dims = draw.sample(sorted(program.dims), min(len(program.dims), draw.choice([1, 2, 3])))
        layout = {dim: draw.choice(list(mesh.axes)) for dim in dims}
        if not isinstance(_planned(program, mesh, layout), ml.LayoutError):
            return ml.Layout.of(layout)


def _planned(program: ml.Program, mesh: ml.Mesh, layout: Any) -> ml.Plan | ml.LayoutError:
    try:
        return program.plan(mesh, layout)
    except ml.LayoutError as error:
        return error


def _fsdp(program: ml.Program, mesh: ml.Mesh) -> ml.Layout:
    return ml.layouts.fsdp(program, mesh, data="data")


def _tensor(program: ml.Program, mesh: ml.Mesh) -> ml.Layout:
    return ml.layouts.tensor_parallel(program, mesh, model="model")


PATTERNS = {
    "data parallelism": lambda program, mesh: ml.layouts.data_parallel(program, mesh, data="data"),
    "FSDP": _fsdp,
    "tensor parallelism": _tensor,
    "both": lambda program, mesh: _fsdp(program, mesh) & _tensor(program, mesh),
    "drawn": _drawn,
}


@dataclasses.dataclass(frozen=True)
class Row:
    """What came of one program.

    Attributes:
        model: its name.
        pattern: of its shardings.
        same: whether the explained program is the plain jit's: bytes by kind and axes.
        collectives: how many there are.
        explained: how many have a line, dims and a cause.
        sent: bytes that one device sends.
        sent_explained: of those that are explained.
        started: how many have what started them.
        tried: how many were tried by taking away, and how many of these were gone then.
        gone: see there.
        compiling: seconds of the plain jit, traced, lowered and compiled.
        explaining: seconds of `ml.explain`.
        both: how many XLA's program has at lines where the plan sends as much.
        same_cause: how many of these are there for the cause that the plan says.
        priced: whether the kernels of XLA's program have a price; None where nobody asked.
        kernels: their seconds by those of the plan's kernels, where both send the same; None elsewhere.
        allocated: bytes of XLA's program, as XLA for CPUs allocates it.
        predicted: the same, as the plan of XLA's program predicts it there; None where there is no such plan.
        load: how many programs each core of the machine had to run; None where nobody asked.
    """

    model: str
    pattern: str
    same: bool
    collectives: int
    explained: int
    sent: float
    sent_explained: float
    started: int
    tried: int
    gone: int
    compiling: float
    explaining: float
    both: int = 0
    same_cause: int = 0
    priced: bool | None = None
    kernels: float | None = None
    allocated: int = 0
    predicted: int | None = None
    load: float | None = None


def row(model: Model, pattern: str) -> Row | None:
    """Explains a model under a pattern; None where the pattern does not fit it."""
    program = model.trace()
    try:
        plan = program.plan(MESH, PATTERNS[pattern](program, MESH))
        inputs, outputs = plan.shardings
    except ml.LayoutError:
        return None
    jitted = jax.jit(model.step, in_shardings=inputs, out_shardings=outputs, keep_unused=True)
    begun = time.perf_counter()
    compiled = jitted.lower(*model.shapes).compile(compiler_options=compiler_options("cpu")).as_text()
    between = time.perf_counter()
    report = ml.explain(jitted, *model.shapes)
    ended = time.perf_counter()
    sums: dict[Any, int] = collections.defaultdict(int)
    for c in report.collectives:
        sums[c.kind, c.axes] += c.payload_bytes * c.times
    known = [c for c in report.collectives if c.is_explained]
    tried = _taken_away(model, inputs, outputs, report)
    own = ml.explain(plan)
    both = alike(own.beside, plan.collectives, own.collectives, own.axes)
    return Row(
        model.name,
        pattern,
        dict(sums) == totals(read_collectives(compiled, dict(MESH.axes), unknown_trips=1)),
        len(report.collectives),
        len(known),
        report.wire_bytes,
        sum(c.wire_bytes * c.times for c in known),
        sum(bool(c.started_by) for c in report.collectives),
        tried is not None,
        bool(tried),
        between - begun,
        ended - between,
        both.of,
        both.same,
        own.beside.inserted_step is not None,
        _kernels(own.beside),
        own.memory.total,
        _predicted(own),
        os.getloadavg()[0] / (os.cpu_count() or 1),
    )


def _predicted(report: Report) -> int | None:
    """The peak of XLA's program for CPUs, by the model of plans."""
    try:
        plan = as_plan(report.subject.jitted, report.made.before, MESH)
    except ml.MeshlabError:
        return None
    return memory_of(plan, "cpu").peak_bytes


def _kernels(beside: Beside) -> float | None:
    """The kernels of XLA's program by the plan's, where both send the same."""
    mine, xla = beside.planned_step, beside.inserted_step
    if mine is None or xla is None or not all(row.is_equal for row in beside.rows):
        return None
    return xla.compute / mine.compute


def _taken_away(model: Model, inputs: Any, outputs: Any, report: Report) -> bool | None:
    """Says whether a collective goes once what started it is taken away; None where nothing of it is named."""
    explained = [c for c in report.collectives if c.is_explained and _places(c)]
    if not explained:
        return None
    one = random.Random(report.name).choice(explained)
    sent, left = _sent(report, one), one
    for _ in range(ROUNDS):
        every = (*report.subject.jitted.arguments, *report.subject.jitted.outputs)
        places, axes = _together(_places(left), every), set(left.axes or ())
        inputs = _without(inputs, places, report.subject.jitted.arguments, axes)
        outputs = _without(outputs, places, report.subject.jitted.outputs, axes)
        again = ml.explain(jax.jit(model.step, in_shardings=inputs, out_shardings=outputs), *model.shapes, mesh=MESH)
        if _sent(again, one) < sent:
            return True
        found = next((c for c in again.collectives if _like(c, one) and _places(c)), None)
        if found is None:
            return False
        left = found
    return False


def _places(c: Explained) -> set[str]:
    return {place for text in c.started_by for place in _PLACE.findall(text)}


def _together(places: set[str], every: tuple[str, ...]) -> set[str]:
    """Places, and of parameters those of their optimizer state and new values, as people shard them."""
    paths = sorted((place.removeprefix("params") for place in every if place.startswith("params/")), key=len)
    of = {place: next((path for path in reversed(paths) if place.endswith(path)), place) for place in every}
    taken = {of[place] for place in places}
    return {place for place in every if of[place] in taken}


def _like(c: Explained, one: Explained) -> bool:
    return (c.kind, c.axes, c.source, c.because) == (one.kind, one.axes, one.source, one.because)


def _sent(report: Report, one: Explained) -> float:
    return sum(c.wire_bytes * c.times for c in report.collectives if _like(c, one))


def _without(shardings: Any, places: set[str], names: tuple[str, ...], axes: set[str]) -> Any:
    """Returns shardings without mesh axes at some places."""
    leaves, tree = jax.tree.flatten(shardings)
    return jax.tree.unflatten(
        tree,
        [_left(each, axes) if name in places else each for each, name in zip(leaves, names, strict=True)],
    )


def _left(sharding: NamedSharding, axes: set[str]) -> NamedSharding:
    entries = [entry if isinstance(entry, tuple) else (entry,) for entry in sharding.spec]
    spec = [tuple(axis for axis in entry if axis and axis not in axes) or None for entry in entries]
    return NamedSharding(sharding.mesh, PartitionSpec(*spec))


def known() -> dict[tuple[str, str], dict[str, Any]]:
    """Returns what the journal has of each model and pattern, the latest of each."""
    lines = JOURNAL.read_text().splitlines() if JOURNAL.exists() else []
    return {(found["model"], found["pattern"]): found for found in map(json.loads, lines)}


def waiting() -> list[tuple[Model, str]]:
    """Returns the models and patterns that the journal has not; then those of which it lacks a part."""
    have, every = known(), [(model, pattern) for model in models() for pattern in PATTERNS]
    missing = [(model, pattern) for model, pattern in every if (model.name, pattern) not in have]
    partly = (have.get((model.name, pattern), {}) for model, pattern in every)
    lacking = [each for each, found in zip(every, partly, strict=True) if "same" in found and "load" not in found]
    return [*missing, *lacking]


def add(model: Model, pattern: str) -> None:
    """Adds what comes of a model under a pattern to the journal."""
    made = row(model, pattern)
    found = dataclasses.asdict(made) if made else {"model": model.name, "pattern": pattern}
    JOURNAL.parent.mkdir(exist_ok=True)
    with JOURNAL.open("a") as journal:
        journal.write(json.dumps(found) + "\n")
    print(found, file=sys.stderr, flush=True)


def table(found: list[Row], of: int) -> str:
    """Returns the table of the page, a row for each pattern and one for all, and what it is of.

    Args:
        found: the rows.
        of: how many models there are.
    """
    lines = [f"| {' | '.join(('shardings', *COLUMNS))} |", "|" + " --- |" * (1 + len(COLUMNS))]
    for pattern in (*PATTERNS, "all"):
        mine = [each for each in found if pattern in (each.pattern, "all")]
        lines.append(f"| {' | '.join((pattern, *(cell(mine) for cell in COLUMNS.values())))} |")
    alone = [each.explaining - each.compiling for each in found if each.load is not None and each.load < 1]
    count = len({each.model for each in found})
    notes = [
        f"The table has {'all' if count == of else f'{count} of the'} {of} models of the zoo. *Priced* counts the"
        " programs whose `report.step` is predicted, on eight H100.",
    ]
    if alone:  # beside other programs seconds tell nothing
        longer = statistics.median(alone)
        notes.append(f"`ml.explain` takes {longer:.1f} s longer than the plain compilation (median).")
    if peaks := [each.predicted / each.allocated - 1 for each in found if each.predicted is not None]:
        near, off = sum(abs(error) < OFF for error in peaks), statistics.median(map(abs, peaks))
        notes.append(
            f"In {len(peaks)} programs that were measured, the predicted peak for CPUs is {off:.1%} (median) from what"
            f" XLA allocates. It is within {OFF:.0%} in {near} of them; `report.peak_bytes` refuses the others."
        )
    if ratios := [each.kernels for each in found if each.kernels is not None]:
        near = sum(abs(ratio - 1) <= _NEAR for ratio in ratios)
        notes.append(
            f"In {len(ratios)} programs, the plan and XLA's program send the same at every line. The kernels of both"
            f" take as long in {near} of them (within {_NEAR:.0%}); XLA's take {min(ratios):.2f} to {max(ratios):.2f}"
            " times as long as the plan's."
        )
    return "\n".join([*lines, "", *notes])


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "–"


def _of(part: float, whole: float) -> str:
    return f"{part:.0f} of {whole:.0f}" if whole else "–"


# What the table has of some programs, by its head.
COLUMNS: dict[str, Callable[[list[Row]], str]] = {
    "programs": lambda mine: f"{len(mine)}",
    "as the plain jit": lambda mine: f"{sum(each.same for each in mine)}",
    "collectives": lambda mine: f"{sum(each.collectives for each in mine):,}",
    "explained": lambda mine: _share(sum(e.explained for e in mine), sum(e.collectives for e in mine)),
    "of the bytes": lambda mine: _share(sum(e.sent_explained for e in mine), sum(e.sent for e in mine)),
    "started": lambda mine: _share(sum(e.started for e in mine), sum(e.collectives for e in mine)),
    "gone": lambda mine: _of(sum(e.gone for e in mine), sum(e.tried for e in mine)),
    "same cause as the plan": lambda mine: _of(sum(e.same_cause for e in mine), sum(e.both for e in mine)),
    "priced": lambda mine: _of(sum(bool(e.priced) for e in mine), sum(e.priced is not None for e in mine)),
}


def main(page: pathlib.Path, most: int | None = None) -> None:
    """Works out what the journal lacks, or so many programs of it, one after another; writes the page after each."""
    publish(page)
    for model, pattern in waiting()[:most]:
        add(model, pattern)
        publish(page)


def publish(page: pathlib.Path) -> None:
    """Writes what the journal has into the page."""
    found = [Row(**each) for each in known().values() if "same" in each]
    if found:
        SECTION.write(page, table(found, len(list(models()))))


if __name__ == "__main__":
    ml.simulate(8)
    main(pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:]))
