"""`meshlab plan --as`: the layout alone, in a form to be pasted."""

import json

import pytest

import meshlab as ml
from tests.commands.small import called, written
from tests.commands.test_plan import ON, planned


@pytest.fixture
def file(tmp_path):
    return written(tmp_path)


def test_the_layout_is_printed_in_a_form_to_be_pasted(file, capsys):
    asked = ("plan", file, *ON, "--layout", '{"batch": "data", "params/*": {"embed": "model"}}')
    status, out, err = called(capsys, *asked, "--as", "PARTITIONSPECS")
    assert status == 0
    scope = {}
    exec(out, scope)
    layout = {"batch": "data", "params/*": {"embed": "model"}}
    plan = planned(file, ml.mesh("v5e:2x2", data=2, model=2), layout)
    assert (scope["inputs"], scope["outputs"]) == plan.partition_specs
    assert err == "printed by the file\n"
    status, out, err = called(capsys, *asked, "--as", "MaxText")
    assert out == 'logical_axis_rules: [["batch", "data"]]\n'
    assert "MaxText cannot express: at `params/*` is stored embed:model" in err


def test_a_form_of_what_a_search_finds(file, capsys):
    status, out, _ = called(capsys, "plan", file, *ON, "--auto", "time", "--as", "json")
    _, all_of_it, _ = called(capsys, "plan", file, *ON, "--auto", "time", "--json")
    assert status == 0
    assert json.loads(out) == json.loads(all_of_it)["plan"]["layout"]


def test_a_form_that_there_is_not_is_refused_before_anything_is_planned(file, capsys):
    status, out, err = called(capsys, "plan", file, *ON, "--as", "jax")
    assert (status, out) == (2, "")
    assert "There is no form 'jax' of a layout." in err
    assert "printed by the file" not in err
    assert called(capsys, "plan", file, *ON, "--as", "jit", "--json")[0] == 2
