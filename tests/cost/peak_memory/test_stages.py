"""The peak of each stage of a pipeline: parts that add up, slots as XLA allocates them, and cells of its own."""

from __future__ import annotations

import dataclasses
import functools
import json

import pytest

import meshlab as ml
from tests.engine.pipelines import stacks
from tests.engine.small_programs import temporary_bytes

SIZES = {"batch": 64, "layers": 8, "_": 64, "embed": 64, "rows": 8, "classes": 8}


@functools.cache
def plan_of(schedule: str, machine: tuple[str, ...] = (), **sizes: int) -> ml.Plan:
    mesh = ml.mesh(*machine, pipe=ml.stages(4, schedule), micro=ml.serial(8))
    return stacks.program("plain", **(SIZES | sizes)).plan(mesh, "batch:micro layers:pipe")


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "paired", "interleaved"])
def test_stages_hold_what_their_schedule_has_in_flight(schedule: str) -> None:
    plan = plan_of(schedule)
    assert plan.schedule is not None
    stages, chunks = plan.memory.stages, plan.schedule.chunks
    assert [each.stage for each in stages] == [*range(4)]
    assert tuple(each.in_flight / chunks for each in stages) == plan.schedule.in_flight
    assert len({(each.stored, each.accumulators, each.kept) for each in stages}) == 1
    for each in stages:
        parts = each.stored + each.accumulators + each.in_flight * each.kept + each.arrived + each.cell
        assert each.peak_bytes == parts
        assert min(each.stored, each.accumulators, each.kept, each.arrived, each.cell) > 0


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "paired", "interleaved"])
def test_stages_add_up_the_gradients_of_their_own_layers(schedule: str) -> None:
    """Of two layers a weight and a bias; of what all stages store all of it; and the loss."""
    ends = 8 * 64 + 64 * 8
    assert plan_of(schedule).memory.stages[0].accumulators == 4 * (2 * (64 * 64 + 64) + ends + 1)


@pytest.mark.parametrize("machine", [(), ("v5p:2x2x1",), ("h100:4",)])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "paired", "interleaved"])
def test_no_stage_needs_more_than_the_program_allocates(schedule: str, machine: tuple[str, ...]) -> None:
    """The stage that holds most needs all but the slots that only others use: the first one is sent nothing."""
    for memory in (plan_of(schedule, machine).memory, plan_of(schedule, machine).memory.donated):
        most = max(memory.stages, key=lambda each: each.peak_bytes)
        of_others = max(each.arrived for each in memory.stages) - most.arrived
        # Slots in the space of an output take nothing more.
        assert memory.peak_bytes - most.peak_bytes in ({of_others} if not machine else {0, of_others})


def test_what_is_held_is_what_xla_allocates() -> None:
    """These two schedules differ in slots alone, and those of one micro-batch are as large as is said, to the byte."""
    plans = {name: plan_of(name) for name in ("gpipe", "1f1b")}
    compiled = [temporary_bytes(plan) for plan in plans.values()]
    first = [plan.memory.stages[0] for plan in plans.values()]
    held = [each.in_flight * each.kept for each in first]
    assert compiled[0] - compiled[1] == held[0] - held[1] == 4 * first[0].kept > 0


def test_the_ends_of_the_model_are_the_peak_of_their_stages_alone() -> None:
    """With a head that is much wider than a layer, its logits are alive in the cells of the last stage alone."""
    narrow, wide = (plan_of("gpipe", classes=classes).memory.stages for classes in (8, 4096))
    logits = 8 * 4096 * 4
    assert wide[3].cell - wide[1].cell > logits / 2
    assert len({each.cell for each in wide[:3]}) == 1
    assert narrow[3].cell == narrow[1].cell


def test_stages_are_in_text_and_json() -> None:
    plan = plan_of("1f1b")
    text = str(plan.memory)
    for each in plan.memory.stages:
        assert f"stage {each.stage}          {each.peak_bytes:>15,} B = {each.stored:,} stored" in text
    assert f"{plan.memory.stages[0].in_flight} × {plan.memory.stages[0].kept:,} in flight" in text
    read = json.loads(plan.to_json())["stages"][2]
    assert read == {"peak_bytes": plan.memory.stages[2].peak_bytes, **dataclasses.asdict(plan.memory.stages[2])}
    first, last = plan.memory.stages[0].peak_bytes, plan.memory.stages[3].peak_bytes
    assert f"{first:,} B on stage 0 (most), {last:,} B on stage 3 (least)" in str(plan)


def test_there_are_none_without_a_pipeline() -> None:
    plan = stacks.program("plain").plan(ml.mesh(micro=ml.serial(2)), "batch:micro")
    assert plan.memory.stages == ()
    assert "stage" not in str(plan.memory)
    assert "stages" not in json.loads(plan.to_json())
