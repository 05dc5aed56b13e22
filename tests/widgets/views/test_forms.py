"""The layout in other forms: what is pasted gives the same plan, and what a form cannot say is listed."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections import namedtuple
from typing import Any

import pytest

import meshlab as ml
from meshlab import puzzles
from meshlab.api.stages import Plan, Program
from meshlab.engine.specs.layout import Layout
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import Document
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.views.forms.forms import FORMS, FormView, forms_view
from meshlab.widgets.views.forms.literal import keywords, literal
from meshlab.widgets.views.forms.specs import specs_text
from tests.widgets import small

MODELS = ("digits", "gpt2_adamw", "moe_switch", "unet3d", "llama", "plain_gpt", "nnx_mixer")


def forms(explorer: Explorer) -> dict[str, FormView]:
    return {form["name"]: form for form in forms_view(explorer)["forms"]}


def pasted(text: str, **names: Any) -> dict[str, Any]:
    """Runs lines in a namespace of their own; those in comments as well, where they are Python."""
    scope: dict[str, Any] = dict(names)
    exec(text, scope)
    then = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ") and " = " in line]
    exec("\n".join(then), scope)
    return scope


def same(one: Plan, other: Plan) -> bool:
    collectives = [(c.kind, c.axes, c.payload_bytes, c.times, c.because) for c in one.collectives]
    others = [(c.kind, c.axes, c.payload_bytes, c.times, c.because) for c in other.collectives]
    bytes_of = [(plan.wire_bytes, plan.stored.argument_bytes, plan.stored.output_bytes) for plan in (one, other)]
    return collectives == others and bytes_of[0] == bytes_of[1] and one.mesh == other.mesh


@pytest.mark.share(8)
@pytest.mark.parametrize("name", MODELS)
def test_every_form_of_every_layout_gives_the_same_plan(name: str) -> None:
    model = next(each for each in (*zoo.models(), *zoo.imported_models()) if each.name == name)
    program = model.trace()
    strings = 0
    for mesh, layout in draw(program, seed=1, count=4):
        explorer = explore(program, mesh, layout)
        written, plan = forms(explorer), explorer.plan
        assert same(pasted(written["Python"]["text"], program=program)["plan"], plan)
        assert same(program.plan(mesh, eval(written["dict"]["text"], {})), plan)
        assert same(program.plan(mesh, json.loads(written["JSON"]["text"])), plan)
        specs = pasted(written["PartitionSpecs"]["text"])
        flat = bool(written["PartitionSpecs"]["lost"])
        assert flat == (name == "nnx_mixer")
        if not flat:
            assert (specs["inputs"], specs["outputs"]) == plan.partition_specs
        read = ml.layouts.from_partition_specs(specs["inputs"], program, mesh, outputs=specs["outputs"])
        assert program.plan(mesh, read).partition_specs == plan.partition_specs
        rules = written["axis rules"]
        if not rules["lost"] and layout.dim_rules:
            assert same(program.plan(mesh, ml.layouts.from_axis_rules(eval(rules["text"], {}), program, mesh)), plan)
        levanter = written["Levanter"]
        if not levanter["lost"] and not layout.scope_rules:
            settings = {key: json.loads(value) for key, value in re.findall(r"  (\w+): (.*)", levanter["text"])}
            assert same(program.plan(mesh, ml.layouts.from_levanter(settings, program, mesh)), plan)
        mesh_tf = written["Mesh TensorFlow"]
        if not mesh_tf["lost"]:
            strings += 1
            assert same(program.plan(mesh, mesh_tf["text"]), plan)
    assert strings or name != "digits"


def test_the_python_runs_in_a_fresh_process(program: Program) -> None:
    mesh = ml.lay(ml.mesh(data=2, model=4), "v5e:2x4", model=1)
    text = forms(explore(program, mesh, {"batch": "data", "params/*": {"hidden": "model"}}))["Python"]["text"]
    done = subprocess.run([sys.executable, "-c", f"{text}\nprint(repr(mesh), mesh.on.requested, layout)"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    layout = {"batch": "data", "params/*": {"hidden": "model"}}
    assert done.stdout.strip() == f"{mesh!r} {{'model': 1}} {layout}"


MESHES = [
    ml.mesh(),
    ml.mesh(data=2),
    ml.mesh("h100", data=2, model=4),
    ml.mesh("v5e:2*4x4", data=8, model=4),
    ml.Mesh((("on", 2), ("class", 4))),
    ml.lay(ml.Mesh((("on", 2), ("model", 4))), "v5e:2x4"),
    ml.lay(ml.mesh(**{"lambda": 2, "model": 4}), "v5e:2x4", **{"lambda": 0}),
]


@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_every_mesh_is_written_as_it_is_made(program: Program, mesh: ml.Mesh) -> None:
    explorer = explore(program, mesh)
    again = pasted(forms(explorer)["Python"]["text"], program=program)["mesh"]
    assert again == mesh
    assert repr(again) == repr(mesh)


def test_what_stands_beside_the_layout_is_in_the_python_and_listed_for_the_rest() -> None:
    program = small.program()
    explorer = explore(program, ml.mesh("v5e", data=2, model=4), "hidden:model")
    explorer.resize_dim("batch", 12)
    explorer.rename_dim("hidden", "ffn")
    explorer.pad(True)
    assert explorer.load({"batch": "data", "params/*": {"classes": "model"}})
    explorer.pin("rows")
    explorer.assume(attention="flash")
    written = forms(explorer)
    assert written["Python"]["lost"] == []
    scope = pasted(written["Python"]["text"], program=program)
    assert same(scope["plan"], explorer.plan)
    assert scope["time"].scenario.options == explorer.time.scenario.options
    assert scope["choice"].plan.layout.rules.get("rows") is None
    for name in ("dict", "JSON"):
        assert [each.partition(":")[0] for each in written[name]["lost"]] == [
            "padding of dims that their axes do not divide",
            "new sizes of dims",
            "new names of dims",
            "what a search keeps to",
            "assumptions about the run",
        ]
    specs = written["PartitionSpecs"]
    assert specs["text"] == ""
    assert "plan.partition_specs is for JAX's and XLA's own partitioner" in specs["lost"][0]
    for name in ("axis rules", "Mesh TensorFlow"):
        assert any("at `params/*` is stored classes:model" in each for each in written[name]["lost"])
    assert eval(written["axis rules"]["text"], {}) == [("batch", "data")]


def test_every_form_is_written_where_every_field_of_the_document_is_set() -> None:
    """Limits that are no whole numbers broke Python's form, and with it shared boards."""
    explorer = ml.explore("mlp", ml.lay(ml.mesh(data=2, model=2), "v5e:2x2", model=0))
    changes = (
        explorer.resize_dim("batch", 12),
        explorer.rename_dim("hidden", "ffn"),
        explorer.load("batch:data ffn:model"),
        explorer.pad(True),
        explorer.pin("batch", "data"),
        explorer.forbid("rows", "model"),
        explorer.silence("model"),
        explorer.limit_auto(memory=0.8, seconds=5.0),
        explorer.assume(attention="flash", prefetch=True),
    )
    assert all(changes)
    unset = Document((), (), Layout())
    assert [
        field.name
        for field in dataclasses.fields(Document)
        if getattr(explorer.document, field.name) == getattr(unset, field.name)
    ] == []
    written = forms(explorer)
    assert [name for name in FORMS if not written[name]["text"]] == []
    text = written["Python"]["text"]
    assert "memory=0.8" in text
    assert "seconds=5.0" in text
    program = ml.named_models()["mlp"].trace()
    scope = pasted(text, program=program)
    assert same(scope["plan"], explorer.plan)
    assert scope["time"].scenario.options == explorer.time.scenario.options
    scope["choice"].plan.assert_silent("model")
    assert scope["choice"].plan.layout.rules["batch"] == ("data",)


