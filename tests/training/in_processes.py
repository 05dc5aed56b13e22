"""A training in one process or in several, which saves every two steps: `python in_processes.py FOLDER STEPS`."""

from __future__ import annotations

import sys

import meshlab as ml
from meshlab.engine.processes import is_first
from tests.widgets import small

if __name__ == "__main__":
    ml.distributed()
    _, path, steps = sys.argv
    plan = small.program().plan(small.mesh(), "batch:data hidden:model")
    fit = plan.fit({"params": small.params()}, small.batches, steps=int(steps), checkpoint=path, every=2)
    if is_first():
        print("trained", fit.begun, *fit.losses)
