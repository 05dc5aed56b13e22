"""What the TPU and GPU compilers make of plans, beside what was predicted: `python -m benchmarks.compilers`.

    python -m benchmarks.compilers --journal compilers.jsonl --write docs/accuracy.md

Programs of the zoo, in sizes that fill the tiles of a TPU, are compiled under layouts that people use and some that are
drawn, for TPUs and GPUs that are not there. A case is one line in the journal, so that what was stopped goes on where
it was; from the journal the section of the page is written. All cases take about an hour on two cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import meshlab as ml
from benchmarks.pages import Section
from benchmarks.subjects import Subject, subjects
from meshlab.cost.compilers.differences import RULES

MACHINES = ("v5e:2x4", "v5p:2x2x2", "v6e:2x4", "v7x:2x2x1", "h100:1x1x8")


def cases(machines: Iterable[str]) -> Iterator[tuple[Subject, str, str]]:
    """Every program under each of its layouts for each machine; what is drawn comes last, since it compiles longest."""
    for drawn in (False, True):
        for machine in machines:
            for subject in subjects():
                for name in subject.cases:
                    if name.startswith("drawn") == drawn:
                        yield subject, name, machine


def compile_case(subject: Subject, name: str, machine: str) -> dict[str, Any]:
    """Compiles a case; returns its line of the journal."""
    mesh, layout = subject.cases[name]
    plan = subject.program.plan(mesh, layout)
    case = {"program": subject.name, "layout": name, "machine": machine}
    case |= {"mesh": dict(mesh.shape), "rules": plan.layout.to_dict()}
    try:
        return case | line_of(ml.compile_for(plan, machine))
    except ml.MeshlabError as error:
        return case | {"error": str(error)}


def line_of(compiled: ml.Compiled) -> dict[str, Any]:
    """What the journal keeps of a compiled plan."""
    rows = [[r.kind, r.axes, r.predicted, r.compiled] for r in compiled.comparison.rows]
    differences = [
        [d.rule, d.times, d.predicted_bytes * d.times, d.compiled_bytes * d.times]
        for d in compiled.comparison.differences
    ]
    return {
        "equal": compiled.equal,
        "ok": compiled.ok,
        "rows": rows,
        "differences": differences,
        "memory": dataclasses.asdict(compiled.memory),
        "cycles": compiled.cycles,
        "seconds": round(compiled.compile_seconds, 2),
        "versions": dict(compiled.versions),
        "options": dict(compiled.options),
    }


# The page

SECTION = Section("compilers")


def page(lines: list[dict[str, Any]]) -> str:
    """The section about compilers, from the journal's lines."""
    machines = list(dict.fromkeys(line["machine"] for line in lines))
    letters = dict(zip(RULES, "abcdefgh", strict=False))
    versions = sorted({f"{k} {v}" for line in lines for k, v in line.get("versions", {}).items()})
    programs = len({line["program"] for line in lines})
    return "\n".join(
        [
            "## Collectives: the TPU and GPU compilers",
            "",
            *textwrap.wrap(
                f"{programs} programs were compiled by the real compilers ({', '.join(versions)}), without the"
                " hardware, and the payload bytes of each kind of collective over each set of mesh axes held against"
                " the plan's. In the table `=` says that all of them are equal, a letter that they are but for"
                " differences of that kind, explained here; `✗` that a difference is not explained, `!` that the"
                " compiler refuses the program. An empty cell was not compiled.",
                120,
                break_on_hyphens=False,
            ),
            "",
            *_counts(lines, machines),
            "",
            *_rules(lines, letters),
            "",
            "An all-reduce sends twice what a reduce-scatter or an all-gather does: by *b* and *c* devices send more"
            " than predicted.",
            "",
            *_table(lines, machines, letters),
        ]
    )


