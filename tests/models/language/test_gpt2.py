"""GPT-2 is the published model: its formula, its sizes, its parallelism by layouts alone."""

import jax
import jax.numpy as jnp
import pytest

from meshlab.models.language import gpt2
from tests.models import plain

SMALL = gpt2.Config()


def raw_gpt2(params, tokens, targets):
    x = params["embedding"][tokens] + params["positions"]
    for w in plain.layers_of(params["layers"]):
        y = plain.layer_norm(x, *w["attention_norm"])
        q, k, v = (jnp.einsum("bse,ehd->bhsd", y, w[n]) + w[f"{n}_bias"][:, None] for n in ("query", "key", "value"))
        scores = jnp.einsum("bhsd,bhtd->bhst", q, k) / jnp.sqrt(q.shape[-1])
        weights = jax.nn.softmax(jnp.where(jnp.tri(x.shape[1], dtype=bool), scores, -jnp.inf))
        x = x + jnp.einsum("bhst,bhtd,hde->bse", weights, v, w["output"]) + w["output_bias"]
        y = plain.layer_norm(x, *w["ffn_norm"])
        x = x + jax.nn.gelu(y @ w["up"] + w["up_bias"]) @ w["down"] + w["down_bias"]
    return plain.nll(plain.layer_norm(x, *params["norm"]) @ params["embedding"].T, targets)


def test_it_equals_plain_jax():
    numbers = plain.numbers(gpt2.init, gpt2.inputs, SMALL, SMALL.vocab)
    plain.same(gpt2.loss, raw_gpt2, *numbers)


@pytest.mark.parametrize(("config", "published"), [("small", 124_439_808), ("xl", 1_557_611_200)])
def test_it_has_the_published_number_of_parameters(config, published):
    assert plain.count(gpt2.init, getattr(gpt2.Config, config)()) == published


def test_scanned_and_unrolled_are_one_model():
    plain.looped(gpt2.loss, gpt2.init, gpt2.inputs, SMALL, SMALL.vocab)


def test_layouts_train_it():
    layouts = ("batch:data", "batch:data heads:model ffn:model vocab:model", "batch:data seq:model")
    plain.trains(gpt2.loss, gpt2.init, gpt2.inputs, SMALL, *layouts, checked=layouts[1])
