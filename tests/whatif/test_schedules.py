"""A sweep over numbers of stages and micro-batches is what the plan at each of them says."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import meshlab as ml
from meshlab.models.language import transformer
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes

LAYOUT = "batch:data+micro layers:pipe"


@functools.cache
def program() -> ml.Program:
    config = transformer.Config(layers=8, batch=32)
    arguments = shapes(transformer.init, config), *transformer.inputs(config)
    return ml.trace(training.sgd_step(transformer.loss), *arguments)


def plan_of(pipe: int, micro: int, data: int = 2, schedule: str = "paired", machine: str = "h100") -> ml.Plan:
    mesh = ml.mesh(machine, data=data, pipe=ml.stages(pipe, schedule), micro=ml.serial(micro))
    return program().plan(mesh, LAYOUT)


def test_each_point_is_that_of_its_plan() -> None:
    swept = ml.sweep(plan_of(4, 8), pipe=[2, 4], micro=[4, 8, 16])
    assert swept.shape == (2, 3)
    for (i, j), estimate in np.ndenumerate(swept.estimate):
        plan = plan_of((2, 4)[i], (4, 8, 16)[j])
        assert float(estimate) == pytest.approx(float(plan.time.estimate), rel=1e-9)
        assert swept.peak_bytes[i, j] == plan.memory.peak_bytes
        assert swept.communication["pipe"][i, j] == pytest.approx(float(plan.time.communication["pipe"]))
    # With more micro-batches stages wait for less of the step.
    assert (np.diff(swept.figures["bubble"], axis=1) < 0).all()
    assert float(swept.figures["bubble"][1, 1]) == pytest.approx(float(plan_of(4, 8).time.bubble))


def test_other_arguments_vary_with_them() -> None:
    swept = ml.sweep(plan_of(4, 8), on=["h100", "b200"], batch=[32, 64], micro=[8, 4], free_running=True)
    assert swept.shape == (2, 2, 2)
    for (i, j, k), estimate in np.ndenumerate(swept.estimate):
        machine, batch, micro = ("h100", "b200")[i], (32, 64)[j], (8, 4)[k]
        mesh = ml.mesh(machine, data=2, pipe=ml.stages(4), micro=ml.serial(micro))
        time = program().resize(batch=batch).plan(mesh, LAYOUT).time.free_running
        assert float(estimate) == pytest.approx(float(time.estimate), rel=1e-6)
    assert len(swept.columns()["micro"]) == 8


def test_what_no_plan_has_says_why() -> None:
    swept = ml.sweep(plan_of(4, 8, schedule="interleaved"), micro=[4, 6, 8, 1])
    assert [*np.isnan(swept.estimate)] == [False, True, False, True]
    assert "`batch` has size 32, which 12 (`data`+`micro`) does not divide" in swept.reasons[1,]
    assert "micro=6, which must be a multiple of its 4 stages" in swept.reasons[1,]
    assert "a pipeline needs micro-batches" in swept.reasons[3,]
    with pytest.raises(ml.HardwareError, match="The plan is not possible at any of these points"):
        ml.sweep(plan_of(4, 8), pipe=[3, 5])
