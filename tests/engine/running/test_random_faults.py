"""Whatever ends one of several processes, and whenever: it is named, and all are ended."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from meshlab.engine.running.launch import launch
from tests import share

ROOT = Path(__file__).parents[3]
# It trains until it is ended: by a signal at any moment, or by itself between two steps.
TRAINS = """
import os, signal, sys, threading, time
print("here", flush=True)
import meshlab as ml
import jax, numpy as np
number, fault, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
mine, begun = jax.process_index() == number, time.monotonic()
if mine and hasattr(signal, fault):
    threading.Timer(seconds, os.kill, (os.getpid(), getattr(signal, fault))).start()
batch, embed, hidden = ml.dims(batch=16, embed=16, hidden=32)

def step(up, down, x):
    def loss(up, down):
        return ml.square(ml.dot(ml.relu(ml.dot(x, up, embed)), down, hidden)).mean()
    value, grads = jax.value_and_grad(loss, (0, 1))(up, down)
    return value, up - 0.01 * grads[0], down - 0.01 * grads[1]

program = ml.trace(step, ml.f32[embed, hidden], ml.f32[hidden, embed], ml.f32[batch, embed])
plan = program.plan(ml.mesh(data=2, model=4), "batch:data hidden:model")
up, down, x = (np.ones(shape, np.float32) for shape in ((16, 32), (32, 16), (16, 16)))
while True:
    if mine and not hasattr(signal, fault) and time.monotonic() - begun > seconds:
        exec(fault)
    value, up, down = plan.run(up, down, x)
    float(value)
"""
FAULTS = {
    "SIGKILL": "was killed by SIGKILL",
    "SIGSTOP": "was stopped by SIGSTOP",
    "raise RuntimeError('planted')": "ended with status 1",
    "sys.exit(3)": "ended with status 3",
    "sys.exit(0)": "finished the file while others waited for it",
}


@pytest.mark.nightly
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_process_is_named_and_all_are_ended(tmp_path, monkeypatch, fault, processes):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    (tmp_path / "train.py").write_text(TRAINS)
    draw = random.Random(f"{share.seed()} {fault} {processes}")
    number, seconds = draw.randrange(processes), draw.uniform(0, 5)
    told = launch([str(tmp_path / "train.py"), str(number), fault, str(seconds)], processes, 8 // processes)
    assert told is not None
    assert (told.process, told.how) == (number, FAULTS[fault]), (seconds, told)
    assert (told.lines is None) == (number == 0)
    assert told.lines is None or "here" in told.lines
