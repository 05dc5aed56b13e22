"""XLA's program as a tree: every operation, on the shards that XLA decided, and every collective once, at its line."""

from __future__ import annotations

from collections import Counter

import pytest

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.intents import Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.views.program.inserted import inserted_view
from meshlab.widgets.views.program.nodes import ProgramDataView
from meshlab.widgets.views.reads import read
from tests.widgets import small
from tests.widgets.views.test_program_steps import nodes


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    explorer = small.on_v5e()
    explorer.load({"batch": "data", "hidden": "model", "params/*": {"rows": "data"}})
    return explorer


def tree(explorer: Explorer) -> ProgramDataView:
    view = inserted_view(explorer)
    assert not isinstance(view, Refused)
    return view


def test_there_is_none_before_it_is_compiled(explorer: Explorer) -> None:
    answer = read(small.on_v5e(), "inserted", {})
    assert isinstance(answer, Refused)
    assert "has not compiled" in answer.reason


def test_each_collective_is_there_once_at_its_line(explorer: Explorer) -> None:
    report = explorer.xla()
    view = tree(explorer)
    rows = nodes(view)
    sent = [row for row in rows if row["kind"] == "collective"]
    assert Counter(row["name"] for row in sent) == Counter(c.kind for c in report.collectives)
    told = view["collectives"]
    assert sum(each["wire"] * each["times"] for each in told) == pytest.approx(report.wire_bytes)
    assert all(each["because"] for each in told)
    for row in sent:
        above = rows[row["parent"]]
        assert above["source"] == row["source"] or above["label"] == "elsewhere"
    assert any(rows[row["parent"]]["kind"] in ("line", "step") for row in sent)
    assert {row["label"] for row in rows if row["kind"] == "phase"} >= {"forward", "backward"}


def test_values_are_as_xla_has_split_them(explorer: Explorer) -> None:
    rows = nodes(tree(explorer))
    products = [row for row in rows if row["name"] == "dot_general" and row["kind"] == "step"]
    assert any("batch/data" in row["makes"] for row in products)
    assert any("hidden/model" in row["makes"] for row in products)


def test_what_is_sent_in_a_loop_stands_in_it() -> None:
    Batch, Embed, Hidden, Layers = ml.dims(batch=8, embed=16, hidden=32, layers=3)

    def layer(x, w):
        hidden = ml.relu(ml.dot(x, w["up"], Embed))
        return ml.dot(hidden, w["down"], Hidden), None

    weights = {"up": ml.f32[Layers, Embed, Hidden], "down": ml.f32[Layers, Hidden, Embed]}
    program = ml.trace(lambda x, w: ml.scan(layer, x, w, Layers)[0], ml.f32[Batch, Embed], weights)
    explorer = explore(program, ml.mesh(model=4), {"hidden": "model"})
    report = explorer.xla()
    rows = nodes(tree(explorer))
    (loop,) = (i for i, row in enumerate(rows) if row["kind"] == "loop")
    (sent,) = (row for row in rows if row["kind"] == "collective")
    assert rows[loop]["times"] == report.collectives[0].times == 3
    above = sent
    while above["parent"] >= 0 and above is not rows[loop]:
        above = rows[above["parent"]]
    assert above is rows[loop]
