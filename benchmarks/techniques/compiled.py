"""What the TPU and GPU compilers make of each technique, without the hardware: a journal, and the table made of it.

    python -m benchmarks.techniques --compile docs/techniques.md

A row and a machine are one line of `compiled.jsonl`, with what the plan predicted: a test holds that against the plan
of today, so that no answer outlives its question. What was stopped goes on where it was; all take a quarter of an hour.
"""

from __future__ import annotations

import json
import pathlib
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import meshlab as ml
from benchmarks.compilers import line_of, read
from meshlab.cost.compilers.differences import RULES

from .technique import Technique, found

JOURNAL = pathlib.Path(__file__).with_name("compiled.jsonl")
MACHINES = ("v5e:2x4", "h100:1x1x8")
LETTERS = dict(zip(RULES, "abcdefgh", strict=False))


def asked(row: Technique) -> dict[str, Any]:
    """Returns what a compiler is asked: the layout, and all that the plan predicts, as JSON."""
    plan = row.plan("middle")
    predicted = [[kind, *axes, times, count] for (kind, axes), (times, count) in found(plan).items()]
    return {"technique": row.name, "layout": str(plan.layout), "predicted": predicted}


def lines() -> list[dict[str, Any]]:
    """Returns the journal."""
    return read(JOURNAL)


def compile_all(rows: Sequence[Technique]):
    """Compiles what the journal has not got, or got of another plan, and writes each answer into it."""
    there = {(line["technique"], line["machine"]): line for line in lines()}
    for machine in MACHINES:
        for row in rows:
            question = asked(row) | {"machine": machine}
            if not question.items() <= there.get((row.name, machine), {}).items():
                there[row.name, machine] = question | _answer(row, machine)
                wanted = ((each.name, name) for each in rows for name in MACHINES)
                JOURNAL.write_text("".join(json.dumps(there[key]) + "\n" for key in wanted if key in there))
                print(row.name, machine, there[row.name, machine].get("error", "compiled"), flush=True)


def _answer(row: Technique, machine: str) -> dict[str, Any]:
    try:
        line = line_of(ml.compile_for(row.plan("middle"), machine))
    except ml.MeshlabError as error:
        return {"error": str(error)}
    return {key: line[key] for key in ("equal", "ok", "differences", "seconds", "versions")}


def section(rows: Sequence[Technique]) -> Iterator[str]:
    """Yields the lines of the page."""
    answers = {(line["technique"], line["machine"]): line for line in lines()}
    versions = sorted({f"{k} {v}" for line in answers.values() for k, v in line.get("versions", {}).items()})
    yield "## The compilers for TPUs and GPUs"
    yield ""
    text = (
        f"Each technique, compiled for hardware that is not there (`ml.compile_for`; {', '.join(versions)}). `=` says"
        " that all collectives are as planned, byte for byte; a letter that they are but for differences of that kind,"
        " which the compiler chooses; an empty cell was not compiled."
    )
    yield textwrap.fill(text, 120, break_on_hyphens=False)
    yield ""
    rules = {rule for line in answers.values() for rule, *_ in line.get("differences", ())}
    for rule, letter in LETTERS.items():
        if rule in rules:
            yield textwrap.fill(f"- **{letter}** *{rule}*: {RULES[rule]}.", 120, subsequent_indent="  ")
    yield ""
    yield f"| technique | {' | '.join(MACHINES)} |"
    yield "| --- |" + " --- |" * len(MACHINES)
    for row in rows:
        yield f"| {row.name} | {' | '.join(mark(answers.get((row.name, machine))) for machine in MACHINES)} |"


def mark(line: dict[str, Any] | None) -> str:
    """Returns the cell of an answer."""
    if line is None:
        return ""
    if "error" in line:
        return "!"
    if line["equal"] or not line["ok"]:
        return "=" if line["equal"] else "✗"
    return "".join(sorted({LETTERS[rule] for rule, *_ in line["differences"]}))
