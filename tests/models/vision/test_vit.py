"""ViT is the published model, though its patches are never made into a sequence."""

import jax
import jax.numpy as jnp
import pytest

from meshlab.models.vision import vit
from tests.models import plain

SMALL = vit.Config()
LAYOUTS = ("batch:data", "batch:data heads:model ffn:model", "batch:data rows:model")


def raw_vit(params, images, labels):
    """As published: one sequence of the class token and all patches."""
    batch, rows, _, cols, _, _ = images.shape
    patches = jnp.einsum("brpcqk,pqke->brce", images, params["patch"]) + params["patch_bias"] + params["positions"]
    token = jnp.broadcast_to(params["token"] + params["token_position"], (batch, 1, patches.shape[-1]))
    x = jnp.concatenate([token, patches.reshape(batch, rows * cols, -1)], 1)
    for w in plain.layers_of(params["layers"]):
        y = plain.layer_norm(x, *w["attention_norm"], epsilon=1e-6)
        q, k, v = (jnp.einsum("bse,ehd->bhsd", y, w[n]) + w[f"{n}_bias"][:, None] for n in ("query", "key", "value"))
        scores = jax.nn.softmax(jnp.einsum("bhsd,bhtd->bhst", q, k) / jnp.sqrt(q.shape[-1]))
        x = x + jnp.einsum("bhst,bhtd,hde->bse", scores, v, w["output"]) + w["output_bias"]
        y = plain.layer_norm(x, *w["ffn_norm"], epsilon=1e-6)
        x = x + jax.nn.gelu(y @ w["up"] + w["up_bias"]) @ w["down"] + w["down_bias"]
    return plain.nll(
        plain.layer_norm(x[:, 0], *params["norm"], epsilon=1e-6) @ params["head"] + params["head_bias"], labels
    )


def test_it_equals_plain_jax_on_one_sequence():
    plain.same(vit.loss, raw_vit, *plain.numbers(vit.init, vit.inputs, SMALL, SMALL.classes))


@pytest.mark.parametrize(("config", "published"), [("b16", 86_567_656), ("l16", 304_326_632)])
def test_it_has_the_published_number_of_parameters(config, published):
    assert plain.count(vit.init, getattr(vit.Config, config)()) == published


def test_scanned_and_unrolled_are_one_model():
    plain.looped(vit.loss, vit.init, vit.inputs, SMALL, SMALL.classes)


def test_layouts_train_it():
    plain.trains(vit.loss, vit.init, vit.inputs, SMALL, *LAYOUTS, checked=LAYOUTS[2])
