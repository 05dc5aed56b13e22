"""How much of a large test runs: a share of its cases that each commit draws anew, or all of them in `make nightly`.

    @pytest.mark.share(4)                        # one case in four of the test, at least one
    @pytest.mark.parametrize("model", MODELS)
    def test_…(model): …

    pytestmark = pytest.mark.share(3, of="file")     # one test in three of the file
    pytest.mark.share(12, of="blank pages")          # one in twelve of all tests of that name, whatever their files

    @pytest.mark.nightly                         # in `make nightly` alone

The commit's hash says which cases: each commit looks somewhere else, and a failure comes back when its commit is run
again. `MESHLAB_SHARE=<hash>` draws as that commit does, `MESHLAB_SHARE=all` runs everything.
"""

from __future__ import annotations

import hashlib
import math
import os
import pathlib
import subprocess
from collections import defaultdict
from collections.abc import Iterable

import pytest

ROOT = pathlib.Path(__file__).parents[1]
ALL = "all"
# What a share is one of: up to which sign of a test's name those are alike from which it is drawn.
_UP_TO = {"test": "[", "file": "::"}


def seed() -> str:
    """Returns what the share is drawn from: the variable, the commit's hash, or the empty text outside a clone."""
    if named := os.environ.get("MESHLAB_SHARE"):
        return named
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def _case(nodeid: str) -> str:
    """Returns by what a case is drawn: its file and parameters, so that tests of the same models draw the same ones."""
    file, _, test = nodeid.partition("::")
    return f"{file}[{test.partition('[')[2]}" if "[" in test else nodeid


def number() -> int:
    """Returns the seed as a number, for what draws its cases itself."""
    return int.from_bytes(hashlib.sha256(seed().encode()).digest()[:4])


def left_out(items: Iterable[pytest.Item], drawn_from: str) -> set[pytest.Item]:
    """Returns the items that do not run: those of `nightly`, and of each test or file with a share the rest."""
    if drawn_from == ALL:
        return set()
    cases: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    out = set()
    for item in items:
        if item.get_closest_marker("nightly"):
            out.add(item)
        elif mark := item.get_closest_marker("share"):
            of = mark.kwargs.get("of", "test")
            among = item.nodeid.partition(_UP_TO[of])[0] if of in _UP_TO else of
            cases[among, mark.args[0]].append(item)
    for (_, of), each in cases.items():
        each.sort(key=lambda item: hashlib.sha256(f"{drawn_from}{_case(item.nodeid)}".encode()).digest())
        out.update(each[math.ceil(len(each) / of) :])
    return out
