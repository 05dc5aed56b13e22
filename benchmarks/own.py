"""`make own`: how much of other people's compiled programs `ml.explain` explains, into docs/own-jit.md (resumable).

    python -m benchmarks.own docs/own-jit.md

Each model of the zoo under five patterns of shardings of arguments and results, as `jax.jit` takes them, is explained,
and held against the plain jit. Causes are tried by taking away what is named: of one collective drawn of each program
the mesh axes are taken from the arguments and results that started it, until none is named, or the collective is gone.
Where the plan of these shardings sends as much at a line as XLA's program, both say why: they should say the same.
What is known of a program is kept in benchmarks/results/own.jsonl.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import random
import re
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

import meshlab as ml
from benchmarks.pages import Section
from meshlab.engine.devices import compiler_options
from meshlab.engine.verifying.hlo import read_collectives, totals
from meshlab.models.zoo import Model, models
from meshlab.own.alike import alike
from meshlab.own.explained import Explained
from meshlab.own.report import Report

SECTION = Section("own")
JOURNAL = pathlib.Path("benchmarks/results/own.jsonl")
MESH = ml.mesh(data=2, model=4)
# How often what started a collective is looked for again, once what was named is taken away.
ROUNDS = 4
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
        both: how many XLA's program has at lines where the plan sends as much.
        same_cause: how many of these are there for the cause that the plan says.
        compiling: seconds of the plain jit, traced, lowered and compiled.
        explaining: seconds of `ml.explain`.
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
    both: int
    same_cause: int
    compiling: float
    explaining: float


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
        both.of,
        both.same,
        between - begun,
        ended - between,
    )


def _taken_away(model: Model, inputs: Any, outputs: Any, report: Report) -> bool | None:
    """Says whether a collective goes once what started it is taken away; None where nothing of it is named."""
    explained = [c for c in report.collectives if c.is_explained and _places(c)]
    if not explained:
        return None
    one = random.Random(report.name).choice(explained)
    sent, left = _sent(report, one), one
    for _ in range(ROUNDS):
        places, axes = _places(left), set(left.axes or ())
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


def rows() -> Iterator[Row]:
    """Yields a row for each model and pattern; reads those that the journal has."""
    JOURNAL.parent.mkdir(exist_ok=True)
    lines = JOURNAL.read_text().splitlines() if JOURNAL.exists() else []
    known: dict[tuple[str, str], dict[str, Any]] = {(r["model"], r["pattern"]): r for r in map(json.loads, lines)}
    for model in models():
        for pattern in PATTERNS:
            found: dict[str, Any] = known.get((model.name, pattern)) or {}
            if not found or ("same" in found and "both" not in found):
                made = row(model, pattern)
                found = dataclasses.asdict(made) if made else {"model": model.name, "pattern": pattern}
                with JOURNAL.open("a") as journal:
                    journal.write(json.dumps(found) + "\n")
                print(found, file=sys.stderr, flush=True)
            if "same" in found:
                yield Row(**found)


def table(found: list[Row]) -> str:
    """Returns the table of the page: a row for each pattern, and one for all."""
    heads = ("shardings", "programs", "as the plain jit", "collectives", "explained", "of the bytes", "started", "gone")
    heads += ("same cause as the plan",)
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for pattern in (*PATTERNS, "all"):
        mine = [each for each in found if pattern in (each.pattern, "all")]
        count, sent, tried = (sum(each) for each in zip(*((r.collectives, r.sent, r.tried) for r in mine), strict=True))
        cells = (
            pattern,
            f"{len(mine)}",
            f"{sum(each.same for each in mine)}",
            f"{count:,}",
            _share(sum(each.explained for each in mine), count),
            _share(sum(each.sent_explained for each in mine), sent),
            _share(sum(each.started for each in mine), count),
            f"{sum(each.gone for each in mine)} of {tried}",
            f"{sum(each.same_cause for each in mine)} of {sum(each.both for each in mine)}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    longer = statistics.median(each.explaining - each.compiling for each in found)
    last = f"`ml.explain` takes {longer:.1f} s longer than the plain compilation (median): a process starts."
    return "\n".join([*lines, "", last])


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "–"


if __name__ == "__main__":
    ml.simulate(8)
    SECTION.write(pathlib.Path(sys.argv[1]), table(list(rows())))
