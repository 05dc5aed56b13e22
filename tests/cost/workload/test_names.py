"""A name never changes a cost: what made-up dims are called changes no time, no peak, no attention that is found."""

import random

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.cost.workload.attention import masked
from meshlab.engine.attention.scores import attentions, scores_of
from meshlab.engine.code.operations import walk
from meshlab.models import zoo
from tests import checkpointed

MODELS = {model.name: model.trace for model in (*zoo.models(), *zoo.imported_models())}
# Most models name all that they have: nothing of theirs can be renamed.
UNNAMED = [
    "diffusion",
    "diffusion_sgd",
    "equinox_decoder",
    "linen_encoder",
    "plain_gpt",
    "state_space",
    "state_space_adamw",
]
PROGRAMS = {name: MODELS[name] for name in UNNAMED} | checkpointed.PROGRAMS
MACHINES = ml.mesh("v5e:1x1"), ml.mesh("h100")


def costs(program, mesh):
    """All that may not depend on a name."""
    plan, kinds = program.plan(mesh), masked(program)
    stored = plan.memory.given("stored")
    return {
        "time": (plan.time.estimate, plan.time.lower, plan.time.upper),
        "FLOPs": (plan.time.flops, plan.time.model_flops),
        "peak": (plan.memory.peak_bytes, plan.memory.donated.peak_bytes, stored.peak_bytes),
        "parts": dict(plan.memory.parts),
        "attention": plan.time.scenario.attention,
        "scores": {value: kind in kinds for value, kind in scores_of(program).items()},
    }


def otherwise(program, draw):
    """The program with some of its made-up dims called otherwise: each a name of its own, or those of one size one."""
    some = draw.sample(list(program.made_up), draw.randint(1, len(program.made_up)))
    alike = {name: f"of_{program.made_up[name]}" for name in some}
    try:
        return program.rename(alike)
    except ml.DimError:  # two of them stand in one value
        return program.rename({name: f"other_{number}" for number, name in enumerate(some)})


@pytest.mark.share(8)
@pytest.mark.parametrize("name", PROGRAMS)
def test_renaming_what_nobody_named_changes_no_cost(name):
    program, draw = PROGRAMS[name](), random.Random()
    seed = draw.randrange(2**32)
    draw.seed(seed)
    for mesh in MACHINES:
        before = costs(program, mesh)
        for _ in range(3):
            after = otherwise(program, draw)
            assert after.made_up.keys() < program.made_up.keys()
            assert costs(after, mesh) == before, (seed, after.renames)


@pytest.mark.share(12)
@pytest.mark.parametrize("name", MODELS)
def test_the_other_models_have_nothing_to_rename(name):
    assert bool(MODELS[name]().made_up) == (name in UNNAMED)


@pytest.mark.parametrize("name", checkpointed.PROGRAMS)
def test_what_is_computed_again_is_called_as_it_was(name):
    """Layers that are written out have a name for their keys each, a scan has one for all."""
    program = checkpointed.PROGRAMS[name]()
    layers = sum(made.startswith("~seq") for made in program.made_up)
    assert layers == len(attentions(program)) == (2 if name in checkpointed.WRITTEN_OUT else 1)
    plan = program.plan(ml.mesh("v5e:1x1"))
    # No value in memory is as large as the scores.
    assert plan.memory.peak_bytes + checkpointed.SCORES / 2 < plan.memory.given("stored").peak_bytes


def test_attention_under_checkpoint_is_fused():
    """The size of a small model's layer: its time and its peak are those of a fused kernel."""

    def block(w, x):
        q, k, v = (jnp.einsum("bse,ehd->bshd", x, w[name]) for name in "qkv")
        shares = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k) * 64**-0.5)
        return x + jnp.einsum("bshd,hde->bse", jnp.einsum("bhst,bthd->bshd", shares, v), w["o"])

    def step(w, x):
        value, grads = jax.value_and_grad(lambda w: jnp.square(jax.checkpoint(block)(w, x)).mean())(w)
        return checkpointed.descent(w, grads), value

    w = {name: jax.ShapeDtypeStruct((8, 64, 512) if name == "o" else (512, 8, 64), jnp.float32) for name in "qkvo"}
    x = ml.named(jax.ShapeDtypeStruct((8, 1024, 512), jnp.float32), "batch seq embed")
    plan = ml.trace(step, ml.named(w, checkpointed.WEIGHTS), x).plan(ml.mesh("v5e:1x1"))
    assert plan.time.estimate == pytest.approx(1.19e-3, rel=0.01)
    assert plan.memory.peak_bytes == pytest.approx(72 * 2**20, rel=0.01)


@jax.custom_vjp
def by_hand(q, k, v):
    """Attention whose backward pass computes the scores again."""
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k)), v)


def _forward(q, k, v):
    return by_hand(q, k, v), (q, k, v)


def _backward(saved, grad):
    q, k, v = saved
    shares = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k))
    back = jnp.einsum("bshd,bthd->bhst", grad, v)
    back = shares * (back - (back * shares).sum(-1, keepdims=True))
    return (
        jnp.einsum("bhst,bthd->bshd", back, k),
        jnp.einsum("bhst,bshd->bthd", back, q),
        jnp.einsum("bhst,bshd->bthd", shares, grad),
    )


by_hand.defvjp(_forward, _backward)


@pytest.mark.parametrize("again", [lambda layer: layer, jax.checkpoint], ids=["as it is", "under checkpoint"])
def test_scores_that_a_backward_pass_by_hand_computes_again_are_called_as_the_first(again):
    def layer(w, x):
        q, k, v = (jnp.einsum("bse,ehd->bshd", x, w[name]) for name in "qkv")
        return x + jnp.einsum("bshd,hde->bse", by_hand(q, k, v), w["o"])

    program = checkpointed.trained(again(layer), checkpointed.weights())
    assert list(program.made_up) == ["~seq"]
    assert costs(program.rename({"~seq": "kv"}), MACHINES[0]) == costs(program, MACHINES[0])


def test_a_second_run_whose_first_nobody_reads_is_recognised():
    """Of a gradient whose loss is not returned only what is computed again makes scores."""
    layer = jax.checkpoint(checkpointed.attention)
    program = ml.trace(jax.grad(lambda w, x: layer(w, x).sum()), checkpointed.weights(), checkpointed.X)
    assert len(attentions(program)) == len(masked(program)) == 1


def test_equal_values_of_different_dims_stay_apart():
    """The positions of the queries and of the keys are the same numbers, in the first run and in the second."""
    seq, kv, head = ml.dims(seq=8, kv=8, head=4)

    def layer(w, x):
        ordered = ml.arange(kv) <= ml.arange(seq)
        scores = ml.dot(ml.sin(x * w), ml.sin(x * w).rename(seq="kv"), head)
        return (ml.sin(ml.where(ordered, scores, 0.0)) + ml.arange(kv) * 1.0).sum("kv", "seq")

    program = ml.trace(jax.grad(lambda w, x: ml.checkpoint(layer)(w, x)), ml.f32[head], ml.f32[seq, head])
    assert any(operation.rematerialised for operation in walk(program.code.block))
    assert dict(program.dims) == {"head": 4, "seq": 8, "kv": 8}
    assert not program.made_up
