"""What docs/accuracy.md says of each machine, packed for the Explorer, which shows it beside every figure.

    python -m benchmarks.accuracy       writes meshlab/cost/machines/accuracy.json from docs/accuracy.md

The page is written by those who measure (`benchmarks.published`, `benchmarks.compilers`, …); nothing is measured here.
Of a section this reads

    **v5e**: published steps took 1.11 times …          what is said of one machine, or of a platform; of steps its
                                                        numbers too: factor, largest error after it, and runs
    | v5e:2x4 | 32 | 20 | 12 | 0 | 0 |                   of the table of compiled programs
    (jaxlib 0.10.2)                                      the compilers that `plan.memory` was held against
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from collections.abc import Iterator, Mapping

from meshlab.cost.machines.accuracy import FILE

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "accuracy.md"
# What a figure of the Explorer is, by the first word of the section that tells its error.
KINDS = {"Published": "time", "Memory": "memory", "Collectives": "collectives"}
COMPILERS = ("jaxlib", "libtpu")
_STATEMENT = re.compile(r"\*\*(.+?)\*\*: (.+)\Z")
_FACTOR = re.compile(r"published steps took (\d+\.\d+) times")
_SPREAD = re.compile(r"errors up to (\d+)%")
_RUNS = re.compile(r"(\d+) published runs\.")
_COMPILED = "| machine | compiled |"


def packed(page: str) -> dict[str, dict]:
    """Returns what a page says, by kind of figure.

    Args:
        page: docs/accuracy.md.
    """
    sections = {}
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        kind, texts = KINDS.get(title.split()[0].rstrip(":")), dict(_statements(text.splitlines()))
        if kind and texts:
            sections[kind] = {"anchor": anchor(title), "texts": texts}
            factors = {name: factor for name, text in texts.items() if (factor := _factor(text))}
            sections[kind] |= {"factors": factors} if factors else {}
    return sections | {"modelled": {name: version for name in COMPILERS if (version := _modelled(name, page))}}


def _modelled(compiler: str, page: str) -> str | None:
    """The version of a compiler that a page tells; all that it tells must be one."""
    versions = set(re.findall(rf"{compiler} (\d+(?:\.\d+)+)", page))
    if len(versions) > 1:
        raise ValueError(f"{PAGE.name} tells figures of {compiler} {', '.join(sorted(versions))}: measure all anew.")
    return next(iter(versions), None)


def anchor(title: str) -> str:
    """Returns the anchor that a heading has on a page: small letters, and hyphens for spaces."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def _statements(lines: list[str]) -> Iterator[tuple[str, str]]:
    compiled = False
    for number, line in enumerate(lines):
        match = _STATEMENT.match(line)
        if match:
            yield match[1], f"{match[1]}: {_with_count(match[2], lines[number + 1 :])}"
        compiled = line.startswith(_COMPILED) or (compiled and line.startswith("|"))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if compiled and cells[1].isdigit():
            machine, count, equal, explained, others = cells[:5]
            yield machine.partition(":")[0], _compiled(machine, int(count), int(equal), int(explained), int(others))


def _with_count(statement: str, following: list[str]) -> str:
    """Adds how many published runs a statement is about, up to the next heading; of one alone it tells no error."""
    rows, published = 0, False
    for line in following:
        if _STATEMENT.match(line) or line.startswith("#"):
            break
        published = published or line.startswith("| model")
        rows += published and line.startswith("| ") and not line.startswith(("| model", "| ---")) and r"\*" not in line
    if not rows:
        return statement
    if rows == 1:
        return statement.split(";", maxsplit=1)[0] + " in the one published run; of one run no error can be told."
    return f"{statement} {rows} published runs."


def _factor(statement: str) -> dict[str, float | int | None] | None:
    """The numbers of a statement about published steps; one run alone has no spread."""
    factor, spread, runs = (each.search(statement) for each in (_FACTOR, _SPREAD, _RUNS))
    if factor is None:
        return None
    if spread is None or runs is None:
        return {"factor": float(factor[1]), "spread": None, "runs": 1}
    return {"factor": float(factor[1]), "spread": int(spread[1]) / 100, "runs": int(runs[1])}


def _compiled(machine: str, count: int, equal: int, explained: int, others: int) -> str:
    sent = f"{equal} send the bytes that were predicted"
    sent += f", {explained} do but for differences that are explained" if explained else ""
    sent += f", {others} do not" if others else ""
    return f"Of {count} plans compiled for {machine}, {sent}."


def written(sections: Mapping[str, dict]) -> str:
    """Returns the file's text."""
    return json.dumps(sections, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Writes the file."""
    FILE.write_text(written(packed(PAGE.read_text(encoding="utf-8"))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
