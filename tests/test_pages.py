"""What the pages in docs print as Python works as printed; a page goes on from those that it says it does."""

import functools
import math
import re
from pathlib import Path
from typing import Any

import jax
import pytest

import meshlab as ml
from meshlab.models.parts.initial import shapes
from meshlab.models.vision import digits

DOCS = Path(__file__).parents[1] / "docs"
# A block of Python, and a board of the site, which is the code that makes it.
BLOCK = re.compile(r"```(?:python|\{board\} \d+)\n(.*?)```", re.DOTALL)


def blocks(page: str) -> list[str]:
    """The blocks of a page, in its order."""
    found = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert found, page
    return found


@functools.cache
def after(page: str, count: int | None = None) -> dict[str, Any]:
    """The names that a page's first blocks leave, or all of them."""
    names: dict[str, Any] = {}
    for block in blocks(page)[:count]:
        exec(compile(block, page, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Pages write files."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def libraries():
    for library in ("equinox", "flax", "optax"):
        pytest.importorskip(library)


def test_the_first_board_plan_and_model_of_start():
    names = after("start.md")
    plan, program = names["plan"], names["program"]
    report = plan.check()
    assert report.ok
    printed = (DOCS / "start.md").read_text(encoding="utf-8")
    for line in str(report).splitlines()[:6]:
        assert f"    {line}\n" in printed
    assert f"# {ml.layouts.fsdp(program, names['mesh'])}\n" in printed
    assert f"# {names['best']}\n" in printed
    assert {c.axes for c in plan.collectives} == {("data",), ("model",)}
    # What the page says of the drags.
    explorer = ml.explore(program, names["mesh"])
    explorer.place("batch", "data")
    assert {(c.kind, c.axes) for c in explorer.plan.collectives} == {("all-reduce", ("data",))}
    explorer.place("hidden", "model")
    assert sum(c.axes == ("model",) for c in explorer.plan.collectives) == 1
    assert program.plan(names["mesh"], names["fsdp"]).stored.argument_bytes < plan.stored.argument_bytes * 1.2
    mine = names["mine"]
    assert dict(mine.dims) == {"vocab": 1000, "embed": 64, "ffn": 256, "batch": 8, "seq": 128}
    assert mine.plan(names["mesh"], "batch:data ffn:model").check().ok


def test_costs_are_as_printed():
    names = dict(after("start.md", 1))
    block, mine = blocks("cost.md")
    exec(compile(block, "cost.md", "exec"), names)
    time, what_if = names["plan"].time, names["what_if"]
    assert 0 < time.lower <= time.estimate <= time.upper
    assert what_if.shape == (3, 3, 2)
    assert what_if.columns()["estimate"].shape == (18,)
    exec(compile(mine, "cost.md", "exec"), names)
    mesh = ml.mesh(names["mine"], data=4, model=2)
    assert names["program"].plan(mesh, "batch:data hidden:model").time.estimate > 0


def test_a_training_is_saved_and_goes_on_as_printed():
    pytest.importorskip("orbax.checkpoint")
    config = digits.Config()
    rows, columns, batch = (ml.Dim(name, size) for name, size in (("rows", 8), ("cols", 8), ("batch", config.batch)))
    names: dict[str, Any] = {
        **{"jax": jax, "ml": ml, "step": digits.step, "Rows": rows, "Cols": columns, "Batch": batch},
        "params_shapes": shapes(digits.init, config),
        "params": digits.init(jax.random.key(0), config),
        "loader": list(digits.batches(digits.load(), config, epochs=1)),
    }
    looped, saved, restored, moved = blocks("training.md")
    less = {"steps=1000": "steps=6", "every=200": "every=2"}

    def run(block: str) -> None:
        for printed, instead in less.items():
            block = block.replace(printed, instead)
        exec(compile(block, "training.md", "exec"), names)

    run(looped)
    first = names["fit"]
    names["batches"] = [{"images": x, "labels": y} for x, y in names["loader"]]
    run(saved)
    assert names["fit"].losses == first.losses[:6]
    names["evaluation"] = names["program"].plan(ml.mesh(data=2), "batch:data")
    less["steps=1000"] = "steps=8"
    run(restored)
    assert names["fit"].step == 8
    assert names["params"].keys() == first.state["params"].keys()
    run(moved)
    move = names["move"]
    assert all(0 <= new < held for new, held in zip(move.new, move.held, strict=True))
    assert "all-gather" in move.constraints()


def planned() -> dict[str, Any]:
    """A plan of a small step, with its arguments, as pages call them."""
    batch, embed, hidden, classes = ml.dims(batch=8, embed=6, hidden=8, classes=4)

    def step(params, images, labels):
        def loss(params):
            hidden_units = ml.relu(ml.dot(images, params["w1"], embed))
            logits = ml.dot(hidden_units, params["w2"], hidden)
            return ml.cross_entropy(logits, labels, classes).mean()

        return jax.value_and_grad(loss)(params)

    draw = jax.random.key(0)
    params = {
        "w1": ml.tensor(jax.random.normal(draw, (6, 8)), embed, hidden),
        "w2": ml.tensor(jax.random.normal(draw, (8, 4)), hidden, classes),
    }
    images = ml.tensor(jax.random.normal(draw, (8, 6)), batch, embed)
    labels = ml.tensor(jax.numpy.arange(8) % 4, batch)
    plan = ml.trace(step, params, images, labels).plan(ml.mesh(data=2, model=2), "batch:data hidden:model")
    return {"plan": plan, "step": step, "params": params, "images": images, "labels": labels}


def test_a_look_inside_is_as_printed():
    names = planned()
    page = (DOCS / "look-inside.md").read_text(encoding="utf-8").replace('"hidden"', '"hidden_units"')
    watched, *looked = re.findall(r"^    (seen\b.*?)(?:  +#.*)?$", page, re.MULTILINE)
    exec(watched.replace('["hidden_units"]', '["hidden_units", "logits"]'), names)
    found = [eval(line, names) for line in looked]
    assert len(found) == 6
    assert all(each is not None for each in found)
    called = re.findall(r"^    (plan\..*?)  +#", page, re.MULTILINE)
    assert [eval(line, names) for line in called] == [None, None]


def test_a_step_is_measured_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = planned()
    page = (DOCS / "profile.md").read_text(encoding="utf-8")
    made, *read = re.findall(r"^    (profile\b.*?)(?:  +#.*)?$", page, re.MULTILINE)
    exec(made, names)
    for line in read:
        eval(line, names)
    assert len(read) == 10
    assert (tmp_path / "profile.json").exists()
    for name in re.findall(r"`(?:profile)?(\.\w+)`", page):
        assert hasattr(names["profile"], name[1:]) or hasattr(names["profile"].lines[0], name[1:]), name


def test_a_flax_model_is_named(libraries):
    names = after("own-model.md")
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


@pytest.mark.parametrize("library", ["nnx", "eqx"])
def test_models_of_nnx_and_equinox_are_named(libraries, library):
    program = after("own-model.md")[f"{library}_program"]
    plan = program.plan(ml.mesh(data=2, model=4), "batch:data ffn:model")
    assert {"batch", "embed", "ffn"} <= set(program.dims)
    assert {c.axes for c in plan.collectives} == {("data",), ("model",)}
    assert plan.check().ok


def test_the_literatures_layouts_are_those_of_the_model_of_ones_own(libraries):
    names = dict(after("own-model.md"))
    exec(compile(blocks("layouts.md")[0], "layouts.md", "exec"), names)
    layout = names["both"]
    assert dict(layout.rules) == {"batch": ("data",), "heads": ("model",), "ffn": ("model",)}
    assert layout.places["params/*"] == {"embed": ("data",), "ffn": ("model", "data")}
    assert names["program"].plan(names["mesh"], layout).check().ok


def test_scopes_and_an_axis_in_time_work_as_printed(libraries):
    names = dict(after("own-model.md"))
    for block in blocks("layouts.md")[:2]:
        exec(compile(block, "layouts.md", "exec"), names)
    program, in_time = names["program"], names["in_time"]
    scoped = program.plan(names["mesh"], {"batch": "data", "@attention": {"heads": "model"}})
    assert {c.source.line for c in scoped.collectives if c.axes == ("model",)}
    assert scoped.check().ok
    plan = program.plan(in_time, "batch:data+micro heads:model")
    assert in_time.size == 4
    assert "added up over 2 micro-batches" in str(plan.explain())
    assert plan.check().ok


def test_layouts_in_other_words_are_read_as_printed(libraries):
    names = dict(after("own-model.md"))
    first, _, third, fourth = blocks("layouts.md")
    exec(compile(first, "layouts.md", "exec"), names)
    *lines, last = third.splitlines()
    exec(compile("\n".join(lines), "layouts.md", "exec"), names)
    assert str(names["layout"]) == "batch:data ffn:model heads:model · params/*: embed:data · opt_state/*: embed:data"
    again = ml.layouts.from_partition_specs(names["inputs"], names["program"], names["mesh"])
    assert again == names["layout"]
    assert eval(last, names) == [("batch", "data"), ("heads", "model")]
    exec(compile(fourth, "layouts.md", "exec"), names)
    assert names["plan"].work


def test_the_board_opens_as_printed():
    names = dict(after("start.md", 1))
    (block,) = blocks("board.md")
    exec(compile(block, "board.md", "exec"), names)


def test_texts_that_layouts_are_written_in_are_read(libraries):
    """The table of layouts.md, each row that is a whole layout."""
    program = after("own-model.md")["program"]
    page = (DOCS / "layouts.md").read_text(encoding="utf-8")
    written = [eval(row) for row in re.findall(r"^\| `([\"{].*?[\"}])` \|", page, re.MULTILINE)]
    assert len(written) == 5
    mesh = ml.mesh(data=2, model=4)
    for layout in written:
        if layout != "vocab:data+model":  # of a model with a vocabulary
            assert program.plan(mesh, layout).layout == ml.Layout.of(layout)


def test_the_program_of_each_device_is_as_printed(tmp_path):
    model = re.sub(r"(?m) +#.*$", "", blocks("../README.md")[0])  # without comments, which the file would repeat
    (tmp_path / "step.py").write_text(model)
    names: dict[str, Any] = {}
    exec(compile(model, str(tmp_path / "step.py"), "exec"), names)
    text = names["plan"].code()
    page = (DOCS / "look-inside.md").read_text(encoding="utf-8")
    printed = page[page.index("    def device(") :].partition("\n\n")[0]
    assert re.sub(r"(?m)^    ", "", printed) in text
