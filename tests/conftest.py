"""What every test runs under: eight simulated CPU devices, compiled for quickly, reproducible hypothesis.

The devices must be asked for before anything makes the first array, which is why it happens here, on import. Tests
never touch an accelerator, so that they mean the same on every machine.
"""

from __future__ import annotations

import collections
import gc
import os
import pathlib
import sys
from collections.abc import Iterator

os.environ["JAX_PLATFORMS"] = "cpu"
# `make test` installs the TPU and GPU compilers where only compile_for's own process finds them.
if (_compilers := pathlib.Path(sys.prefix, "compilers")).is_dir():
    os.environ.setdefault("MESHLAB_COMPILERS", str(_compilers))
# What was compiled before, here or by another process of tests, is not compiled again.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(pathlib.Path.home() / ".cache" / "meshlab" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import hypothesis
import jax
import pytest

from meshlab.engine.devices import QUICK_COMPILES
from tests.share import ALL, left_out, seed

# JAX reads them when it is first used, which importing is not.
os.environ.setdefault("XLA_FLAGS", QUICK_COMPILES)

jax.config.update("jax_num_cpu_devices", 8)

# A process of tests holds thousands of programs: they are looked through for garbage less often.
gc.set_threshold(50_000)

# Nothing here is timed by hypothesis: on two shared cores a deadline would only measure the neighbours.
hypothesis.settings.register_profile("local", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="module")
def own_heap() -> Iterator[None]:
    """What other tests have left is not looked through where garbage is collected before each measurement."""
    gc.freeze()
    yield
    gc.unfreeze()


def pytest_report_header() -> str:
    """Says how to draw the same share of tests again."""
    return (
        "all cases of all tests" if (drawn := seed()) == ALL else f"a share of the large tests: MESHLAB_SHARE={drawn}"
    )


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist, which reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what this run does not draw, and keeps a file's tests in one process: its fixtures are made once."""
    out = left_out(items, seed())
    config.hook.pytest_deselected(items=list(out))
    items[:] = [item for item in items if item not in out]
    groups: dict[pytest.Item, str] = {}
    for item in items:
        if (mark := item.get_closest_marker("xdist_group")) is None:
            mark = pytest.mark.xdist_group(item.nodeid.partition("::")[0]).mark
            item.add_marker(pytest.mark.xdist_group(mark.args[0]))
        groups[item] = mark.args[0]
    # Those of the browser take longest, and must not be the last to begin; then the largest files.
    sizes = collections.Counter(groups.values())
    items.sort(key=lambda item: (item.get_closest_marker("browser") is None, -sizes[groups[item]]))
