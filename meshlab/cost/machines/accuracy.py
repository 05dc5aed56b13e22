"""The measured errors of predictions, by machine or platform.

`accuracy.json` has the statements of docs/accuracy.md about each machine or platform (`python -m benchmarks.accuracy`
packs them):

    {"time": {"anchor": "published-steps-of-training", "texts": {"v5e": "…"},
              "factors": {"v5e": {"factor": 1.11, "spread": 0.13, "runs": 4}}},
     "memory": …, "collectives": …, "modelled": {"jaxlib": "0.10.2", "libtpu": "0.0.42.1"}}

`factors` are how many times longer published steps took than was predicted, with the largest error after that factor.
`modelled` are the compilers with which that was measured, and whose passes `plan.memory` follows. Where nothing was
measured, or another compiler is installed, the texts say so; nothing here makes up an error.
"""

from __future__ import annotations

import dataclasses
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


def accuracy(what: str, machine: Hardware, precision: str = "") -> dict:
    """Returns the measured error of a kind of prediction on a machine.

    Args:
        what: "time", "memory" or "collectives".
        machine: the machine. Errors of its platform's compiler hold for all machines; errors of the machine itself only
            for those that meshlab brings, since one's own may have the same name and other figures.
        precision: in which linear matmuls are computed, where that is not as the program has it: "FP8".

    Returns:
        The statement, whether there is one, and where the documentation has it.
    """
    section = _sections(FILE).get(what, {"anchor": "", "texts": {}})
    own = known().get(machine.name) != machine
    named = _named(machine, precision)
    names = (machine.platform,) if own else (named, machine.platform)
    statement = next((section["texts"][name] for name in names if name in section["texts"]), None)
    if statement is None:
        return {
            "measured": False,
            "where": DOCUMENT,
            "text": NOT_YET if not section["texts"] else _others(section, named if not own else f"this {named}"),
        }
    return {"measured": True, "where": f"{DOCUMENT}#{section['anchor']}", "text": statement}


def _named(machine: Hardware, precision: str) -> str:
    return f"{machine.name} in {precision}" if precision else machine.name


def _others(section: Mapping[str, Any], machine: str) -> str:
    return f"Not measured for {machine} yet, only for {listed(section['texts'])}."


@dataclasses.dataclass(frozen=True)
class TimeFactor:
    """How many times longer published steps took on a machine than was predicted.

    Attributes:
        factor: one number for the machine, which leaves the least largest error.
        spread: the largest error after that factor, relative to the measured step; None where there is one run alone.
        runs: how many published runs it is of.
    """

    factor: float
    spread: float | None
    runs: int


def time_factor(machine: Hardware, precision: str = "") -> TimeFactor | None:
    """Returns how many times longer published steps took on a machine, in a precision, than was predicted.

    None where no such steps are published, or where it is one of the user's own or changed.
    """
    factors = _sections(FILE).get(TIME, {}).get("factors", {})
    named = _named(machine, precision)
    if named not in factors or known().get(machine.name) != machine:
        return None
    return TimeFactor(**factors[named])


def other_compiler(platform: str, version: str | None = None) -> str:
    """Returns a warning where another compiler is installed than `plan.memory` follows; "" where it is, or none is.

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
        " which may allocate memory differently."
    )
