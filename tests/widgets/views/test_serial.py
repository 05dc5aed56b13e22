"""No part of the board fails on a mesh with an axis in time, and documents keep it."""

import json

import pytest

import meshlab as ml
from meshlab.widgets.documents.intents import Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.views.board import PARTS, parts_view
from meshlab.widgets.views.plan import collectives_view
from meshlab.widgets.views.reads import read
from tests.widgets import small

MESHES = {
    "no machine": ml.mesh(data=2, micro=ml.serial(2, gather="each")),
    "torus": ml.mesh("v5e:2x2", data=2, micro=ml.serial(2), model=2),
    "nodes": ml.mesh("h100:2x8", data=16, micro=ml.serial(2)),
}
# What a panel asks for without a run, with the arguments that it needs.
ASKED = {"alive": {"step": 0}, "forms": {}, "matrix": {}, "moments": {}, "program": {}, "roofline": {}}


@pytest.fixture(params=MESHES)
def explorer(request):
    layout = "batch:micro" if request.param == "nodes" else "batch:data+micro"
    explorer = ml.explore(small.program(), MESHES[request.param], layout)
    explorer.view()
    return explorer


def test_every_part_of_the_board_is_described(explorer):
    parts = parts_view(explorer)
    assert parts.keys() == PARTS.keys()
    assert json.loads(json.dumps(parts))
    assert "micro" in json.dumps(parts["board"])
    assert explorer.snapshot()


@pytest.mark.parametrize("what", ASKED)
def test_every_panel_is_answered(explorer, what):
    placed = ml.mesh("v5e:2x2", data=2, micro=ml.serial(2), model=2)
    if what == "roofline" and explorer.mesh.on is None:  # a roofline is a machine's
        explorer = ml.explore(small.program(), placed, "batch:micro")
        explorer.view()
    answer = read(explorer, what, ASKED[what])
    assert not isinstance(answer, Refused), answer
    assert json.dumps(answer)


def test_senders_are_devices(explorer):
    for each in collectives_view(explorer.plan)["rows"]:
        assert json.dumps(read(explorer, "sends", {"collective": each["id"]}))


def test_a_document_keeps_it(explorer):
    text = explorer.to_json()
    again = Explorer.from_json(text, small.program())
    assert again.mesh == explorer.mesh
    assert again.to_json() == text
    assert json.loads(text)["mesh"][1][1]["serial"] == 2


def test_a_layout_is_written_with_it():
    explorer = ml.explore(small.program(), MESHES["no machine"], "batch:data+micro")
    text = json.dumps(read(explorer, "forms", {}))
    assert "ml.mesh(data=2, micro=ml.serial(2, gather=" in text


def test_it_is_resized_and_not_split_or_merged():
    explorer = ml.explore(small.program(), MESHES["no machine"], "batch:data+micro")
    assert explorer.resize_axis("micro", 4)
    assert dict(explorer.mesh.in_time) == {"micro": ml.serial(4, gather="each")}
    for refused in (explorer.split_axis("micro", 2, "outer"), explorer.merge_axes("data", "micro")):
        assert isinstance(refused, Refused)
        assert "`micro` is a serial axis, which cannot be" in str(refused)


def test_a_document_with_an_invalid_one_is_refused():
    explorer = ml.explore(small.program(), MESHES["no machine"])
    data = json.loads(explorer.to_json())
    data["mesh"][1][1] = {"serial": 0}
    with pytest.raises(ml.MeshlabError, match="size of `micro`"):
        Explorer.from_json(json.dumps(data), small.program())


def test_the_batch_is_dropped_on_it():
    explorer = ml.explore(small.program(), ml.mesh(data=2, micro=ml.serial(2)), "batch:data")
    assert explorer.place("batch", "micro")
    assert explorer.layout == ml.Layout.of("batch:micro")
    assert isinstance(explorer.place("classes", "micro"), Refused)
