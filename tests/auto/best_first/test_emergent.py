"""What practice found by hand is found from dims alone, each with the machine and the size at which it flips."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.auto.best_first.importance import shares
from meshlab.auto.best_first.pricer import Pricer
from meshlab.auto.best_first.space import search_space
from meshlab.cost.workload.options import USUAL
from meshlab.models.language import moe
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from tests.auto.best_first.programs import MODELS, llama3, mixtral

pytestmark = pytest.mark.share(6, of="file")

TRAINED = ("params/*", "opt_state/*")


@pytest.mark.parametrize(("batch", "found"), [(8192, "ffn"), (16_384, "ffn"), (65_536, "batch"), (131_072, "batch")])
def test_data_parallel_where_activations_are_more_than_weights(batch: int, found: str) -> None:
    """In parts of the batch 2·ffn·embed gradients are added up, in parts of ffn batch·embed activations."""
    program = MODELS["mlp_sgd"].trace().resize(batch=batch, ffn=16_384, embed=4096)
    mesh = ml.mesh("v5p:2x2x2", data=8)
    assert [*ml.auto.layout(program, mesh, memory=None).layout.rules] == [found]
    assert (found == "batch") == (batch > 2 * program.dims["ffn"])
    sent = {dim: program.plan(mesh, f"{dim}:data").wire_bytes for dim in ("batch", "ffn")}
    assert sent["ffn"] / sent["batch"] == pytest.approx(batch / (2 * program.dims["ffn"]), rel=1e-6)


def test_data_parallel_for_small_models_and_fsdp_where_memory_binds() -> None:
    mesh, program = ml.mesh("v5p:2x2x2", data=8), MODELS["mlp_adamw"].trace().resize(batch=65_536, ffn=8192, embed=2048)
    assert ml.auto.layout(program, mesh).layout.rules == {"batch": ("data",)}
    mesh = ml.mesh("v5e:16x16", data=256)
    assert not llama3("8b", 256).plan(mesh, "batch:data").memory.donated.fits
    large = ml.auto.layout(llama3("8b", 256), mesh)
    assert large.layout.rules == {"batch": ("data",)}
    assert large.layout.places == {place: {"embed": ("data",)} for place in TRAINED}


def test_hybrid_sharding_where_a_copy_fits_a_part_of_the_devices() -> None:
    choice = ml.auto.layout(llama3("8b", 64), ml.mesh("v5p:4x4x4", data=16, model=4))
    assert choice.layout.rules == {"batch": ("data", "model")}
    assert {place: rules["embed"] for place, rules in choice.layout.places.items()} == dict.fromkeys(TRAINED, ("data",))
    assert choice.proof.gap < 0.01
    assert all(price.seconds >= choice.proof.value / 1.006 for price in choice.alternatives)


def test_context_parallel_where_the_batch_is_as_small_as_one_axis() -> None:
    choice = ml.auto.layout(llama3("8b", 64), ml.mesh("v5e:16x16", data=64, model=4))
    assert choice.layout.rules == {"batch": ("data",), "seq": ("model",)}


def test_tensor_and_sequence_and_vocabulary_parallelism_beside_fsdp_where_batches_are_small() -> None:
    choice = ml.auto.layout(llama3("70b", 32), ml.mesh("v5p:4x4x8", data=32, model=4))
    split = {dim: ("model",) for dim in ("heads", "ffn", "vocab")}
    assert choice.layout.rules == {"batch": ("data",)} | split
    assert choice.layout.places["residual"] == {"seq": ("model",)}
    assert choice.layout.places["params/*"] == {"embed": ("data",)}


@pytest.mark.parametrize(
    ("batch", "vocab", "found"),
    [(2048, 4096, "vocab"), (8192, 4096, "batch"), (8192, 32_768, "vocab"), (131_072, 32_768, "batch")],
)
def test_vocabulary_parallelism_where_the_vocabulary_is_longer_than_the_batch(
    batch: int, vocab: int, found: str
) -> None:
    """In parts of the vocabulary batch·hidden gradients are added up, in parts of the batch (vocab + embed)·hidden."""
    mesh, program = ml.mesh("v5p:2x2x2", data=8), head(batch, vocab)
    assert [*ml.auto.layout(program, mesh, memory=None).layout.rules] == [found]
    assert (found == "vocab") == (batch < vocab + program.dims["embed"])
    sent = {dim: program.plan(mesh, f"{dim}:data").wire_bytes for dim in ("batch", "vocab")}
    # Of each row besides: its maximum, its sum, and the logit of its target.
    assert sent["vocab"] / sent["batch"] == pytest.approx(batch / (vocab + program.dims["embed"]), rel=2e-3)


def head(batch: int, vocab: int) -> ml.Program:
    """A step of a small layer and a classifier over a vocabulary."""
    Batch, Embed, Hidden, Vocab = ml.dims(batch=batch, embed=128, hidden=4096, vocab=vocab)

    def loss(params, x, targets):
        return ml.cross_entropy(ml.dot(ml.dot(x, params["mix"], Embed), params["head"], Hidden), targets, Vocab).mean()

    def step(params, x, targets):
        value, grads = jax.value_and_grad(loss)(params, x, targets)
        return value, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)

    params = {"mix": ml.f32[Embed, Hidden], "head": ml.f32[Hidden, Vocab]}
    return ml.trace(step, params, ml.f32[Batch, Embed], ml.i32[Batch])


@pytest.mark.parametrize(("batch", "found"), [(8, "experts"), (1024, "groups")])
def test_expert_parallelism_where_experts_weigh_more_than_tokens(batch: int, found: str) -> None:
    """Tokens go to their experts and back, or gradients of all experts are added up, and only the first grow."""
    config = moe.Config(batch, seq=512, vocab=1024, embed=1024, heads=8, group=1, head=128, ffn=8192, experts=8)
    program = ml.trace(training.sgd_step(moe.loss), shapes(moe.init, config), *moe.inputs(config))
    mesh = ml.mesh("v5p:2x2x2", data=8)
    rules = ml.auto.layout(program, mesh, memory=None, tolerance=0.1).layout.rules
    assert {dim for dim in ("experts", "groups") if dim in rules} == {found}
    assert rules["batch"] == ("data",)
    by_experts, by_groups = (program.plan(mesh, f"batch:data {dim}:data") for dim in ("experts", "groups"))
    assert (by_experts.time.estimate < by_groups.time.estimate) == (found == "experts")


@pytest.mark.nightly
def test_expert_parallelism_for_experts() -> None:
    choice = ml.auto.layout(mixtral(), ml.mesh("v5p:4x4x4", data=8, model=8), tolerance=0.05)
    rules = choice.layout.rules
    assert rules["experts"] == ("model",)
    assert set(rules["batch"]) == {"data", "model"}
    assert any(c.kind == "all-to-all" and c.axes == ("model",) for c in choice.plan.collectives)


@pytest.mark.parametrize(("edges", "found"), [(2**12, "nodes"), (2**20, "edges")])
def test_edges_of_a_graph_are_split_where_there_are_many(edges: int, found: str) -> None:
    """No matmul and no parameter has them: messages are gathered along them, and added up, of each device's edges."""
    nodes, width = 2**16, 60  # a width that the axis does not divide

    def loss(w, x, senders, receivers):
        messages = jnp.take(jnp.tanh(x @ w), senders, axis=0)
        return jnp.square(jax.ops.segment_sum(messages, receivers, num_segments=nodes)).mean()

    def step(w, x, senders, receivers):
        value, gradient = jax.value_and_grad(loss)(w, x, senders, receivers)
        return value, w - 1e-3 * gradient

    shapes = ((width, width), (nodes, width), (edges,), (edges,))
    dtypes, names = ("float32", "float32", "int32", "int32"), ("hidden out", "nodes hidden", "edges", "edges")
    arguments = (jax.ShapeDtypeStruct(*each) for each in zip(shapes, dtypes, strict=True))
    program = ml.trace(step, *map(ml.named, arguments, names))
    mesh = ml.mesh("v5e:2x4", data=8)
    assert (share(program, mesh, "edges") > 0.5) == (found == "edges")
    choice = ml.auto.layout(program, mesh)
    assert choice.layout.rules == {found: ("data",)}
    assert ("`edges`" in choice.proof.not_searched) == (found == "nodes")
    by_edges, by_nodes = (program.plan(mesh, f"{dim}:data").time.estimate for dim in ("edges", "nodes"))
    assert (by_edges < by_nodes) == (found == "edges")


def share(program: ml.Program, mesh: ml.Mesh, dim: str) -> float:
    """How much of the step that splits nothing has a dim."""
    unsplit = Pricer(program, mesh, USUAL).price(ml.Layout.of(""))
    assert unsplit is not None
    return shares(unsplit)[dim]


def test_what_little_of_a_step_has_is_left_whole() -> None:
    mesh = ml.mesh("v5p:4x4x4", data=16, model=4)
    assert share(llama3(), mesh, "half") < 0.01
    assert "half" in search_space(Pricer(llama3(), mesh, USUAL)).left_out
    assert share(llama3(), mesh, "seq") > 0.5
