"""How long stages wait: the papers' bubbles where all cells are alike, free-running and in lockstep, plan by plan."""

from __future__ import annotations

import functools
import json
import pathlib
from types import MappingProxyType

import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.step_time.lockstep import cells_of, free, lockstep
from meshlab.engine.planning.staged import BACKWARD, FORWARD, MID, POST, PRE
from meshlab.models.zoo import models
from tests.cost.step_time.test_lockstep import SECONDS, trained

pytestmark = pytest.mark.share(2, of="file")

SIZES = [(2, 4), (4, 8), (4, 16), (8, 32)]
EVEN = MappingProxyType({PRE: 0.0, FORWARD: 1.0, MID: 0.0, BACKWARD: 2.0, POST: 0.0})
LAYOUT = "batch:micro layers:pipe"


@functools.cache
def plan_of(schedule: str = "paired", layers: int = 8) -> ml.Plan:
    mesh = ml.mesh("v5p:2x2x1", pipe=ml.stages(4, schedule), micro=ml.serial(8))
    return trained(layers).plan(mesh, LAYOUT)


@pytest.mark.parametrize(("stages", "micro"), SIZES)
@pytest.mark.parametrize(("name", "chunks"), [("gpipe", 1), ("1f1b", 1), ("paired", 1), ("interleaved", 2)])
def test_free_running_bubbles_are_those_of_the_papers(name: str, chunks: int, stages: int, micro: int) -> None:
    """(p − 1)/(m + p − 1) of the step (Huang et al., arXiv:1811.06965), and a v-th of the waiting with v chunks."""
    schedule, later = ml.Schedule.of(name, stages, micro), max
    elapsed, work = free(schedule, EVEN, 0.0, later), 3.0 * micro * chunks
    waits = 3.0 * (stages - 1)
    assert elapsed - work == pytest.approx(waits, abs=1e-9)
    assert (elapsed - work) / elapsed == pytest.approx((stages - 1) / (micro * chunks + stages - 1), abs=1e-9)


@pytest.mark.parametrize(("stages", "micro"), SIZES)
def test_in_lockstep_paired_and_gpipe_wait_no_longer_and_1f1b_does(stages: int, micro: int) -> None:
    seconds = {n: lockstep(ml.Schedule.of(n, stages, micro), EVEN, max) for n in ("gpipe", "paired", "1f1b")}
    assert seconds["gpipe"] == seconds["paired"] == pytest.approx(3 * (micro + stages - 1), abs=1e-9)
    # A tick of a forward and a backward cell lasts as long as the backward one.
    assert seconds["1f1b"] > 3 * (micro + stages - 1)


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "paired", "interleaved"])
@pytest.mark.parametrize("hop", [0.0, 0.15])
def test_cells_run_when_the_clock_of_the_schedule_says(name: str, hop: float) -> None:
    schedule = ml.Schedule.of(name, 4, 8)
    for together in (True, False):
        cells = cells_of(schedule, SECONDS, hop, lockstep=together)
        expected = lockstep(schedule, SECONDS, max) + hop * schedule.ticks
        expected = expected if together else free(schedule, SECONDS, hop, max)
        assert cells.clock.makespan + hop * together == pytest.approx(expected, rel=1e-9)
        assert len(cells.clock.begins) == 2 * 4 * 8 * schedule.chunks
        work = sum(sum(costs) for costs in cells.costs) * 8
        assert sum(cells.clock.waiting) == pytest.approx(4 * cells.clock.makespan - work, rel=1e-9)


def test_many_points_are_as_each_by_itself() -> None:
    schedule = ml.Schedule.of("1f1b", 4, 8)
    more = np.array([1.0, 2.5, 0.1])
    many = free(schedule, {**SECONDS, BACKWARD: SECONDS[BACKWARD] * more}, 0.1 * more, np.maximum)
    for seconds, by in zip(many, more, strict=True):
        one = free(schedule, {**SECONDS, BACKWARD: SECONDS[BACKWARD] * by}, 0.1 * by, max)
        assert seconds == pytest.approx(one, rel=1e-12)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "paired", "interleaved"])
