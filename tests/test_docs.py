"""The documentation is executed: what it prints is what runs."""

import ast
import doctest
import pathlib
import re

import pytest

import meshlab as ml
from benchmarks.techniques.table import ROWS
from meshlab.models.zoo import models

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/dialects.md"])
def test_pages_run_as_printed(page):
    results = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 5
    assert results.failed == 0


def code(page):
    """The blocks of Python of a page, as they stand."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def test_layouts_of_techniques_are_those_that_are_planned():
    """`tests/layouts/test_techniques.py` plans, compiles and runs each of them."""
    blocks = [" ".join(block.split()) for block in code("docs/techniques.md")]
    assert [ast.dump(ast.parse(block)) for block in blocks] == [ast.dump(ast.parse(row.written)) for row in ROWS]


def test_micro_batches_work_as_printed():
    (model,) = (model for model in models() if model.name == "mlp_adamw")
    (block,) = code("docs/serial.md")
    names = {"ml": ml, "program": model.trace().resize(batch=32)}
    exec(compile(block, "docs/serial.md", "exec"), names)
    assert names["plan"].layout.rules["batch"] == ("data", "micro")
    assert names["mesh"].size == 4
