"""The tested versions of what meshlab builds on: one table, and a warning where others are installed.

    python meshlab/tested.py        prints the oldest, as `pip install` takes them (what `make oldest` installs)

`make newest` and `make oldest` run the whole zoo at both ends. What is newer than the newest series may well work:
a warning says so once, when meshlab is imported, with what to do where it does not. Patch releases of a tested series
count as tested. Nothing here imports anything that has to be installed, since the Makefile runs this file before it
installs.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import logging
import platform
import re
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Tested:
    """The versions of one package, or of Python, that are tested.

    Attributes:
        name: what `pip` calls it; "python" for Python itself.
        oldest: the first version that is tested; pyproject.toml asks for at least that.
        newest: the last one; others of its series (the same first two numbers) count as tested.
    """

    name: str
    oldest: str
    newest: str

    def problem(self, installed: str) -> str:
        """The problem with a version, and what to do; "" where it is tested."""
        version = numbers(installed)
        if numbers(self.oldest) <= version and version[:2] <= numbers(self.newest)[:2]:
            return ""
        major, minor = numbers(self.newest)[:2]
        within = f">={self.oldest},<{major}.{minor + 1}"
        cure = f"use Python {within}" if self.name == "python" else f'pip install "{self.name}{within}"'
        return f"{self.name} {installed} is not among the tested versions, {self.oldest} to {self.newest}: {cure}"


TESTED = (
    Tested("python", "3.11", "3.13"),
    Tested("jax", "0.10.0", "0.12.0.1"),
    Tested("numpy", "2.0.0", "2.5.5"),
    Tested("pulp", "3.3.0", "4.2.0"),
)


def numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (0, 12, 0, 1) for "0.12.0.1", (3, 14) for "3.14rc1"."""
    leading = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, leading[0].split("."))) if leading else ()


def installed() -> dict[str, str]:
    """The versions that are installed, by name."""
    packages = (tested.name for tested in TESTED if tested.name != "python")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}


def warning(versions: Mapping[str, str]) -> str:
    """The warning about versions that are installed; "" where all of them are tested."""
    problems = [problem for tested in TESTED if (problem := tested.problem(versions[tested.name]))]
    if not problems:
        return ""
    return f"meshlab may fail with these versions. {'; '.join(problems)}. If everything works, there is nothing to do."


def warn() -> None:
    """Logs once, by the logger `meshlab`, which versions are installed and were not tested."""
    text = warning(installed())
    if text:
        logging.getLogger("meshlab").warning(text)


if __name__ == "__main__":
    oldest = {tested.name: tested.oldest for tested in TESTED if tested.name != "python"}
    print(*(f"{name}=={version}" for name, version in {**oldest, "jaxlib": oldest["jax"]}.items()))
