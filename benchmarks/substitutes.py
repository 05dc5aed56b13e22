"""Which collectives the TPU compiler makes all-reduces of: `python -m benchmarks.substitutes`.

    python -m benchmarks.substitutes --compile --write docs/accuracy.md

A reduce-scatter and two all-gathers, a small and a large one, are compiled for slices of many shapes, among all
devices and among half of them, and what is compiled is held against `meshlab.cost.machines.xla_substitutes`. What was
compiled is a line of `substitutes.jsonl` beside this, so that what was stopped goes on where it was. Compiling takes
about ten minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import meshlab as ml
from benchmarks.compilers import read
from benchmarks.pages import Section
from meshlab.cost.compilers.differences import GATHERED_BY_ADDING, SUMMED_WHOLE
from meshlab.cost.machines.meshes import machine_of
from meshlab.cost.machines.xla_substitutes import most_summed
from meshlab.engine.collectives.kinds import KINDS

JOURNAL = pathlib.Path(__file__).with_name("substitutes.jsonl")
SECTION = Section("substitutes")
_FLAT = ("2x2", "2x4", "4x4", "2x8", "4x8", "8x8", "4x16", "8x16", "16x16")
_DEEP = ("2x2x1", "4x2x1", "4x4x1", "4x8x1", "8x8x1", "2x2x2", "2x2x3", "2x2x4", "2x2x12", "2x2x16", "2x4x3", "2x4x4")
_DEEP += ("2x4x7", "2x4x8", "2x6x6", "2x8x8", "4x4x3", "4x4x4", "4x4x8", "4x6x6", "4x8x8", "6x2x2", "6x6x2", "8x4x4")
_DEEP += ("8x8x8", "4x16x16", "8x12x12")
SLICES = {"v3": ("2x2", "2x4", "4x4", "4x8", "8x8"), "v5e": _FLAT, "v6e": _FLAT, "v5p": _DEEP} | {
    "v7x": ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "8x8x8")
}
# What is sent: the rule by which it is an all-reduce, its kind, and the rows of 1,024 float32 that a device's part has.
SENT = {
    "reduce-scatters": (SUMMED_WHOLE, "reduce-scatter", 64),
    "all-gathers": (GATHERED_BY_ADDING, "all-gather", 128),
    "small all-gathers": (GATHERED_BY_ADDING, "all-gather", 16),
}
_COLUMNS, _EACH = 1024, 4


def cases() -> Iterator[ml.Mesh]:
    """Meshes on every slice: all devices along `data`, and half of them."""
    for machine, shapes in SLICES.items():
        for shape in shapes:
            devices = math.prod(map(int, shape.split("x"))) * ml.hardware(machine).devices_per_chip
            yield ml.mesh(f"{machine}:{shape}", data=devices)
            yield ml.mesh(f"{machine}:{shape}", data=devices // 2, model=2)


def planned(mesh: ml.Mesh) -> Any:
    """A plan with one of each over `data`, of parts that are whole tiles."""
    data = mesh.axes["data"]
    sizes = {f"rows{rows}": rows * data for _, _, rows in SENT.values()}
    Summed, Large, Small, Columns, Batch = ml.dims(**sizes, columns=_COLUMNS, batch=data)

    def step(x, y, large, small):
        return ml.dot(x, y, Batch), 2 * large, 2 * small

    shapes = ([Batch, Summed], [Batch, Columns], [Large, Columns], [Small, Columns])
    program = ml.trace(step, *(ml.f32[tuple(shape)] for shape in shapes))
    places = zip(("out/0", "large", "small"), sizes, strict=True)
    split = {place: {rows: "data"} for place, rows in places}
    return program.plan(mesh, {"batch": "data", **split, "out/1": {}, "out/2": {}})


def compile_case(mesh: ml.Mesh) -> dict[str, Any]:
    """Compiles for a mesh's slice; returns its line of the journal: what of all that is sent is an all-reduce."""
    compiled = ml.compile_for(planned(mesh))
    assert compiled.ok, compiled
    devices = mesh.axes["data"]
    differ = {(d.rule, d.predicted_bytes) for d in compiled.comparison.differences}
    summed = [
        name
        for name, (rule, kind, rows) in SENT.items()
        if (rule, rows * _COLUMNS * _EACH * (devices if kind == "reduce-scatter" else 1)) in differ
    ]
    return {
        "slice": compiled.target.name,
        "mesh": dict(mesh.shape),
        "all-reduces": summed,
        "versions": dict(compiled.versions),
    }


def predicted(line: dict[str, Any]) -> list[str]:
    """What of all that is sent is predicted to be compiled as all-reduces."""
    placement = machine_of(ml.mesh(line["slice"], **line["mesh"]), "this benchmark")
    part = line["mesh"]["data"] * _COLUMNS * _EACH
    return [
        name for name, (_, kind, rows) in SENT.items() if rows * part <= most_summed(KINDS[kind], placement, ("data",))
    ]


def page(lines: Iterable[dict[str, Any]]) -> str:
    """The section: by machine, on which slices all-reduces are compiled for collectives among all devices."""
    lines = list(lines)
    whole = [line for line in lines if len(line["mesh"]) == 1]
    halves = [line for line in lines if len(line["mesh"]) > 1]
    right = sum(predicted(line) == line["all-reduces"] for line in lines)
    text = [
        f"Of {len(lines)} meshes on {len(whole)} slices, `plan.time` charges what is compiled on {right}. Among half of"
        f" the devices of a slice all-reduces were compiled on {sum(bool(line['all-reduces']) for line in halves)} of"
        f" {len(halves)}; among all of them for",
        "",
        f"| machine | slices | {' | '.join(SENT)} |",
        "|---|---|" + "---|" * len(SENT),
    ]
    for machine in dict.fromkeys(line["slice"].partition(":")[0] for line in whole):
        here = {line["slice"].partition(":")[2]: line for line in whole if line["slice"].startswith(f"{machine}:")}
        cells = [", ".join(shape for shape, line in here.items() if name in line["all-reduces"]) for name in SENT]
        text.append(f"| {machine} | {', '.join(here)} | {' | '.join(cell or 'none' for cell in cells)} |")
    return "\n".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.substitutes", description=__doc__)
    parser.add_argument("--compile", action="store_true", help="compile what the journal does not have")
    parser.add_argument("--write", type=pathlib.Path, help="the page whose section is written")
    options = parser.parse_args()
    lines = read(JOURNAL)
    done = [(line["slice"], line["mesh"]) for line in lines]
    with JOURNAL.open("a") as journal:
        for mesh in cases() if options.compile else ():
            placement = machine_of(mesh, "this benchmark")
            if (f"{placement.hardware.name}:{placement.slice}", dict(mesh.shape)) not in done:
                lines.append(compile_case(mesh))
                journal.write(json.dumps(lines[-1]) + "\n")
                journal.flush()
                print(lines[-1]["slice"], lines[-1]["all-reduces"], flush=True)
    for line in lines:
        if predicted(line) != line["all-reduces"]:
            print("differs:", line)
    text = page(lines)
    print(text)
    if options.write:
        SECTION.write(options.write, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