def test_a_machine_of_the_user_is_listed(program: Program) -> None:
    machine = dataclasses.replace(ml.hardware("v5e"), name="mine")
    written = forms(explore(program, ml.mesh(machine, data=2, model=4)))["Python"]
    assert written["lost"] == ["the machine, which is your own: give it to ml.mesh, ahead of the axes"]
    assert pasted(written["text"], program=program)["mesh"] == ml.mesh(data=2, model=4)


def test_a_tree_that_is_no_python_is_given_by_place() -> None:
    model = next(each for each in zoo.imported_models() if each.name == "nnx_mixer")
    plan = explore(model.trace(), ml.mesh(data=2)).plan
    text, lost = specs_text(plan)
    given = pasted(text)["inputs"]
    assert list(given) == [each.place for each in plan.program.arguments]
    assert len(lost) >= 1
    assert "cannot be written as Python here; it is listed by place" in lost[0]


def test_text_that_is_evaluated_is_what_was_written() -> None:
    long = {f"a_long_name_of_a_dim_{number}": ["data", "model"] for number in range(9)}
    for value in ({}, [], (), (1,), {"a": None, "b": [True, "it's"]}, long, (long, [long]), '"\n\\é'):
        assert eval(literal(value), {}) == value
    assert max(map(len, literal((long, [long])).splitlines())) <= 100
    assert keywords((("data", 2), ("model", 4))) == "data=2, model=4"
    assert keywords((("class", 2),)) == '**{"class": 2}'
    Local = namedtuple("Local", "a")  # made where no import finds it
    Local.__qualname__ = "test.<locals>.Local"
    for value in ({1}, Local(1), Layout()):
        with pytest.raises(TypeError, match="cannot be written as Python here"):
            literal(value)


def test_a_task_has_the_forms_of_its_answer():
    assert [*forms(puzzles.P07.show())] == ["Python", "dict"]
    assert len(FORMS) > 2
