"""What `plan.code` writes runs without meshlab, sends what the plan sends, and computes the same bits."""

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.devices import compiler_options
from meshlab.engine.exporting import words
from meshlab.engine.exporting.code import _function, _imports, positions
from meshlab.engine.exporting.compared import differences
from meshlab.engine.exporting.traced import on_shards, trace
from meshlab.engine.exporting.writer import Writer
from meshlab.engine.running.run import flat_arguments
from meshlab.engine.verifying.hlo import read_collectives, totals
from meshlab.models.zoo import models

MODELS = {model.name: model for model in models()}
MESH = ml.mesh(data=2, model=4)
TENSOR = "batch:data heads:model ffn:model"
# Programs of the zoo, each under a layout.
LAYOUTS = {
    "mlp": "batch:data hidden:model",
    "mlp_adamw": {"batch": "data", "params/*": {"embed": "data"}, "ffn": "model"},
    "transformer": TENSOR,
    "transformer_sgd": TENSOR,
    "gpt2_adamw": TENSOR,
    "moe_sgd": "batch:data experts:model",
    "vit": "batch:data heads:model",
    "state_space": "batch:data",
    "convnet_sgd": "batch:data",
    "two_layer": "batch:data hidden:model",
    "block": "batch:data",
    "gemma_sgd": "batch:data",
    "t5": "batch:data",
}
# Imports files, runs them and writes what they return and what was compiled; meshlab cannot be imported.
CHILD = """
import importlib, json, pathlib, sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "meshlab":
            raise ImportError("meshlab is not installed here")

sys.meta_path.insert(0, Nowhere())
folder = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(folder))
import jax, numpy as np
jax.config.update("jax_num_cpu_devices", 8)
for name in sys.argv[3:]:
    step = importlib.import_module(f"exported_{name}").step
    arrays = list(np.load(folder / f"{name}.npz").values())
    compiled = step.lower(*arrays).compile(compiler_options=json.loads(sys.argv[2]))
    (folder / f"{name}.hlo").write_text(compiled.as_text())
    np.savez(folder / f"{name}_out.npz", *map(np.asarray, compiled(*arrays)))
"""


def run_without_meshlab(folder: pathlib.Path, plans: dict) -> None:
    for name, (plan, args) in plans.items():
        plan.code(folder / f"exported_{name}.py")
        np.savez(folder / f"{name}.npz", *map(np.asarray, flat_arguments(plan, args)))
    around = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), json.dumps(compiler_options("cpu")), *plans],
        cwd=folder,
        env=around,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def assert_same(folder: pathlib.Path, name: str, plan, args) -> None:
    """The results are those of `plan.run`, bit by bit, and the compiled collectives those of its program."""
    returned = list(np.load(folder / f"{name}_out.npz").values())
    expected = [np.asarray(each) for each in jax.tree.leaves(plan.run(*args))]
    # On several threads XLA for CPU now and then sums a convolution in another order, of one compiled program too
    # (jax-ml/jax#39741): then rounding differs.
    tolerance = 1e-6 if "convolution" in (folder / f"{name}.hlo").read_text() else 0
    for mine, theirs in zip(returned, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance, err_msg=name)
    texts = (folder / f"{name}.hlo").read_text(), plan.compile().as_text()
    one, other = (totals(read_collectives(text, plan.mesh.axes, unknown_trips=1)) for text in texts)
    assert one == other != {}, name


def written_apart(plan) -> tuple:
    """The trace of a plan, and the code of what is written of it."""
    traced = trace(plan)
    writer = Writer(plan, traced)
    text = _function(writer, writer.program())
    return traced, _imports(text) + text


def every(steps) -> int:
    return sum(1 + sum(every(part.steps) for part in step.parts) for step in steps)


@pytest.mark.share(12)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_file_runs_without_meshlab(name, tmp_path):
    model = MODELS[name]
    plan, args = model.trace().plan(MESH, LAYOUTS[name]), model.data(0)
    run_without_meshlab(tmp_path, {name: (plan, args)})
    assert_same(tmp_path, name, plan, args)


@pytest.mark.share(4)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_file_is_short_and_formatted(name):
    plan = MODELS[name].trace().plan(MESH, LAYOUTS[name])
    text, steps = plan.code(), every(plan.steps)
    # Besides its steps a file has a head, and the specs of arguments and results.
    assert text.count("\n") <= 1.6 * steps + 60
    ruff = pathlib.Path(sys.executable).with_name("ruff")
    if ruff.exists():
        given = [ruff, "format", "--isolated", "-"]
        assert subprocess.run(given, input=text, capture_output=True, text=True, check=True).stdout == text


