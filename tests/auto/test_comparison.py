"""Auto beside manual: the table, the data, the chart."""

from __future__ import annotations

import json

import pytest

import meshlab as ml
from tests.auto.programs import recorded, traced

MESH = ml.mesh(data=2, model=2)


@pytest.fixture(scope="module")
def comparison():
    return ml.auto.layout(recorded("mlp_train"), MESH).compare("batch:data hidden:model")


def test_rows_are_read_off_the_plans(comparison):
    program = recorded("mlp_train")
    yours, auto = comparison.rows
    plan = program.plan(MESH, "batch:data hidden:model")
    assert (yours.name, auto.name) == ("yours", "auto")
    assert yours.layout == "batch:data hidden:model"
    assert yours.wire_bytes == plan.wire_bytes == sum(yours.by_axis.values())
    assert yours.by_axis == {"data": 1_626_112 + 4, "model": 2_000}
    assert yours.collectives == sum(c.times for c in plan.collectives)
    assert yours.argument_bytes == plan.memory.argument_bytes
    assert (yours.work, auto.work) == (1 / 4, 1 / 4)
    assert auto.wire_bytes == comparison.proof.value < yours.wire_bytes
    assert auto.live_bytes < yours.live_bytes


def test_table(comparison):
    lines = str(comparison).splitlines()
    assert lines[0].split() == ["yours", "auto"]
    assert lines[1] == "layout                     batch:data hidden:model  hidden:data+model"
    assert lines[2] == "work per device            25.0%                    25.0%"
    assert lines[3] == "bytes sent per device      1,628,116                6,000"
    assert repr(comparison) == str(comparison)
    page = comparison._repr_html_()
    assert ">auto</th>" in page
    assert ">1,628,116</td>" in page
    assert "A device sends 6,000 bytes: no gap" in page


def test_data(comparison):
    data = json.loads(json.dumps(comparison.to_dict()))
    assert [row["layout"] for row in data["rows"]] == [row.layout for row in comparison.rows]
    assert data["rows"][0]["by_axis"] == {"data": 1_626_116, "model": 2_000}
    assert data["proof"]["value"] == 6_000


def test_figure(comparison):
    figure = comparison.figure()
    sent, memory, *auto = figure.data
    assert (list(sent.x), list(sent.y)) == (["data", "model", "data+model"], [1_626_116, 2_000, 0])
    assert list(memory.x) == ["arguments", "peak live"]
    assert list(memory.y) == [comparison.rows[0].argument_bytes, comparison.rows[0].live_bytes]
    assert sum(auto[0].y) == 6_000
    assert figure.layout.barmode == "group"


def test_a_layout_that_splits_nothing():
    comparison = ml.auto.layout(traced("block"), ml.mesh(model=4)).compare()
    yours = comparison.rows[0]
    assert (yours.layout, yours.work, yours.wire_bytes, yours.by_axis) == ("", 1, 0, {})
    assert "nothing sharded" in str(comparison)
    assert list(ml.auto.layout(traced("block"), ml.mesh(model=1)).compare().figure().data[0].x) == ["nothing"]


def test_rules_at_places_are_compared_as_they_are():
    comparison = ml.auto.layout(traced("mlp_sgd"), MESH).compare({"batch": "data", "params/*": {"embed": "data"}})
    yours = comparison.rows[0]
    plan = traced("mlp_sgd").plan(MESH, {"batch": "data", "params/*": {"embed": "data"}})
    assert yours.argument_bytes == plan.memory.argument_bytes
    assert yours.layout == str(plan.layout)


def test_a_layout_that_is_not_legal():
    with pytest.raises(ml.LayoutError, match="`bath` is not a dim"):
        ml.auto.layout(traced("block"), MESH).compare("bath:data")
