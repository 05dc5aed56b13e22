"""A process that is killed while it saves, and a full disk, lose nothing of what was saved before."""

from __future__ import annotations

import itertools
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import meshlab as ml
from meshlab.training import folder
from tests import share
from tests.training import digits_and_text as trainings
from tests.training.test_checkpoints import EIGHT, FOUR

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.share(2, of="file")
TRAINS = """
import pathlib, resource, signal, sys
import meshlab as ml
from meshlab.training.folder import steps
ml.simulate(8)
from tests.training.digits_and_text import digits_batches, digits_program, digits_start
from tests.widgets import small
plan = digits_program().plan(ml.mesh(data=2, model=4), "batch:data hidden:model")
print("begins", flush=True)
if len(sys.argv) > 3:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    def until(fit):
        if fit.step == 2:
            while steps(pathlib.Path(sys.argv[1])) != [1, 2]:
                pass
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
else:
    until = None
fit = plan.fit(digits_start(), digits_batches, steps=int(sys.argv[2]), checkpoint=sys.argv[1], every=1, until=until)
print(fit, flush=True)
"""


def trains(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", TRAINS, *map(str, arguments)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, stdout=pipe, stderr=pipe, text=True
    )


def killed(path: Path, times: int) -> None:
    """Kills a training that saves in each step, some moment after a save has begun, and goes on under other layouts."""
    draw, program = random.Random(share.number()), trainings.digits_program()
    begin, batches, before = trainings.digits_start(), trainings.digits_batches, 0
    plans = itertools.cycle([program.plan(FOUR, "batch:data"), program.plan(EIGHT, "hidden:model")])
    unbroken = program.plan(ml.mesh(data=1)).fit(begin, batches, steps=400).losses
    for _ in range(times):
        with trains(path, 400) as training:
            assert training.stdout
            assert training.stdout.readline() == "begins\n"
            while not (saving := list(path.glob("*tmp*"))) and training.poll() is None:
                pass
            assert saving, training.communicate()
            time.sleep(draw.uniform(0, 0.05))  # any moment of a save, or between two
            training.send_signal(signal.SIGKILL)
        at = folder.steps(path)[-1] if folder.steps(path) else 0
        fit = next(plans).fit(begin, batches, steps=at + 1, checkpoint=path)
        assert (fit.begun, dict(fit.damaged)) == (at, {})
        assert at >= before, "nothing that was saved is lost"
        np.testing.assert_allclose(fit.losses, unbroken[: at + 1], rtol=1e-6 * max(1, at / 20))
        assert not list(path.glob("*tmp*")), "nothing is left of the save that was killed"
        before = fit.step


def test_a_process_that_is_killed_while_it_saves_loses_nothing(tmp_path: Path) -> None:
    killed(tmp_path, 1)


@pytest.mark.nightly
def test_twenty_processes_that_are_killed_while_they_save(tmp_path: Path) -> None:
    killed(tmp_path, 20)


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="limits the size of files")
def test_a_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    assert resource.RLIMIT_FSIZE is not None
    with trains(tmp_path, 6, 4000) as training:
        said, error = training.communicate()
    assert said == "begins\n"
    told = re.search(r"RunError: (Checkpoint 3 could not be saved in .*)", error)
    assert told, error
    assert told[1].endswith("The last checkpoint there is step 2.")
    assert re.search(r"The training ended after step \d; the last checkpoint in .* is step 2.", error)
    assert folder.steps(tmp_path) == [1, 2]
    assert not list(tmp_path.glob("*tmp*"))
    program = trainings.digits_program()
    fit = program.plan(FOUR, "batch:data").fit(
        trainings.digits_start(), trainings.digits_batches, steps=3, checkpoint=tmp_path
    )
    assert (fit.begun, dict(fit.damaged)) == (2, {})
