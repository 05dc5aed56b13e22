"""How far predicted peaks are from those of the TPU and GPU compilers: `python -m benchmarks.peaks`.

    python -m benchmarks.peaks                                  compares with what was compiled, and shows it
    python -m benchmarks.peaks --compile --write docs/accuracy.md

Programs of which a device holds gigabytes are compiled under four layouts each for machines that are not there, and the
peak that the compiler gives is held against `plan.memory`. What was compiled is a line of `peaks.jsonl` beside this, so
that what was stopped goes on where it was, and a change of the prediction compiles nothing. Compiling takes about two
hours on two cores.

The programs of `benchmarks.compilers` are too small for this: all that they need beside arguments and outputs lies in a
TPU's on-chip memory, of which the compiler's peak counts copies of arguments as well.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

import meshlab as ml
from benchmarks.compilers import read
from benchmarks.looped import looped
from benchmarks.pages import Section
from benchmarks.scatter import Series, scatter
from benchmarks.subjects import Subject, subjects
from meshlab.cost.machines.units import scaled_text

JOURNAL = pathlib.Path(__file__).with_name("peaks.jsonl")
SECTION = Section("peaks")
MACHINES = ("v5e:2x4", "v5p:2x2x2", "v6e:2x4", "v7x:2x2x1", "h100:1x1x8")
# Slices of twice as many devices, on which the TPU compiler sums gradients whole (`cost/machines/xla_substitutes.py`).
WHOLE = ("v5e:4x4", "v5p:2x2x4", "v6e:4x4")
# Slices on which the arguments that the next call gets anew may be overwritten, and for which loops are compiled.
SLICES = ("v5e:2x4", "h100:1x1x8")
DONATED = tuple(f"{machine}, donated" for machine in SLICES)
LAYOUTS = 4
NAMES = ("data parallel", "FSDP", "tensor parallel", "FSDP and tensor parallel", "expert parallel", "split images")
# What is promised of the median.
MEDIAN = 0.10
_GIGABYTE = 1e9


@dataclasses.dataclass(frozen=True)
class Peak:
    """One plan's peak on one machine.

    Attributes:
        program: its name.
        layout: its name.
        machine: without the slice of eight devices; with any other, and ", donated" where arguments are.
        compiled: the compiler's peak, in bytes.
        predicted: ours, in bytes.
    """

    program: str
    layout: str
    machine: str
    compiled: int
    predicted: int

    @property
    def error(self) -> float:
        """How much too high the prediction is, as a share; negative where it is too low."""
        return self.predicted / self.compiled - 1


def compared() -> tuple[Subject, ...]:
    """The programs: all but those that differ from others in little that memory sees."""
    return tuple(subject for subject in subjects(large=True) if subject.name != "llama_adamw")


def cases() -> Iterator[tuple[Subject, str, str]]:
    """Every program under its layouts for each machine, donated too; under FSDP where gradients are summed whole."""
    for machine in (*SLICES, *DONATED):
        for subject in looped():
            for name in subject.layouts:
                yield subject, name, machine
    for machine in (*MACHINES, *DONATED):
        for subject in compared():
            for name in [name for name in NAMES if name in subject.layouts][:LAYOUTS]:
                yield subject, name, machine
    for machine in WHOLE:
        for subject in compared():
            yield subject, "FSDP", machine


def plan_of(subject: Subject, name: str, machine: str) -> ml.Plan:
    """A case's plan; on a larger slice there are more devices along `data`."""
    mesh, layout = subject.layouts[name]
    axes: dict[str, Any] = dict(mesh.shape)
    if machine in WHOLE:
        axes["data"] *= 2
    return subject.program.plan(ml.mesh(machine.partition(",")[0], **axes), layout)


def predicted(subject: Subject, name: str, machine: str) -> int:
    """The bytes that a device is predicted to hold at the worst moment."""
    memory = plan_of(subject, name, machine).memory.given("stored")
    return (memory.donated if machine in DONATED else memory).peak_bytes


def compile_case(subject: Subject, name: str, machine: str) -> dict[str, Any]:
    """Compiles a case; returns its line of the journal."""
    compiled = ml.compile_for(plan_of(subject, name, machine), donate=machine in DONATED)
    memory, versions = dataclasses.asdict(compiled.memory), dict(compiled.versions)
    return {"program": subject.name, "layout": name, "machine": machine, "memory": memory, "versions": versions}


def peaks(lines: Iterable[dict[str, Any]]) -> list[Peak]:
    """What the journal's lines say, beside what is predicted today."""
    compiled = {(line["program"], line["layout"], line["machine"]): line["memory"]["peak_bytes"] for line in lines}
    results = []
    for subject, name, machine in cases():
        peak = compiled.get((subject.name, name, machine))
        if peak is not None:
            results.append(Peak(subject.name, name, short(machine), peak, predicted(subject, name, machine)))
    return results