def _counts(lines: list[dict[str, Any]], machines: list[str]) -> Iterator[str]:
    yield "| machine | compiled | equal | explained | not explained | refused by the compiler |"
    yield "|---|---:|---:|---:|---:|---:|"
    for machine in machines:
        here = [line for line in lines if line["machine"] == machine]
        done = [line for line in here if "error" not in line]
        equal, ok = sum(line["equal"] for line in done), sum(line["ok"] for line in done)
        yield f"| {machine} | {len(done)} | {equal} | {ok - equal} | {len(done) - ok} | {len(here) - len(done)} |"


def _rules(lines: list[dict[str, Any]], letters: dict[str, str]) -> Iterator[str]:
    for rule, letter in letters.items():
        sums: Counter = Counter()
        for line in lines:
            explained = [d for d in line.get("differences", ()) if d[0] == rule]
            sums["cases"] += bool(explained)
            for _, times, before, after in explained:
                sums.update(arrays=times, before=before, after=after)
        if sums["cases"]:
            yield (
                f"- **{letter}** *{rule}*: {RULES[rule]}. {sums['arrays']:,} arrays in {sums['cases']} programs,"
                f" {sums['before']:,} B predicted and {sums['after']:,} B compiled."
            )


def _table(lines: list[dict[str, Any]], machines: list[str], letters: dict[str, str]) -> Iterator[str]:
    marks = {(line["program"], line["layout"], line["machine"]): _mark(line, letters) for line in lines}
    rows = {(line["program"], line["layout"]): line for line in lines}
    yield f"| program | layout | mesh | {' | '.join(machines)} |"
    yield "|---|---|---|" + "---|" * len(machines)
    for (program, layout), line in sorted(rows.items(), key=lambda row: _place(*row[0])):
        mesh = " × ".join(f"{name}={size}" for name, size in line["mesh"].items())
        drawn = f"drawn: `{ml.Layout.of(line['rules'])}`" if layout.startswith("drawn") else layout
        yield f"| {program} | {drawn} | {mesh} | {' | '.join(marks.get((program, layout, m), '') for m in machines)} |"


def _place(program: str, layout: str) -> tuple[int, int]:
    """Where a row stands: as the programs and their layouts are listed here."""
    number = next(i for i, subject in enumerate(subjects()) if subject.name == program)
    return number, list(subjects()[number].cases).index(layout)


def _mark(line: dict[str, Any], letters: dict[str, str]) -> str:
    if "error" in line:
        return "!"
    if line["equal"] or not line["ok"]:
        return "=" if line["equal"] else "✗"
    return "".join(sorted({letters[rule] for rule, *_ in line["differences"]}))


def read(journal: pathlib.Path) -> list[dict[str, Any]]:
    """The journal's lines, but for one that was broken off."""
    if not journal.exists():
        return []
    return [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.compilers", description=__doc__)
    parser.add_argument("--journal", type=pathlib.Path, default=pathlib.Path("benchmarks/results/compilers.jsonl"))
    parser.add_argument("--machines", nargs="*", default=MACHINES, help=f"default: {' '.join(MACHINES)}")
    parser.add_argument("--write", type=pathlib.Path, help="the page whose section is written")
    parser.add_argument("--only-write", action="store_true", help="compile nothing, write what is in the journal")
    options = parser.parse_args()
    options.journal.parent.mkdir(parents=True, exist_ok=True)
    lines = read(options.journal)
    done = {(line["program"], line["layout"], line["machine"]) for line in lines}
    with options.journal.open("a") as journal:
        for subject, name, machine in () if options.only_write else cases(options.machines):
            if (subject.name, name, machine) not in done:
                lines.append(compile_case(subject, name, machine))
                journal.write(json.dumps(lines[-1]) + "\n")
                journal.flush()
                print(subject.name, name, machine, lines[-1].get("error", lines[-1].get("ok")), flush=True)
    if options.write:
        SECTION.write(options.write, page(lines))
    return min(125, sum(not line.get("ok", True) for line in lines))


if __name__ == "__main__":
    sys.exit(main())