# The collective that each function sends.
SENDS = {
    "psum": "all-reduce",
    "pmax": "all-reduce",
    "all_gather": "all-gather",
    "psum_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "ppermute": "collective-permute",
}


def said(c: Any) -> str:
    return f"{c.kind} over {'+'.join(c.axes)}, {c.payload_bytes:,} bytes: {c.because}"


def sent_in(text: str) -> list[tuple[str, str, str]]:
    """Each line of a file that sends: its function, itself, and the comment above it, in one line."""
    rows, found = [row.strip() for row in text.splitlines()], []
    for i, row in enumerate(rows):
        if match := re.search(rf"lax\.({'|'.join(SENDS)})\(", row):
            above = itertools.takewhile(lambda row: row.startswith("#"), reversed(rows[:i]))
            found.append((match[1], row, " ".join(row.removeprefix("# ") for row in reversed([*above]))))
    return found


@pytest.mark.share(4)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_comment_says_what_each_collective_sends_and_why(name):
    plan = MODELS[name].trace().plan(MESH, LAYOUTS[name])
    sent = sent_in(plan.code())
    assert sent
    for function, row, comment in sent:
        meant = [c for c in plan.collectives if comment.endswith(said(c))]
        assert {c.kind for c in meant} == {SENDS[function]}, row
        axes = set(re.findall(r'"(\w+)"', row))  # none where the call takes several lines
        assert not axes or axes in [set(c.axes) for c in meant], row


def test_a_file_says_what_it_is_and_what_its_values_are():
    plan = MODELS["mlp"].trace().plan(MESH, LAYOUTS["mlp"])
    text = plan.code()
    assert "as each of 8 devices runs it" in text
    assert "donate_argnums=(0, 1)." in text
    assert sorted(comment[comment.index("all-") :] for *_, comment in sent_in(text)) == sorted(
        map(said, plan.collectives)
    )
    places = [
        text.index(each)
        for each in (
            "    hidden = lax.max(hidden_product, 0.0)  # [batch/data hidden/model]\n",
            "    logits_partial = jnp.einsum(",
            "    logits = lax.psum(logits_partial",
            "    # region backward pass, and what follows it\n",
            "    grad_params_w2_partial = ",
            "    # endregion\n    return (",
        )
    ]
    assert places == sorted(places)
    assert "  # [embed] partial over data\n" in small(lambda x: x.sum(0), "batch embed").code()


def test_arguments_that_follow_each_other_are_a_range():
    assert [positions(each) for each in ((), (0, 1), (2, 3, 4), (0, 1, 3))] == [
        "",
        "(0, 1)",
        "range(2, 5)",
        "(0, 1, 3)",
    ]


def test_what_would_compute_something_else_is_not_written(monkeypatch):
    monkeypatch.setitem(words._INFIX, "mul", "+")
    with pytest.raises(ml.MeshlabError, match="1. the primitive `mul`, which the file would compute otherwise"):
        small(lambda x: (x * 3.0).sum(), "batch embed").code()


def small(function, *names, **options):
    shapes = [ml.named(jax.ShapeDtypeStruct((8,) * len(dims.split()), np.float32), dims) for dims in names]
    return ml.trace(function, *shapes).plan(ml.mesh(data=2), "batch:data", **options)


@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("lax.tanh", "lax.sin"), ("2.0", "3.0"), ("lax.psum", "lax.pmax"), ("tanh(", "exp(1e-9 + ")],
)
def test_what_is_written_otherwise_is_found(before, after):
    plan = small(lambda x, w: (jnp.tanh(x @ w) * 2.0).sum(), "batch embed", "embed hidden")
    traced, text = written_apart(plan)
    assert before in text
    names = {}
    exec(text.replace(before, after) if before else text, names)
    assert bool(differences(traced.whole, on_shards(plan, names["device"]))) == bool(before)


def test_a_loop_that_goes_backward_is_another():
    def step(x):
        return jax.lax.scan(lambda carry, row: (carry * 0.5 + row, carry), jnp.zeros(8), x, reverse=True)

    plan = ml.trace(step, ml.named(jax.ShapeDtypeStruct((8, 8), np.float32), "seq batch")).plan(
        ml.mesh(data=2), "batch:data"
    )
    traced, text = written_apart(plan)
    assert "reverse=True" in text
    names = {}
    exec(text.replace(", reverse=True", ""), names)
    assert [op.name for op in differences(traced.whole, on_shards(plan, names["device"]))] == ["scan", "scan"]


