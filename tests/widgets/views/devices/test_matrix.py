"""Who sends to whom: rows add up to the plan's wire bytes, by mesh axis as well, and permutes go where they are run."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.collectives.routes import Mirrored, Rerouted, Shifted, pairs
from meshlab.engine.plans.collective import wire_bytes_by_axis
from meshlab.engine.specs.spec import Spec
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer
from meshlab.widgets.views.devices.matrix import MOST_DEVICES, RING, Way, matrices, matrix_view, sent_by_way

MODELS = {model.name: model for model in zoo.models()}
WIDE = ml.mesh(data=4, model=4, expert=4)


def held_to_the_plan(plan: ml.Plan) -> dict[str, np.ndarray]:
    """Raises unless each device's row has the plan's wire bytes, in all and by mesh axis; returns the matrices."""
    by_key = matrices(plan.mesh, sent_by_way(plan.collectives))
    wanted = wire_bytes_by_axis(plan.collectives)
    assert by_key.keys() == wanted.keys()
    for key, matrix in by_key.items():
        assert matrix.sum(axis=1) == pytest.approx(np.full(plan.mesh.size, wanted[key]), rel=1e-12)
    whole = sum(matrix.sum() for matrix in by_key.values())
    assert whole == pytest.approx(plan.wire_bytes * plan.mesh.size, rel=1e-12)
    return by_key


@pytest.mark.share(8)
@pytest.mark.parametrize("name", MODELS)
def test_rows_are_the_wire_bytes_of_the_plan_under_random_layouts(name: str) -> None:
    program = MODELS[name].trace()
    for mesh, layout in draw(program, seed=15, count=4):
        assert mesh.size <= MOST_DEVICES
        held_to_the_plan(program.plan(mesh, layout))


def test_rows_are_the_wire_bytes_on_64_devices() -> None:
    program = MODELS["moe_switch"].trace()
    layouts = ["batch:data", "batch:data ffn:model", "batch:data experts:expert ffn:model", "ffn:data+model"]
    for layout in layouts:
        held_to_the_plan(program.plan(WIDE, layout))


def test_a_ring_goes_around_each_group_in_the_order_of_its_axes() -> None:
    way = Way(("model", "data"), RING)
    matrix = matrices(ml.mesh(data=2, model=2), {way: 6.0})["model+data"]
    # Major first is model: (data, model) goes (0, 0), (1, 0), (0, 1), (1, 1), which are devices 0, 2, 1 and 3.
    assert matrix.argmax(axis=1).tolist() == [2, 3, 1, 0]
    assert sorted(matrix[matrix > 0]) == [6.0] * 4


def test_in_an_all_to_all_each_sends_to_every_other() -> None:
    program = MODELS["moe_switch"].trace()
    plan = program.plan(ml.mesh(expert=4), "batch:expert experts:expert")
    each = {way: count for way, count in sent_by_way(plan.collectives).items() if way.how == "each"}
    assert each, [c.kind for c in plan.collectives]
    (matrix,) = matrices(plan.mesh, each).values()
    assert (np.diag(matrix) == 0).all()
    assert len(np.unique(matrix[~np.eye(4, dtype=bool)].round(6))) == 1


@pytest.mark.parametrize(
    ("route", "axes", "expected"),
    [
        (Shifted(("data",), 1, False), ("data",), [(0, 1)]),
        (Shifted(("data",), 1, True), ("data",), [(0, 1), (1, 0)]),
        (Shifted(("model", "data"), -1, False), ("data", "model"), [(3, 0), (1, 3), (4, 1), (2, 4), (5, 2)]),
        (Mirrored(("model",)), ("model",), [(0, 2), (1, 1), (2, 0)]),
        (Rerouted(Spec((("data",), ())), Spec(((), ("data",)))), ("data",), [(0, 0), (1, 1)]),
    ],
)
def test_a_permute_sends_to_its_pairs(route, axes: tuple[str, ...], expected: list[tuple[int, int]]) -> None:
    counted, listed = pairs(route, {"data": 2, "model": 3})
    assert counted == axes
    assert sorted(listed) == sorted(expected)


def test_what_goes_nowhere_stands_on_the_diagonal() -> None:
    program = ml.trace(lambda x: ml.shift(x, "batch", 1), ml.f32[ml.Dim("batch", 8)])
    plan = program.plan(ml.mesh(data=4), "batch:data")
    assert [c.kind for c in plan.collectives] == ["collective-permute"]
    matrix = held_to_the_plan(plan)["data"]
    assert [tuple(cell) for cell in np.argwhere(matrix)] == [(0, 1), (1, 2), (2, 3), (3, 3)]
    shown = matrix_view(explore(program, ml.mesh(data=4), "batch:data"))
    assert shown["kept"] == round(plan.wire_bytes)


def test_the_view_lists_the_cells_with_their_axes(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    reply: Any = answer(explorer, {"v": 2, "kind": "read", "id": "x-1", "what": "matrix", "args": {}})
    view = reply["data"]
    sent = json.dumps(view, allow_nan=False)
    assert json.dumps(json.loads(sent)) == sent
    rows = {i: sum(count for source, _, count, _ in view["cells"] if source == i) for i in range(8)}
    assert rows == pytest.approx(dict.fromkeys(range(8), explorer.plan.wire_bytes))
    assert view["total"] == round(explorer.plan.wire_bytes)
    assert {key for *_, keys in view["cells"] for key in keys} == {"data", "model"}
    assert view["kept"] == 0
    explorer.load("")
    assert matrix_view(explorer)["cells"] == matrix_view(explorer)["blocks"] == []


def test_of_more_devices_there_is_a_block_for_each_mesh_axis() -> None:
    shown = explore(MODELS["transformer"].trace(), ml.mesh(data=4, model=4, rest=8), "batch:data ffn:model")
    view = matrix_view(shown)
    assert view["cells"] == []
    by_axis = wire_bytes_by_axis(shown.plan.collectives)
    assert {block["key"]: block["bytes"] for block in view["blocks"]} == pytest.approx(by_axis)
    for block in view["blocks"]:
        assert (block["size"], block["groups"]) == (4, 32) if "+" not in block["key"] else (16, 8)
        assert sum(block["ways"].values()) == block["bytes"]


def test_the_totals_of_kinds_and_lines_have_payload_and_wire_bytes(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    plan, sums = explorer.plan, explorer.view()["communication"]
    payload = sum(c.payload_bytes * c.times for c in plan.collectives)
    for name in ("by_axis", "by_kind", "by_line"):
        assert sum(row["payload"] for row in sums[name]) == sums["payload"] == payload
        assert sum(row["bytes"] for row in sums[name]) == sums["total"] == round(plan.wire_bytes)
    assert {row["kind"]: row["count"] for row in sums["by_kind"]} == {
        kind: sum(c.times for c in plan.collectives if c.kind == kind) for kind in {c.kind for c in plan.collectives}
    }
