"""How far off predictions were where they could be held against the truth, as the benchmarks found it.

`accuracy.json` beside this has what docs/accuracy.md says of each machine, or of a platform (`python -m
benchmarks.accuracy` packs it):

    {"time": {"anchor": "published-steps-of-training", "told": {"v5e": "…"}}, "memory": …, "collectives": …}

What has not been measured is said to be so; nothing here makes up an error.
"""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from ..engine.errors import listed

FILE = pathlib.Path(__file__).with_suffix(".json")
DOCUMENT = "docs/accuracy.md"
TIME, MEMORY, COLLECTIVES = "time", "memory", "collectives"
NOT_YET = "Not measured yet."


@functools.cache
def _sections(path: pathlib.Path) -> Mapping[str, Mapping[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def accuracy(what: str, machine: str, platform: str) -> dict:
    """Returns what is known of the error of a kind of figure.

    Args:
        what: "time", "memory" or "collectives".
        machine: the machine's name.
        platform: "tpu", "gpu" or "cpu", for what is measured of a compiler.

    Returns:
        The statement, whether there is one, and where all of it is told.
    """
    section = _sections(FILE).get(what, {"anchor": "", "told": {}})
    found = next((section["told"][name] for name in (machine, platform) if name in section["told"]), None)
    if found is None:
        return {
            "measured": False,
            "where": DOCUMENT,
            "text": NOT_YET if not section["told"] else _others(section, machine),
        }
    return {"measured": True, "where": f"{DOCUMENT}#{section['anchor']}", "text": found}


def _others(section: Mapping[str, Any], machine: str) -> str:
    return f"Not measured for {machine} yet, but for {listed(section['told'])}."
