"""The documentation is executed: what it prints is what runs."""

import ast
import doctest
import pathlib
import re

import pytest

from benchmarks.techniques.table import ROWS

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "page",
    [
        *("architecture.md", "auto.md", "ci.md", "dialects.md", "fit.md", "from-other-systems.md", "goals.md"),
        "long-sequences.md",
        *("own-jit.md", "puzzles.md", "scopes.md", "serial.md", "techniques.md"),
    ],
)
def test_pages_run_as_printed(page):
    path = str(ROOT / "docs" / page)
    results = doctest.testfile(path, module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 5
    assert results.failed == 0


def code(page):
    """The blocks of Python of a page, as they stand."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def test_layouts_of_techniques_are_those_that_are_planned():
    """`tests/layouts/test_techniques.py` plans, compiles and runs each of them."""
    blocks = [" ".join(block.split()) for block in code("docs/techniques.md")]
    assert [ast.dump(ast.parse(block)) for block in blocks] == [ast.dump(ast.parse(row.written)) for row in ROWS]
