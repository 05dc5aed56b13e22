"""Each test draws its data from a generator of its own: what one meets does not depend on which ran before it."""

import zlib

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def own_numbers(request, monkeypatch):
    """A module's `RANDOM` starts anew, from the name of the test."""
    if hasattr(request.module, "RANDOM"):
        seed = zlib.crc32(request.node.name.encode())
        monkeypatch.setattr(request.module, "RANDOM", np.random.default_rng(seed))
