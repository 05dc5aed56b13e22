"""The view: everything that is drawn, held against the plan that it is drawn from."""

from __future__ import annotations

import json

import pytest

from meshlab.cost.machines.meshes import mesh as make_mesh
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.views.devices.arrangement import MOST
from tests.engine.plans.test_work import LOST

LAYOUTS = ["", "batch:data", "hidden:model", "batch:data hidden:model", "hidden:data+model", "batch:data+model"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_communication_adds_up(explorer: Explorer, layout: str) -> None:
    explorer.load(layout)
    plan, view = explorer.plan, explorer.view()
    sums = view["communication"]
    assert sums["total"] == plan.wire_bytes
    assert sum(part["bytes"] for part in sums["by_axis"]) == plan.wire_bytes
    assert sum(part["bytes"] for line in sums["by_line"] for part in line["parts"]) == plan.wire_bytes
    assert view["collectives"]["count"] == sum(c.times for c in plan.collectives)
    for row in view["collectives"]["rows"]:
        assert row["total"] == row["wire"] * row["times"]
        assert row["because"]
        assert row["source"].startswith("small.py:")
        assert row["code"]
    assert json.loads(json.dumps(view)) == view


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_adds_up(explorer: Explorer, layout: str) -> None:
    explorer.load(layout)
    memory = explorer.view()["memory"]
    assert sum(part["bytes"] for part in memory["parts"] if not part["output"]) == memory["arguments"]
    assert sum(part["bytes"] for part in memory["parts"] if part["output"]) == memory["outputs"]
    rows = {row["place"]: row for row in explorer.view()["places"]["rows"]}
    arguments = [row["local_bytes"] for place, row in rows.items() if not place.startswith(("out", "grads"))]
    assert sum(arguments) == memory["arguments"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_element_of_a_tensor_is_held(explorer: Explorer, layout: str) -> None:
    explorer.load(layout)
    for place in ("params/w1", "images", "labels", "out/0", "out/1/w2"):
        explorer.select(place)
        shards = explorer.view()["shards"]
        assert set(shards["held"]) == set(range(shards["slices"]))
        assert [edges[-1] for edges in shards["edges"]] == shards["shape"]
        assert shards["slices"] * shards["copies"] == 8


def test_who_holds_what(explorer: Explorer) -> None:
    explorer.load("hidden:model")
    explorer.select("params/w1")
    view = explorer.view()
    shards = view["shards"]
    assert view["picture"]["cells"]["devices"] == list(range(8))
    assert shards["held"] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert (shards["parts"], shards["edges"][2]) == ([1, 1, 4], [0, 4, 8, 12, 16])
    explorer.select(device=5)
    assert explorer.view()["selection"]["ranges"] == [[0, 4], [0, 4], [4, 8]]


def test_chips_and_groups(explorer: Explorer) -> None:
    explorer.load("batch:data+model")
    view = explorer.view()
    chips = {chip["name"]: chip for chip in view["chips"]}
    assert chips["batch"] == {"name": "batch", "size": 8, "axes": ["data", "model"], "local": 1}
    assert chips["rows"]["axes"] == []
    assert [group["key"] for group in view["groups"]] == ["data", "model", "data+model"]


def test_the_program_has_the_name_of_its_function_or_of_the_model_that_was_opened(explorer: Explorer) -> None:
    assert explorer.view()["title"] == "step"
    assert explore("mlp", make_mesh(data=2)).view()["title"] == "mlp"


def test_no_layout_does_all_of_the_work(explorer: Explorer) -> None:
    shares = []
    for layout in ({}, "batch:data", "batch:data hidden:model"):
        explorer.load(layout)
        shares.append(explorer.view()["work"])
    assert shares == [1, 1 / 2, 1 / 8]


def test_the_line_where_parallelism_is_lost_stands_beside_the_work(explorer: Explorer) -> None:
    make, devices, *_ = LOST["heads of keys"]
    plan = make(devices)
    lost = explore(plan.program, plan.mesh, plan.layout).view()
    assert lost["work"] == 0.5
    assert plan.whole_from is not None
    assert lost["lost"] == f"{plan.whole_from.source} (reshape)"
    assert explorer.view()["lost"] == ""


def test_a_large_mesh_costs_no_more(program) -> None:
    explorer = explore(program, make_mesh(data=8, model=16, pod=512))
    explorer.place("hidden", "model")
    view = explorer.view()
    assert len(view["shards"]["held"]) == MOST
    assert view["picture"]["each"] * MOST == 8 * 16 * 512
    assert len(json.dumps(view)) < 200_000


def test_a_mesh_of_one_device(program) -> None:
    view = explore(program, make_mesh()).view()
    assert view["mesh"] == {"axes": [], "size": 1}
    assert view["shards"]["slices"] == view["shards"]["copies"] == 1
