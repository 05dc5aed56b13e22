"""What the plans of one program share is kept within bounds, and changes no price."""

from __future__ import annotations

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


def test_plans_on_one_mesh_share_their_results():
    shared, together = priced([mesh()] * len(LAYOUTS))
    apart, alone = priced([mesh() for _ in LAYOUTS])
    assert together == alone
    assert len(scenario._known_at(shared)) == 1
    assert len(scenario._known_at(apart)) == len(LAYOUTS)


def test_the_latest_scenarios_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scenario, "_SCENARIOS", 2)
    meshes = [mesh() for _ in LAYOUTS]
    program, _ = priced(meshes)
    assert [placement for placement, _ in scenario._known_at(program).values()] == [each.on for each in meshes[-2:]]


def test_results_and_shapes_beyond_the_bound_are_worked_out_again(monkeypatch: pytest.MonkeyPatch):
    _, free = priced([mesh()] * len(LAYOUTS))
    monkeypatch.setattr(scenario, "_RESULTS", 3)
    monkeypatch.setattr(dataflow, "_SHAPES", 3)
    program, bounded = priced([mesh()] * len(LAYOUTS))
    assert bounded == free
    assert all(len(shapes) <= 3 for shapes in dataflow._shapes_by_grid(program).values())