def test_while_loops_branches_and_constants_are_written():
    table = np.arange(8, dtype=np.float32)

    def step(x):
        total = jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2.0 + table), (0, x))[1]
        return jax.lax.switch(jnp.argmax(table), [jnp.sin, jnp.cos, jnp.tanh], total).sum()

    plan = small(step, "batch embed")
    text = plan.code()
    assert all(word in text for word in ("lax.while_loop(", "lax.switch(", "CONSTANT = np.array("))
    names = {}
    exec(text, names)
    x = np.random.default_rng(0).normal(size=(8, 8)).astype("f4")
    assert np.array_equal(names["step"](x)[0], plan.run(x))


# What the lowering makes of these: rings, loops over micro-batches, stages, keys, rows sorted by expert.
OTHERS = {
    "a ring": ("transformer_sgd", ml.mesh(data=2, model=2), "batch:data seq:model kv:model"),
    "micro-batches": ("mlp", ml.mesh(data=2, micro=ml.serial(4)), "batch:data+micro"),
    "stages": ("transformer_sgd", ml.mesh(pipe=ml.stages(2), micro=ml.serial(4)), "layers:pipe batch:micro"),
    "experts": ("moe_dropless", ml.mesh(data=2, model=2), "batch:data experts:model"),
    "edges": ("convnet_sgd", ml.mesh(data=2), "rows:data"),
    "a cache": ("decoding", ml.mesh(data=2), "batch:data"),
}


@pytest.mark.share(2)
@pytest.mark.parametrize(("model", "mesh", "layout"), OTHERS.values(), ids=OTHERS)
def test_all_kinds_of_steps_are_written(model, mesh, layout):
    plan = MODELS[model].trace().plan(mesh, layout)
    assert "step = jax.jit(sharded)" in plan.code()


@pytest.mark.parametrize("arrays", [1, 2])
def test_barriers_are_written(arrays):
    """Of several arrays JAX makes a tuple, and of one an array."""

    def step(x):
        return sum(each.sum() for each in jax.lax.optimization_barrier([jnp.sin(x), jnp.cos(x)][:arrays]))

    plan = small(step, "batch embed")
    names = {}
    exec(plan.code(), names)
    x = np.random.default_rng(0).normal(size=(8, 8)).astype("f4")
    assert np.array_equal(names["step"](x)[0], plan.run(x))


def test_random_numbers_are_written():
    def step(key, x):
        return (x * jax.random.bernoulli(key, 0.5, x.shape)).sum()

    x = ml.named(jax.ShapeDtypeStruct((8, 8), np.float32), "batch embed")
    key = jax.eval_shape(lambda: jax.random.key(0))
    assert "threefry2x32_p.bind(" in ml.trace(step, key, x).plan(ml.mesh(data=2), "batch:data").code()


def test_everything_that_cannot_be_written_is_listed_at_once():
    large = np.random.default_rng(0).normal(size=(64, 64)).astype("f4")

    def step(x):
        return (jnp.fft.rfft(x, axis=1).real.sum() + (x @ large[:7, :7]).sum() + jnp.sum(large)), x

    shape = ml.named(jax.ShapeDtypeStruct((7, 7), np.float32), "batch embed")
    plan = ml.trace(step, shape).plan(ml.mesh(data=2), "batch:data", pad=True)
    with pytest.raises(ml.MeshlabError, match="cannot be written as Python without meshlab") as error:
        plan.code()
    assert "`x`, which is padded to (8, 7)" in str(error.value)
    assert "`out/1`, which is padded to (8, 7)" in str(error.value)
    assert "(64, 64) that the function closes over: pass it as an argument" in str(error.value)


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    plan = small(lambda x: x.sum(), "batch embed")
    text = plan.code(tmp_path / "step.py")
    assert (tmp_path / "step.py").read_text() == text == plan.code()
    with pytest.raises(ml.MeshlabError, match=r"code\(\) cannot write .*No such file"):
        plan.code(tmp_path / "nowhere" / "step.py")
    number: Any = 3
    with pytest.raises(ml.MeshlabError, match=r"code\(\) was given 3 for its file"):
        plan.code(number)
