"""Programs of other libraries' users, a few names given by globs: explored as they are, every axis with a name."""

import functools
import subprocess
import sys

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.imported import linen_encoder
from meshlab.models.imported.full_sizes import Config
from meshlab.models.zoo import imported_models
from tests.models import plain

pytestmark = pytest.mark.share(3, of="file")

LAYERS = 2
NAMES = ("plain_gpt", "linen_encoder", "nnx_mixer", "equinox_decoder")
MODELS = {(m.name, layers): m for layers in (1, LAYERS) for m in imported_models(Config(layers=layers))}
FSDP = {
    "plain_gpt": {"params/*": {"embed": "x"}, "opt_state/*": {"embed": "x"}},
    "linen_encoder": {"state/*": {"embed": "x"}},
    "nnx_mixer": {"state/*": {"embed": "x"}},
    "equinox_decoder": {"params/*": {"embed": "x"}, "opt_state/*": {"embed": "x"}},
}
TENSOR = {name: {"heads": "x", "ffn": "x"} for name in NAMES} | {"nnx_mixer": {"mixing": "x", "ffn": "x"}}
LAYOUTS = {
    "data": {name: {"batch": "x"} for name in NAMES},
    "fsdp": {name: {"batch": "x"} | stored for name, stored in FSDP.items()},
    "tensor": TENSOR,
}
X4 = ml.mesh(x=4)
# The residual stream, [batch, seq, embed], in bytes of the dtype that is computed in.
RESIDUAL = {name: 8 * 16 * 16 * (2 if name == "linen_encoder" else 4) for name in NAMES}

each = pytest.mark.parametrize("name", NAMES)


@functools.cache
def traced(name, layers=1):
    return MODELS[name, layers].trace()


@functools.cache
def data(name):
    return MODELS[name, 1].data(0)


def shapes(tree):
    return jax.tree.structure(tree), [(tuple(leaf.shape), leaf.dtype) for leaf in jax.tree.leaves(tree)]


def payload(plan, *kinds):
    return sum(c.payload_bytes * c.times for c in plan.collectives if c.kind in kinds)


def test_no_library_is_imported_before_a_model_is_asked_for():
    code = "import sys, meshlab.models.zoo; print(sorted({'flax', 'equinox', 'optax'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.share(5)
@each
def test_the_library_computes_what_is_traced(name):
    model = MODELS[name, 1]
    assert shapes(model.shapes) == shapes(data(name))
    for leaf in jax.tree.leaves(jax.jit(model.step)(*data(name))):
        assert np.all(np.isfinite(leaf))


@each
@pytest.mark.parametrize("layers", [1, LAYERS])
def test_a_few_globs_name_nearly_every_axis(name, layers):
    program = traced(name, layers)
    assert plain.named_share(program) > 0.99
    assert set(program.dims) <= {"batch", "seq", "embed", "heads", "head", "ffn", "mixing", "vocab"}


@pytest.mark.parametrize(
    ("name", "place", "dims"),
    [
        ("plain_gpt", "params/layers/0/query", ("embed", "heads*head")),
        ("plain_gpt", "opt_state/1/0/nu/layers/0/output", ("heads*head", "embed")),
        ("linen_encoder", "state/opt_state/0/mu/Layer_0/Dense_0/kernel", ("embed", "ffn")),
        ("nnx_mixer", "state/1/opt_state/0/v_row/layers/0/positions/up/kernel/value", ("seq",)),
        ("nnx_mixer", "state/1/opt_state/0/v_col/layers/0/positions/up/kernel/value", ("mixing",)),
        ("equinox_decoder", "opt_state/0/v_col/layers/0/attention/output_proj/weight", ("heads*head",)),
    ],
)
def test_what_the_optimizer_keeps_is_named_by_the_rules(name, place, dims):
    assert traced(name).place(place).dims == dims


@each
def test_what_is_returned_is_stored_as_the_next_steps_argument(name):
    program = traced(name)
    wanted = {"linen_encoder": {"state": 0}, "nnx_mixer": {"state": 1}}
    assert program.carry == wanted.get(name, {"params": 1, "opt_state": 2})
    plan = program.plan(X4, LAYOUTS["fsdp"][name])
    carried = [(a.place, c) for a in program.arguments for c in program.carries if c.parameter == a.parameter]
    for place, carry in carried:
        assert plan.spec(carry.place + place[len(carry.parameter) :]) == plan.spec(place)


@pytest.mark.share(8)
@each
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_the_literature_are_exact(name, layout):
    plan = traced(name).plan(X4, LAYOUTS[layout][name])
    report = plan.check(*data(name))
    assert report.ok, f"{name}, {layout}:\n{report}"
    # The library's own trees come back: a TrainState, an nnx.State, an Equinox module.
    assert shapes(plan.run(*data(name))) == shapes(jax.eval_shape(MODELS[name, 1].step, *data(name)))


