"""Each test draws its data from a generator of its own: what one meets does not depend on which ran before it.

Of tests with many cases an eighth runs, drawn from the commit (tests/share.py), where they do not say another share.
"""

import zlib
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before tests/conftest.py, which draws
def pytest_collection_modifyitems(items):
    for item in items:
        is_case = "[" in item.nodeid and HERE in item.path.parents
        if is_case and not item.get_closest_marker("share"):
            item.add_marker(pytest.mark.share(8))


@pytest.fixture(autouse=True)
def own_numbers(request, monkeypatch):
    """A module's `RANDOM` starts anew, from the name of the test."""
    if hasattr(request.module, "RANDOM"):
        seed = zlib.crc32(request.node.name.encode())
        monkeypatch.setattr(request.module, "RANDOM", np.random.default_rng(seed))
