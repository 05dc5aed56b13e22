"""Of the tests of each model of language and vision a quarter runs, drawn from the commit (tests/share.py)."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before tests/conftest.py, which draws
def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents[1:2] and not item.get_closest_marker("share"):
            item.add_marker(pytest.mark.share(4, of="file"))