@pytest.mark.share(8)
@each
def test_random_layouts_are_exact(name):
    program = traced(name)
    for mesh, layout in draw(program, seed=2026, count=3):
        report = program.plan(mesh, layout).check(*data(name))
        assert report.ok, f"{name}, {layout} on {mesh}:\n{report}"
    jax.clear_caches()


@each
def test_data_parallelism_reduces_each_gradient_once(name):
    program = traced(name, LAYERS)
    plan = program.plan(X4, "batch:x")
    stored = {"linen_encoder": "state/params/", "nnx_mixer": "state/0/"}.get(name, "params/")
    parameters = sum(program.value(a.value).nbytes for a in program.arguments if a.place.startswith(stored))
    reduced = payload(plan, "all-reduce")
    assert {c.kind for c in plan.collectives} == {"all-reduce"}
    if name == "linen_encoder":
        # What is computed in 16 bits is reduced in 16.
        assert parameters / 2 < reduced - 4 < parameters
    else:
        assert reduced == parameters + 4


@each
def test_tensor_parallelism_is_that_of_megatron(name):
    plan = traced(name, LAYERS).plan(X4, TENSOR[name])
    assert {c.kind for c in plan.collectives} == {"all-reduce"}
    large = [c for c in plan.collectives if c.payload_bytes == RESIDUAL[name]]
    backward = [c for c in large if "backward" in c.because]
    assert len(large) == 4 * LAYERS
    assert len(backward) == 2 * LAYERS
    # The rest is the optimizer's: norms of what is split, and means over it.
    assert all(c.payload_bytes <= 64 for c in plan.collectives if c not in large)


@each
def test_fsdp_scatters_gradients_and_gathers_weights(name):
    program = traced(name, LAYERS)
    plan = program.plan(X4, LAYOUTS["fsdp"][name])
    for argument in program.arguments:
        dims = program.place(argument.place).dims
        stored = argument.parameter in ("params", "opt_state", "state") and "embed" in dims
        assert plan.spec(argument.place).splits.count(("x",)) == (stored or "batch" in dims)
    assert {c.kind for c in plan.collectives} == {"all-reduce", "all-gather", "reduce-scatter"}
    backward = {c.dims for c in plan.collectives if c.kind == "all-reduce" and "backward" in c.because}
    # A table that is looked up by positions has its gradient written from what is whole.
    assert not {dims for dims in backward if "embed" in dims} - {("seq", "embed")}


@pytest.mark.parametrize("name", ["plain_gpt", "linen_encoder", "equinox_decoder"])
def test_self_attention_cuts_its_sequence(name):
    program = traced(name)
    cut = {n for v in program.values for n in v.dims if n and n.startswith("~seq")}
    assert "~seq" in cut
    assert "~seq" not in program.dims
    scores = [v for v in program.values if {"seq", "heads"} <= set(v.dims) and cut & set(v.dims)]
    assert scores


def test_a_cut_can_be_renamed_and_split():
    program = traced("plain_gpt").rename({"~seq": "kv"})
    assert program.dims["kv"] == 16
    plan = program.plan(ml.mesh(x=2, y=2), "seq:x kv:y")
    scores = next(v for v in program.values if v.dims == ("batch", "heads", "seq", "kv"))
    assert plan.spec(scores) == ml.Spec(((), (), ("x",), ("y",)))
    report = plan.check(*data("plain_gpt"))
    assert report.ok, report


SWAPPED = linen_encoder.NAMES | {"*/Dense_0/kernel": "ffn embed"}
DENSE = "argument `state/params/Layer_0/Dense_0/kernel`"


def swapped(config):
    model = next(m for m in imported_models(config) if m.name == "linen_encoder")
    state, *inputs = model.shapes
    arrays = jax.tree.map(lambda leaf: getattr(leaf, "array", leaf), state)
    return model.step, (ml.named(arrays, SWAPPED), *inputs)


def test_names_on_the_wrong_axes_are_told_with_both_places():
    step, arguments = swapped(Config(layers=1))
    with pytest.raises(ml.DimError, match=f"`embed` has size 16 at argument `[^`]*` and size 32 at {DENSE}"):
        ml.trace(step, *arguments)
    step, arguments = swapped(Config(layers=1, ffn=16))
    with pytest.raises(ml.TraceError) as caught:
        ml.trace(step, *arguments)
    message = str(caught.value)
    assert "Two names meet on one axis: " in message
    for place in ("`ffn` (named at argument `state/params/", "`embed` (named at argument `state/params/"):
        assert place in message
    # The line that computes with both.
    assert "linen_encoder.py:" in message
