"""What the plans of one program share is kept within bounds, and changes no price."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import meshlab as ml
from meshlab.cost.workload import dataflow, scenario
from tests.given import PARAMS, Batch, Embed, step

LAYOUTS = ["", "batch:data", "hidden:model", "batch:data hidden:model", "batch:data+model"]


def mesh() -> Any:
    """A mesh on a placement of its own."""
    return ml.mesh("v5e:2x2", data=2, model=2)


def priced(meshes: list[Any]) -> tuple[ml.Program, list[tuple[float, int]]]:
    """A new program, and the seconds and bytes of its layouts, each on its mesh."""
    program = ml.trace(step, PARAMS, ml.f32[Batch, Embed])
    plans = [program.plan(each, layout) for each, layout in zip(meshes, LAYOUTS, strict=True)]
    return program, [(float(plan.time.estimate), plan.memory.peak_bytes) for plan in plans]


def test_plans_on_one_mesh_cost_what_they_do_apart():
    _, together = priced([mesh()] * len(LAYOUTS))
    _, alone = priced([mesh() for _ in LAYOUTS])
    assert together == alone


def test_a_program_keeps_no_machine_for_ever():
    program = ml.trace(step, PARAMS, ml.f32[Batch, Embed])
    first = mesh()
    program.plan(first, LAYOUTS[1]).time  # noqa: B018
    gone = weakref.ref(first.on)
    del first
    for _ in range(20):
        program.plan(mesh(), LAYOUTS[1]).time  # noqa: B018
    gc.collect()
    assert gone() is None


def test_results_and_shapes_beyond_the_bound_are_worked_out_again(monkeypatch: pytest.MonkeyPatch):
    _, free = priced([mesh()] * len(LAYOUTS))
    monkeypatch.setattr(scenario, "_RESULTS", 3)
    monkeypatch.setattr(dataflow, "_SHAPES", 3)
    program, bounded = priced([mesh()] * len(LAYOUTS))
    assert bounded == free
    assert all(len(shapes) <= 3 for shapes in dataflow._shapes_by_grid(program).values())
