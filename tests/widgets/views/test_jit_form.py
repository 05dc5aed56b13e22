"""The layout as `jax.jit` takes it: the text runs in a fresh process without meshlab, and gives the same results."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import meshlab as ml
from meshlab.engine.verifying.hlo import read_collectives, totals
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.views.forms.forms import FORMS, forms_view
from meshlab.widgets.views.forms.literal import imported_from
from tests.widgets import small

pytestmark = pytest.mark.share(2, of="file")

# A step of plain JAX, as a reader has it; `hold` is what the form says of places inside.
STEP = """
import jax.numpy as jnp, optax

def step(params, opt_state, x):
    def loss(params):
        hidden = hold(jnp.tanh(x @ params["up"]), "hidden")
        return jnp.mean((hidden @ params["down"] - x) ** 2)
    value, grads = jax.value_and_grad(loss)(params)
    grads = {name: hold(grad, "grads/params/" + name) for name, grad in grads.items()}
    updates, opt_state = optax.adamw(1e-2).update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, value
"""
AFTER = '''
import sys, json
import numpy as np
assert not any(name.startswith("meshlab") for name in sys.modules)

def hold(x, place):
    held = globals().get("inside", {})
    return jax.lax.with_sharding_constraint(x, held[place]) if place in held else x

step = jit(step)
draw = np.random.default_rng(0)
params = {"up": draw.normal(size=(16, 32)).astype("f"), "down": draw.normal(size=(32, 16)).astype("f")}
arguments = params, optax.adamw(1e-2).init(params), draw.normal(size=(8, 16)).astype("f")
results = step(*arguments)
shards = {str(each.sharding.spec) for each in jax.tree.leaves(results)}
leaves = [np.asarray(each).tolist() for each in jax.tree.leaves(results)]
print(json.dumps({"results": leaves, "hlo": step.lower(*arguments).compile().as_text(), "shards": sorted(shards)}))
'''  # fmt: skip
LAYOUTS: dict[str, Any] = {
    "data": {"batch": "data"},
    "data and model": {"batch": "data", "ffn": "model"},
    "fsdp": {"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}},
    "inside": {"batch": "data", "hidden": {"ffn": "model"}, "grads/*": {"ffn": "model"}},
}


def traced() -> ml.Program:
    scope: dict[str, Any] = {"jax": jax, "hold": lambda x, place: x if "/" in place else ml.tag(x, place)}
    exec(STEP, scope)
    shapes = {"up": (16, 32), "down": (32, 16)}
    params = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    named = ml.named(params, {"up": "embed ffn", "down": "ffn embed"})
    state = jax.eval_shape(optax.adamw(1e-2).init, params)
    return ml.trace(scope["step"], named, state, ml.named(jax.ShapeDtypeStruct((8, 16), jnp.float32), "batch embed"))


def ran(text: str) -> dict[str, Any]:
    """Runs a text without meshlab on eight simulated devices, as a kernel would that was asked for nothing before."""
    devices = 'import jax\njax.config.update("jax_num_cpu_devices", 8)\njax.config.update("jax_platforms", "cpu")\n'
    done = subprocess.run(
        [sys.executable, "-P", "-c", devices + text], capture_output=True, text=True, cwd="/", env=_bare(), check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _bare() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "XLA_FLAGS")}


@pytest.mark.parametrize("name", LAYOUTS)
def test_it_runs_without_meshlab_with_the_same_results_and_collectives(name: str) -> None:
    explorer = explore(traced(), ml.mesh(data=2, model=4), LAYOUTS[name])
    text = explorer.form("jit")
    assert "meshlab" not in text
    assert "optax._src" not in text
    answer = ran(text + STEP + AFTER)
    draw = np.random.default_rng(0)
    params = {"up": draw.normal(size=(16, 32)).astype("f"), "down": draw.normal(size=(32, 16)).astype("f")}
    arguments = params, optax.adamw(1e-2).init(params), draw.normal(size=(8, 16)).astype("f")
    expected = jax.tree.leaves(explorer.plan.run(*arguments))
    for ours, theirs in zip(expected, answer["results"], strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=2e-5, atol=2e-6)
    # What is sent is what `plan.xla` said that XLA makes of the same constraints.
    sent = totals(read_collectives(answer["hlo"], explorer.plan.mesh.axes, unknown_trips=1))
    assert sent == explorer.plan.xla("stored").inserted
    if name == "data":  # where XLA chooses as the plan does
        assert sent == explorer.plan.check().compiled
    assert len(answer["shards"]) > 1


def test_places_inside_are_held_with_their_lines() -> None:
    explorer = explore(traced(), ml.mesh(data=2, model=4), LAYOUTS["inside"])
    text = explorer.form("jit")
    scope: dict[str, Any] = {}
    exec(text, scope)
    specs = {place: each.spec for place, each in scope["inside"].items()}
    plan = explorer.plan
    assert set(specs) == {"hidden", "grads/params/up", "grads/params/down"}
    for place, spec in specs.items():
        assert [each or () for each in spec] == [split[0] if split else () for split in plan.spec(place).splits]
    assert "inside" not in explore(traced(), ml.mesh(data=2), "batch:data").form("jit")


def test_lines_of_places_are_the_users(tmp_path: Path) -> None:
    source = tmp_path / "step.py"
    source.write_text("import meshlab as ml\n\ndef step(x):\n    return ml.tag(x * 2, 'twice') + 1\n")
    scope: dict[str, Any] = {}
    exec(compile(source.read_text(), str(source), "exec"), scope)
    program = ml.trace(scope["step"], ml.f32[ml.dims(batch=8)])
    text = explore(program, ml.mesh(data=2), {"twice": {"batch": "data"}}).form("jit")
    assert '"twice": NamedSharding(mesh, P("data")),  # step.py:4' in text


def test_values_of_one_place_that_are_stored_otherwise_are_listed() -> None:
    a, b = ml.dims(a=4, b=8)

    def step(x: ml.Tensor, y: ml.Tensor) -> Any:
        x, y = ml.tag((x * 2, y * 2), "both")
        return x + 1, y + 1

    form = explore(ml.trace(step, ml.f32[a,], ml.f32[b, a]), ml.mesh(data=2), {"both": {"a": "data"}}).form("jit")
    assert form.lost[0] == 'at `both` several values are stored, each differently: P("data"), P(None, "data")'
    assert "inside" not in form


def test_what_jit_has_not_is_listed() -> None:
    explorer = explore(small.program(), ml.mesh(data=2, micro=ml.serial(2)), "batch:data+micro")
    form = explorer.form("jit")
    assert form.lost[0] == "`micro` is a serial axis: the function must loop over its blocks itself"
    assert '("data",)' in form
    assert form.cell.splitlines()[0] == f"# jit cannot express: {form.lost[0]}"
    assert form.lost[-1].startswith("the shardings of intermediate values: XLA")


@pytest.mark.parametrize("wrap", [functools.partial, lambda fn: lambda x: fn(x)], ids=["partial", "lambda"])
def test_a_function_without_a_name_is_called_step(wrap: Any) -> None:
    explorer = explore(ml.trace(wrap(lambda x: x * 2), ml.f32[ml.dims(batch=8)]), ml.mesh(data=2), "batch:data")
    assert "\n# step = jit(step)\n" in explorer.form("jit")
    assert [form["text"] != "" for form in forms_view(explorer)["forms"]] == [True] * len(FORMS)


def test_a_mesh_without_axes_is_written(program: Any) -> None:
    scope: dict[str, Any] = {}
    exec(explore(program, ml.mesh()).form("jit"), scope)
    assert scope["mesh"].size == 1


def named_tuples(tree: Any) -> set[type]:
    inner = set[type]().union(*map(named_tuples, tree)) if isinstance(tree, tuple) else set[type]()
    return inner | ({type(tree)} if hasattr(tree, "_fields") else set())


@pytest.mark.parametrize("kind", ["adamw", "sgd", "lion", "adafactor", "rmsprop"])
def test_states_of_optax_are_made_by_their_public_names(kind: str) -> None:
    tree = jax.eval_shape(getattr(optax, kind)(1e-3).init, {"w": jax.ShapeDtypeStruct((4, 4), jnp.float32)})
    assert {imported_from(each) for each in named_tuples(tree)} == {"optax"}


def test_a_type_without_a_public_name_is_imported_from_nowhere() -> None:
    Hidden = namedtuple("Hidden", "a")
    Hidden.__module__ = "optax._src.nowhere"
    assert imported_from(Hidden) == ""
    Local = namedtuple("Local", "a")
    assert imported_from(Local) == ""


def test_forms_have_names(program: Any) -> None:
    explorer: Explorer = explore(program, ml.mesh(data=2, model=4), "batch:data")
    for name in FORMS:
        assert explorer.form(name.upper()) == explorer.form(name)
    assert json.loads(explorer.form("json")) == {"batch": "data"}
    with pytest.raises(ExplorerError, match=re.escape("There is no form 'jitt' of a layout. Did you mean `jit`?")):
        explorer.form("jitt")
    with pytest.raises(ExplorerError, match="There is no form 7 of a layout"):
        explorer.form(7)  # type: ignore[arg-type]
    explorer.load({"params/*": {"classes": "data"}})
    with pytest.raises(ExplorerError, match="Mesh TensorFlow says nothing of this layout:\n  1. at `params/"):
        explorer.form("Mesh TensorFlow")
