"""What README.md prints works as printed, and what it points to is there."""

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import pytest

import meshlab as ml
from meshlab.models.basic import mlp
from meshlab.models.zoo import draw

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def after_the_program():
    names = {}
    exec(compile(BLOCKS[0], "README.md", "exec"), names)
    return names


def test_the_model_works_as_printed(after_the_program):
    sent = Counter()
    for each in after_the_program["plan"].collectives:
        sent[each.kind, each.axes] += each.payload_bytes * each.times
    assert sent == {("all-reduce", ("model",)): 2_000, ("all-reduce", ("data",)): 1_626_112 + 4}
    assert "README.md:6" in str(after_the_program["plan"].explain())


def test_what_follows_them_works_too(after_the_program):
    images, labels = draw(mlp.inputs(mlp.Config()), seed=0)
    real_params = draw(after_the_program["params"], seed=1)
    names = {**after_the_program, "real_params": real_params, "images": images, "labels": labels}
    for line in BLOCKS[1].splitlines():
        exec(compile(line, "README.md", "exec"), names)
    assert set(names["params"]) == {"w1", "w2"}


def test_costs_are_told_as_printed(after_the_program):
    names = dict(after_the_program)
    exec(compile(BLOCKS[2], "README.md", "exec"), names)
    time, what_if = names["plan"].time, names["what_if"]
    assert 0 < time.lower <= time.estimate <= time.upper
    assert what_if.shape == (3, 3, 2)
    assert what_if.columns()["estimate"].shape == (18,)


def test_a_machine_of_ones_own_is_planned_on_as_printed():
    names: dict[str, Any] = {"ml": ml}
    exec(compile(BLOCKS[3], "README.md", "exec"), names)
    mesh = ml.mesh(names["mine"], data=4, model=2)
    batch, embed = ml.dims(batch=64, embed=64)
    program = ml.trace(lambda x, w: ml.dot(x, w, embed), ml.bf16[batch, embed], ml.bf16[embed, ml.Dim("ffn", 64)])
    assert program.plan(mesh, "batch:data embed:model").time.estimate > 0


def test_the_model_of_ones_own_works_as_printed():
    for library in ("flax", "optax"):
        pytest.importorskip(library)
    names = {}
    exec(compile(BLOCKS[4], "README.md", "exec"), names)
    program, mesh = names["program"], ml.mesh(data=2, model=4)
    assert dict(program.dims) == {"embed": 32, "ffn": 128, "heads": 4, "head": 8, "batch": 8, "seq": 16}
    dims = {place.removeprefix("params/params/"): program.place(place).dims for place in program.places}
    assert dims["down/kernel"] == ("ffn", "embed")
    assert dims["attention/query/kernel"] == dims["attention/value/kernel"] == ("embed", "heads", "head")
    assert dims["attention/out/kernel"] == ("heads", "head", "embed")
    assert program.made_up == {"~seq": 16}
    assert program.plan(mesh, "batch:data heads:model ffn:model").check().ok
    # All but AdamW's count, the data and the loss is stored in two parts; without the second rule its state is whole.
    params = sum(math.prod(p.shape) for p in jax.tree.leaves(names["params"]))
    stored = {"batch": "data", "params/*": {"embed": "data"}}
    whole = program.plan(mesh, stored).stored.parts["opt_state"]
    split = program.plan(mesh, {**stored, "opt_state/*": {"embed": "data"}}).stored.parts["opt_state"]
    assert whole == 8 * params + 4
    assert split < 0.52 * whole


def test_the_literatures_layouts_are_those_of_the_model_of_ones_own():
    for library in ("flax", "optax"):
        pytest.importorskip(library)
    names = {}
    for block in BLOCKS[4:6]:
        exec(compile(block, "README.md", "exec"), names)
    layout = names["both"]
    assert dict(layout.rules) == {"batch": ("data",), "heads": ("model",), "ffn": ("model",)}
    assert layout.places["params/*"] == {"embed": ("data",), "ffn": ("model", "data")}
    assert names["program"].plan(names["mesh"], layout).check().ok


def test_scopes_and_an_axis_in_time_work_as_printed():
    for library in ("flax", "optax"):
        pytest.importorskip(library)
    names = {}
    for block in BLOCKS[4:7]:
        exec(compile(block, "README.md", "exec"), names)
    program, in_time = names["program"], names["in_time"]
    scoped = program.plan(names["mesh"], {"batch": "data", "@attention": {"heads": "model"}})
    assert {c.source.line for c in scoped.collectives if c.axes == ("model",)}
    assert scoped.check().ok
    plan = program.plan(in_time, "batch:data+micro heads:model")
    assert in_time.size == 4
    assert "added up over 2 micro-batches" in str(plan.explain())
    assert plan.check().ok


def test_layouts_in_other_words_are_read_as_printed():
    for library in ("flax", "optax"):
        pytest.importorskip(library)
    names = {}
    for block in BLOCKS[4:6]:
        exec(compile(block, "README.md", "exec"), names)
    *lines, last = BLOCKS[7].splitlines()
    exec(compile("\n".join(lines), "README.md", "exec"), names)
    assert str(names["layout"]) == ("batch:data ffn:model heads:model · params/*: embed:data · opt_state/*: embed:data")
    again = ml.layouts.from_partition_specs(names["inputs"], names["program"], names["mesh"])
    assert again == names["layout"]
    assert eval(last, names) == [("batch", "data"), ("heads", "model")]


def test_local_links_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link
