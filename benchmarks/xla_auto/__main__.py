"""Auto beside XLA's auto-sharding: `python -m benchmarks.xla_auto --write docs/auto.md`.

Makes the environment that XLA's pass needs (`environment`), asks both for three programs on two meshes under two caps
(`questions`, `answers`), and writes what they answered (`page`). An answer is a line of `answers.jsonl` beside this, so
that what was stopped goes on where it was; `--again auto said` asks meshlab anew and XLA not. All of it takes half an
hour on two cores, most of it XLA's.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any

from benchmarks.compilers import read
from benchmarks.xla_auto.answers import auto, said, xla
from benchmarks.xla_auto.page import SECTION, by_question, page
from benchmarks.xla_auto.questions import questions

JOURNAL = pathlib.Path(__file__).with_name("answers.jsonl")
KINDS = ("xla", "auto", "said")


def ask_all(seconds: float, again: list[str]) -> None:
    """Asks what the journal has no answer to, or what is asked again."""
    lines = [line for line in read(JOURNAL) if line["kind"] not in again]
    there = by_question(lines)
    JOURNAL.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with JOURNAL.open("a") as journal:
        for question in questions():
            answers = there.setdefault(question, {})
            for kind in KINDS:
                if kind in answers:
                    continue
                answers[kind] = xla(question, seconds) if kind == "xla" else _ours(kind, question, answers["xla"])
                journal.write(json.dumps({"kind": kind, **vars(question), **answers[kind]}) + "\n")
                journal.flush()
                print(kind, *vars(question).values(), answers[kind].get("seconds", ""), flush=True)


def _ours(kind: str, question: Any, line: Any) -> Any:
    return (auto if kind == "auto" else said)(question, line)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.xla_auto", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="of processors, after which XLA's pass is ended")
    parser.add_argument("--again", nargs="*", choices=KINDS, default=[], help="what is asked although it was answered")
    parser.add_argument("--only-write", action="store_true", help="ask nothing, write what is in the journal")
    parser.add_argument("--write", type=pathlib.Path, help="the page whose section is written")
    options = parser.parse_args()
    if not options.only_write:
        ask_all(options.seconds, options.again)
    text = page(by_question(read(JOURNAL)))
    print(text)
    if options.write:
        SECTION.write(options.write, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
