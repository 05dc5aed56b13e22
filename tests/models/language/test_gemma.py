"""Gemma 2 is the published model, and its blocked window is a window over positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.models.language import gemma
from meshlab.models.parts import layers
from tests.models import plain

SMALL = gemma.Config()


def raw_layer(x, w, window):
    positions = jnp.arange(x.shape[1])
    y = plain.norm(x, 1 + w["attention_norm"])
    q = plain.rotate(jnp.einsum("bse,ehgd->bshgd", y, w["query"]), positions, 10_000.0)
    k = plain.rotate(jnp.einsum("bse,ehd->bshd", y, w["key"]), positions, 10_000.0)
    v = jnp.einsum("bse,ehd->bshd", y, w["value"])
    scores = 50.0 * jnp.tanh(jnp.einsum("bshgd,bthd->bhgst", q, k) / jnp.sqrt(q.shape[-1]) / 50.0)
    distance = positions[:, None] - positions
    weights = jax.nn.softmax(jnp.where((distance >= 0) & (distance < window), scores, -jnp.inf))
    y = jnp.einsum("bhgst,bthd,hgde->bse", weights, v, w["output"])
    x = x + plain.norm(y, 1 + w["attention_post_norm"])
    y = plain.norm(x, 1 + w["ffn_norm"])
    y = (jax.nn.gelu(y @ w["gate"]) * (y @ w["up"])) @ w["down"]
    return x + plain.norm(y, 1 + w["ffn_post_norm"])


def raw_gemma(params, tokens, targets):
    """The same on whole sequences: blocks and window are one axis."""
    window = tokens.shape[2]
    tokens, targets = (ids.reshape(ids.shape[0], -1) for ids in (tokens, targets))
    x = params["embedding"][tokens] * params["embedding"].shape[1] ** 0.5
    for w in plain.layers_of(params["layers"]):
        x = raw_layer(raw_layer(x, w["local"], window), w["global"], tokens.shape[1])
    logits = plain.norm(x, 1 + params["norm"]) @ params["embedding"].T
    return plain.nll(30.0 * jnp.tanh(logits / 30.0), targets)


def test_it_equals_plain_jax_on_whole_sequences():
    plain.same(gemma.loss, raw_gemma, *plain.numbers(gemma.init, gemma.inputs, SMALL, SMALL.vocab))


@pytest.mark.parametrize(("config", "published"), [("gemma2_2b", 2_614_341_888), ("gemma2_9b", 9_241_705_984)])
def test_it_has_the_published_number_of_parameters(config, published):
    assert plain.count(gemma.init, getattr(gemma.Config, config)()) == published


@pytest.mark.parametrize(("reach", "first"), [(gemma.local, 6), (gemma.everywhere, 0)])
def test_what_a_position_reads(reach, first):
    """Block 2, place 1 is position 9: with a window of 4 it reads 6 to 9."""
    dims = SMALL.dims("batch blocks window heads head")
    query, key, value = np.random.default_rng(0).normal(size=(3, *(dim.size for dim in dims))).astype(np.float32)

    @jax.jit
    @jax.grad
    def read(value):
        named = (ml.tensor(x, *dims) for x in (query, key, value))
        here = (ml.arange(SMALL["blocks"]) == 2) & (ml.arange(SMALL["window"]) == 1)
        return ml.where(here, layers.mix(*reach(*named)), 0.0).sum()

    positions = np.abs(read(value)).max(axis=(0, 3, 4)).reshape(-1)
    assert positions.nonzero()[0].tolist() == list(range(first, 10))


def test_scanned_and_unrolled_are_one_model():
    plain.looped(gemma.loss, gemma.init, gemma.inputs, SMALL, SMALL.vocab)


LAYOUTS = ("batch:data", "batch:data heads:model ffn:model vocab:model", "batch:data blocks:model")


def test_layouts_train_it():
    plain.trains(gemma.loss, gemma.init, gemma.inputs, SMALL, *LAYOUTS, checked=LAYOUTS[2])


def test_local_layers_ask_their_neighbour_for_a_block():
    plan = plain.descent_of(gemma.loss, gemma.init, gemma.inputs, SMALL).plan(plain.MESH, "blocks:model")
    moved = [
        (c.source and c.source.function, c.kind, c.payload_bytes) for c in plan.collectives if c.times == SMALL.pairs
    ]
    block = 8 * 4 * 4 * 4 * 4
    # Keys and values, forward, recomputed and backward: a block at a time, where global layers gather all.
    assert [nbytes for _, kind, nbytes in moved if kind == "collective-permute"] == [block] * 2 * 3
    assert {nbytes for _, kind, nbytes in moved if kind == "all-gather"} == {2 * block}
    assert "all-gather" not in {kind for function, kind, _ in moved if function == "local"}