def short(machine: str) -> str:
    """What a machine of the journal is called in tables."""
    return machine if machine in (*WHOLE, *DONATED) else machine.partition(":")[0]


def page(results: Iterable[Peak]) -> str:
    """The section about peaks on accelerators."""
    results, loops = list(results), {subject.name for subject in looped()}
    eight = [peak for peak in results if peak.machine not in (*WHOLE, *DONATED) and peak.program not in loops]
    machines = dict.fromkeys(peak.machine for peak in eight)
    lines = [f"**{machine}**: {_summary(_errors(eight, machine))}\n" for machine in machines]
    lines += table(eight)
    donated = [peak for peak in results if peak.machine in DONATED]
    for here, where in (
        ([peak for peak in results if peak.machine in WHOLE], "On slices where gradients are summed whole"),
        ([peak for peak in donated if peak.program not in loops], "Where arguments are donated"),
        ([peak for peak in results if peak.program in loops], "Of loops, unrolled nets and rematerialisation"),
    ):
        if here:
            names = dict.fromkeys(peak.machine for peak in here)
            medians = (f"{name} {np.median(np.abs(_errors(here, name))):.1%}" for name in names)
            lines += ["", f"{where} the median errors are: {', '.join(medians)}.", "", *table(here)]
    return "\n".join(lines)


def _errors(results: Iterable[Peak], machine: str) -> list[float]:
    return [peak.error for peak in results if peak.machine == machine]


def table(results: list[Peak]) -> Iterator[str]:
    """Yields the lines of a table in Markdown: compiled peaks and errors, a column for each machine."""
    machines = list(dict.fromkeys(peak.machine for peak in results))
    cells = {(p.program, p.layout, p.machine): f"{p.compiled / _GIGABYTE:.2f} GB, {p.error:+.0%}" for p in results}
    yield f"| program | layout | {' | '.join(machines)} |"
    yield "|---|---|" + "---:|" * len(machines)
    for program, layout in dict.fromkeys((peak.program, peak.layout) for peak in results):
        shown = " | ".join(cells.get((program, layout, machine), "") for machine in machines)
        yield f"| {program} | {layout} | {shown} |"


def _summary(errors: list[float]) -> str:
    off = np.array(errors)
    size = np.abs(off)
    low = f"{min(0.0, off.min()):.0%}".replace("-", "−")
    return (
        f"in {len(off)} plans compiled without the hardware: the median error is {np.median(size):.1%}, nine of ten"
        f" are within {np.quantile(size, 0.9):.0%}; the one most too low is off by {low}, the one most too"
        f" high by {max(0.0, off.max()):+.0%}."
    )


def figure(results: Iterable[Peak]) -> str:
    """Returns predicted against compiled peaks as SVG, by the kind of machine."""
    results, points = list(results), dict[str, list[tuple[float, float]]]()
    for peak in results:
        points.setdefault(peak.machine.partition(":")[0], []).append((float(peak.compiled), float(peak.predicted)))
    series = [Series(machine, "", each) for machine, each in points.items()]
    size = np.abs([peak.error for peak in results])
    note = (
        f"{len(size)} plans compiled without the hardware; half are off by less than {np.median(size):.1%}; no factor"
    )
    axes = ("peak memory of a device, as its compiler gives it", "predicted peak memory of a device")
    return scatter(series, title="Peak memory on accelerators", note=note, axes=axes, text=_round_bytes)


def _round_bytes(count: float) -> str:
    """Round bytes as text, without zeros behind the point."""
    return scaled_text(count, "B")


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.peaks", description=__doc__)
    parser.add_argument("--journal", type=pathlib.Path, default=JOURNAL)
    parser.add_argument("--compile", action="store_true", help="compile what the journal does not have")
    parser.add_argument(
        "--write", type=pathlib.Path, help="the page whose section is written, and whose figure is drawn"
    )
    options = parser.parse_args()
    lines = read(options.journal)
    done = {(line["program"], line["layout"], line["machine"]) for line in lines}
    with options.journal.open("a") as journal:
        for subject, name, machine in cases() if options.compile else ():
            if (subject.name, name, machine) not in done:
                lines.append(compile_case(subject, name, machine))
                journal.write(json.dumps(lines[-1]) + "\n")
                journal.flush()
                print(subject.name, name, machine, flush=True)
    results = peaks(lines)
    text = page(results)
    print(text)
    if options.write:
        SECTION.write(options.write, text)
        SECTION.draw(options.write, figure(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
