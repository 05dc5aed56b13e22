"""The documentation is executed: what it prints is what runs."""

import doctest
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/dialects.md"])
def test_pages_run_as_printed(page):
    results = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 5
    assert results.failed == 0
