"""How far off predictions were where they could be held against the truth, as the benchmarks found it.

`meshlab/cost/accuracy.json` is what they write, a statement for each section of docs/accuracy.md:

    {"memory": {"statement": "…"}, "compilers": {"statement": "…"}, "published-runs": {"statement": "…"}}

What has not been measured is said to be so; nothing here makes up an error.
"""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Mapping

import meshlab.cost

FILE = pathlib.Path(meshlab.cost.__file__).parent / "accuracy.json"
DOCUMENT = "docs/accuracy.md"
# The sections of the document, by the anchor of each.
MEMORY, COMPILERS, RUNS = "memory", "compilers", "published-runs"
NOT_YET = "Not measured yet."


@functools.cache
def _statements(path: pathlib.Path) -> Mapping[str, Mapping[str, str]]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def accuracy(*sections: str) -> list[dict]:
    """Returns what is known of the error of a figure: for each section where it is told in full, and the statement."""
    found = _statements(FILE)
    return [
        {
            "where": f"{DOCUMENT}#{section}",
            "measured": section in found,
            "text": found[section]["statement"] if section in found else NOT_YET,
        }
        for section in sections
    ]
