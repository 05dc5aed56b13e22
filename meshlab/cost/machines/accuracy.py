"""How far off predictions were where they could be held against the truth, as the benchmarks found it.

`accuracy.json` beside this has what docs/accuracy.md says of each machine, or of a platform (`python -m
benchmarks.accuracy` packs it):

    {"time": {"anchor": "published-steps-of-training", "told": {"v5e": "…"}}, "memory": …, "collectives": …,
     "modelled": {"jaxlib": "0.10.2", "libtpu": "0.0.42.1"}}

`modelled` are the compilers with which that was found, and whose passes `plan.memory` follows. What has not been
measured is said to be so, and so is that another compiler is installed; nothing here makes up an error.
"""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from ...engine.errors import listed
from .hardware import Hardware, known
from .installed_compilers import version_of

FILE = pathlib.Path(__file__).with_suffix(".json")
DOCUMENT = "docs/accuracy.md"
TIME, MEMORY, COLLECTIVES = "time", "memory", "collectives"
NOT_YET = "Not measured yet."
# The package whose version is that of the compiler, by platform.
_COMPILERS = {"cpu": "jaxlib", "gpu": "jaxlib", "tpu": "libtpu"}


@functools.cache
def _sections(path: pathlib.Path) -> Mapping[str, Mapping[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def accuracy(what: str, machine: Hardware) -> dict:
    """Returns what is known of the error of a kind of figure.

    Args:
        what: "time", "memory" or "collectives".
        machine: the machine. What was measured of its platform's compiler counts for each; what of the machine itself
            for those that meshlab brings alone: one's own may have the name and other figures.

    Returns:
        The statement, whether there is one, and where all of it is told.
    """
    section = _sections(FILE).get(what, {"anchor": "", "told": {}})
    own = known().get(machine.name) != machine
    names = (machine.platform,) if own else (machine.name, machine.platform)
    found = next((section["told"][name] for name in names if name in section["told"]), None)
    if found is None:
        return {
            "measured": False,
            "where": DOCUMENT,
            "text": NOT_YET
            if not section["told"]
            else _others(section, machine.name if not own else f"this {machine.name}"),
        }
    return {"measured": True, "where": f"{DOCUMENT}#{section['anchor']}", "text": found}


def _others(section: Mapping[str, Any], machine: str) -> str:
    return f"Not measured for {machine} yet, but for {listed(section['told'])}."


def other_compiler(platform: str, version: str | None = None) -> str:
    """Says that the compiler is not the one whose passes `plan.memory` follows; "" where it is, or where there is none.

    Args:
        platform: "cpu", "gpu" or "tpu".
        version: of the compiler; None for the one that is installed.
    """
    package = _COMPILERS[platform]
    modelled, version = _sections(FILE).get("modelled", {}).get(package), version or version_of(package)
    if modelled is None or version in (None, modelled):
        return ""
    return (
        f"Peaks follow the passes of {package} {modelled}, for which their error was measured; {version} is installed,"
        " which may arrange memory otherwise."
    )