def test_a_plan_s_bubble_is_that_of_its_cells(schedule: str) -> None:
    plan = plan_of(schedule)
    time, cells = plan.time, plan.time.spent.cells
    assert cells is not None
    assert cells.schedule == plan.schedule
    assert time.bubble == time.idle / time.estimate > 0
    # Without what is sent the busiest stage waits least.
    alone = cells.schedule.clock(cells.costs, lockstep=True)
    assert time.idle == pytest.approx(min(alone.waiting), rel=1e-6)
    other = time.free_running
    assert other.free_running is other
    assert other.spent.cells is not None
    assert not other.spent.cells.lockstep
    assert other.lower <= other.estimate <= other.upper
    assert other.upper == pytest.approx(other.compute + sum(other.communication.values()) + other.idle)
    assert other.compute == pytest.approx(time.compute)
    # Stages do not wait for others' slower cells, and send only what there is to send.
    assert other.estimate < time.estimate
    assert other.communication["pipe"] <= time.communication["pipe"]


def test_free_running_1f1b_is_as_fast_as_paired_in_cells() -> None:
    """Lockstep is why `paired` is the default: by themselves stages run 1F1B in the same time."""
    free_of = {name: plan_of(name).time.free_running.spent.cells for name in ("1f1b", "paired")}
    alone = {name: cells.schedule.clock(cells.costs).makespan for name, cells in free_of.items() if cells}
    assert alone["1f1b"] == pytest.approx(alone["paired"], rel=0.05)


def test_sweeps_run_free_too() -> None:
    plan = plan_of()
    swept = ml.sweep(plan, layers=[8, 16], free_running=True)
    assert float(swept.estimate[0]) == pytest.approx(float(plan.time.free_running.estimate), rel=1e-6)
    assert float(swept.estimate[1]) == pytest.approx(float(plan_of(layers=16).time.free_running.estimate), rel=1e-6)


def test_the_bubble_is_in_text_and_json() -> None:
    time = plan_of().time
    assert f"a bubble of {100 * time.bubble:.3g}%" in str(time)
    assert "if stages ran by themselves" in str(time)
    assert "if stages ran by themselves" not in str(time.free_running)
    read = json.loads(json.dumps(time.to_dict()))
    assert (read["bubble"], read["idle"]) == (time.bubble, time.idle)
    free_time = time.free_running
    assert read["free_running"] == {"estimate": free_time.estimate, "idle": free_time.idle, "bubble": free_time.bubble}


def test_there_is_no_bubble_without_stages() -> None:
    time = trained().plan(ml.mesh("v5p:1x1x1", micro=ml.serial(8)), "batch:micro").time
    assert time.bubble == 0
    assert time.free_running.estimate == time.estimate
    assert "bubble" not in str(time)
    assert time.to_dict()["bubble"] == 0
    assert "free_running" not in time.to_dict()
    with pytest.raises(ml.HardwareError, match="`free_running` must be True or False, not 1"):
        time.given(free_running=1)


@pytest.mark.parametrize("machine", ["v5e:2x2", "h100:4"])
def test_a_ring_in_a_pipeline_is_priced_and_drawn_to_its_end(machine: str, tmp_path: pathlib.Path) -> None:
    """Its seconds are NumPy's numbers on a TPU's torus, and so is the share of the step that a stage runs it."""
    mesh = ml.mesh(machine, pipe=ml.stages(2), x=2, micro=ml.serial(2))
    (model,) = (each for each in models() if each.name == "transformer_sgd")
    plan = model.trace().plan(mesh, "batch:micro layers:pipe seq:x kv:x")
    plan.write_trace(tmp_path / "step.json")
    events = json.loads((tmp_path / "step.json").read_text())["traceEvents"]
    end = max(each["ts"] + each["dur"] for each in events if each["ph"] == "X")
    assert end / 1e6 == pytest.approx(plan.time.estimate)
