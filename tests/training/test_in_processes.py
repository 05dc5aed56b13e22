"""Several processes train and save as one does, and agree on what is damaged."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.running.launch import launch
from meshlab.training import folder
from tests.training import in_processes
from tests.training.test_damage import flip
from tests.widgets import small

pytestmark = pytest.mark.share(2, of="several processes")

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def finds_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))


def in_two(path: Path, steps: int, capfd: pytest.CaptureFixture[str]) -> tuple[int, list[float]]:
    """Trains in two processes; returns at which step they began, and all losses."""
    fault = launch([in_processes.__file__, str(path), str(steps)], 2, 4)
    assert fault is None, fault
    # Threads of JAX's transport write to this stream too, all at once: lines of theirs may begin with anything.
    line = next(line for line in capfd.readouterr().out.splitlines() if line.startswith("trained "))
    _, begun, *losses = line.split()
    return int(begun), list(map(float, losses))


def test_two_processes_save_and_one_goes_on_and_two_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = small.program().plan(ml.mesh(data=4), "batch:data")
    whole = plan.fit({"params": small.params()}, small.batches, steps=8).losses
    begun, losses = in_two(tmp_path, 3, capfd)
    np.testing.assert_allclose(losses, whole[:3], rtol=1e-6)
    assert (begun, folder.steps(tmp_path)) == (0, [2, 3])
    alone = plan.fit({"params": small.params()}, small.batches, steps=5, checkpoint=tmp_path)
    assert alone.begun == 3
    begun, losses = in_two(tmp_path, 8, capfd)
    np.testing.assert_allclose(losses, whole, rtol=1e-6)
    assert (begun, folder.steps(tmp_path)) == (5, [5, 6, 8])
    flip(tmp_path / "8" / "meta" / "metadata", 100)
    begun, losses = in_two(tmp_path, 8, capfd)
    np.testing.assert_allclose(losses, whole, rtol=1e-6)
    assert (begun, (tmp_path / "8.damaged").is_dir()) == (6, True)
