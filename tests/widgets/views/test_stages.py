"""The schedule of a pipeline on the board: cells when the plan's time has them, what stages wait, and their memory."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

import meshlab as ml
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.frozen.questions import RECORDED, answers, key_of
from meshlab.widgets.frozen.twin import Twin
from meshlab.widgets.views.reads import read
from meshlab.widgets.views.stages import stages_view
from tests.widgets import small

LAYOUT = "batch:data+micro layers:pipe"


@functools.cache
def opened(schedule: str = "paired") -> Explorer:
    program = next(model for model in zoo.models() if model.name == "transformer_sgd").trace()
    mesh = ml.mesh("v5e:2x2", data=2, pipe=ml.stages(2, schedule), micro=ml.serial(2))
    explorer = explore(program, mesh)
    explorer.load(LAYOUT)
    explorer.view()
    return explorer


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("schedule", ["paired", "1f1b", "gpipe"])
def test_lanes_are_the_clock_of_the_plan_s_cells(schedule: str, free: bool) -> None:
    explorer = opened(schedule)
    view: Any = stages_view(explorer, free)
    time = explorer.plan.time.free_running if free else explorer.plan.time
    cells = time.spent.cells
    assert cells is not None
    assert json.loads(json.dumps(view)) == view
    assert view["axis"] == "pipe"
    assert view["schedule"] == str(explorer.plan.schedule)
    for stage, lane in enumerate(view["lanes"]):
        columns = lane["cells"]
        assert columns["begin"] == sorted(columns["begin"])
        rows = zip(columns["micro"], columns["chunk"], columns["backward"], columns["begin"], strict=True)
        for micro, chunk, backward, begin in rows:
            at = next(
                at
                for at in cells.clock.begins
                if (at[0], at[1].micro, at[1].chunk, at[1].phase != "F") == (stage, micro, chunk, backward)
            )
            assert begin == pytest.approx(cells.clock.begins[at], rel=1e-8)
        work = sum(end - begin for begin, end in zip(columns["begin"], columns["end"], strict=True))
        sent = len(view["sends"]) * view["hop"]
        assert lane["waits"] + work + sent == pytest.approx(view["seconds"], rel=1e-6)
    # In lockstep nothing runs while stages exchange.
    for begin in view["sends"]:
        for lane in view["lanes"]:
            ran = zip(lane["cells"]["begin"], lane["cells"]["end"], strict=True)
            assert all(end <= begin * (1 + 1e-7) or first >= (begin + view["hop"]) * (1 - 1e-7) for first, end in ran)
    assert len(view["sends"]) == (0 if free else cells.schedule.ticks)
    assert ("by itself" if free else "after each tick") in view["said"]


def test_the_busiest_stage_waits_as_long_as_the_time_says() -> None:
    explorer = opened("gpipe")
    view: Any = stages_view(explorer)
    assert min(lane["waits"] for lane in view["lanes"]) == pytest.approx(explorer.plan.time.idle, rel=1e-6)


def test_the_page_knows_whether_there_is_a_pipeline() -> None:
    explorer = opened()
    assert explorer.view()["time"]["schedule"] == str(explorer.plan.schedule)
    assert read(explorer, "stages", {"free_running": True}) == stages_view(explorer, True)
    other = explore(small.program(), ml.mesh("v5e", data=2), "batch:data")
    assert other.view()["time"]["schedule"] == ""
    assert other.view()["peak_memory"]["stages"] == []
    assert stages_view(other) == {"lanes": None}
    assert stages_view(explore(small.program(), small.mesh(), "batch:data")) == {"lanes": None}


def test_memory_has_each_stage_s_parts() -> None:
    explorer = opened("gpipe")
    stages = explorer.view()["peak_memory"]["stages"]
    known = explorer.plan.memory.donated.stages
    assert [each["bytes"] for each in stages] == [each.peak_bytes for each in known]
    for view, each in zip(stages, known, strict=True):
        assert sum(part["bytes"] for part in view["parts"]) == view["bytes"]
        parts = {part["name"]: part["bytes"] for part in view["parts"]}
        assert parts["in flight"] == view["in_flight"] * view["kept"] == each.in_flight * each.kept > 0


def test_a_shared_file_has_both_ways_to_run() -> None:
    twin = Twin(opened("gpipe"))
    asked = RECORDED["stages"](twin)
    assert asked == [{}, {"free_running": True}]
    recorded = dict(answers(twin, seldom=False))
    for args in asked:
        assert recorded[key_of("stages", args)] == stages_view(opened("gpipe"), **args)
    assert RECORDED["stages"](Twin(explore(small.program(), ml.mesh("v5e", data=2), "batch:data"))) == []
