"""Attention that is written with arrays: made one operation where a layout needs that, and nowhere else."""

from __future__ import annotations

from collections import Counter

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.attention.recognise import around, positions, recognised, unnamed_keys
from meshlab.engine.attention.scores import attentions
from meshlab.engine.code.operations import walk
from meshlab.engine.errors import LayoutError
from meshlab.models.zoo import imported_models, models

pytestmark = pytest.mark.share(3, of="file")

SEQ, HEADS, DEPTH, EMBED = 32, 4, 8, 16
CP = ml.mesh(cp=4)
RING = "seq:cp kv:cp"

# --- models of the zoo ------------------------------------------------------------------------------------------------

ZOO = {model.name: model for model in (*models(), *imported_models())}
WITH_ATTENTION = [
    "block", "transformer", "transformer_sgd", "transformer_adamw", "gpt2", "gpt2_adamw", "llama", "llama_adamw",
    "llama_bfloat16", "llama_unrolled_adamw", "moe", "moe_sgd", "moe_switch", "moe_dropless", "plain_gpt",
    "equinox_decoder",
]  # fmt: skip
# Those of which something stays outside, and why.
OUTSIDE = {
    "diffusion": "keys have two dims of positions",
    "diffusion_sgd": "keys have two dims of positions",
    "vit": "keys have two dims of positions, and a class token beside them",
    "vit_bfloat16": "keys have two dims of positions, and a class token beside them",
    "gemma": "one softmax is over two blocks of keys, behind a soft cap",
    "gemma_sgd": "one softmax is over two blocks of keys, behind a soft cap",
    "t5": "a learned bias is added to the scores",
    "t5_adafactor": "a learned bias is added to the scores",
    "decoding": "there is one query, at a position that is an argument",
    "linen_encoder": "a mask depends on the tokens",
}


def traced(name: str) -> ml.Program:
    """A model whose keys have a name."""
    program = ZOO[name].trace()
    unnamed = unnamed_keys(program)
    return program.rename(dict.fromkeys(unnamed, "kv")) if unnamed else program


def test_each_model_with_attention_is_told():
    assert {name for name, model in ZOO.items() if attentions(model.trace())} == {*WITH_ATTENTION, *OUTSIDE}


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_no_scores_are_left(name: str):
    program = traced(name)
    (pair,) = around(program)
    inside = recognised(program, *pair)
    names = Counter(operation.name for operation in walk(inside.code.block))
    assert names["attention"]
    assert any(op.backward for op in walk(program.code.block)) == bool(names["attention_grad"])
    left = [value for value in inside.values if set(pair) <= set(inside.dims_of(value.number))]
    assert not left, left


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_outside_stays_as_it_is(name: str):
    program = traced(name)
    pairs = around(program)
    # The decoder of T5 attends to its encoder without a bias.
    assert pairs == ((("seq", "source_kv"),) if name.startswith("t5") else ())
    for pair in positions(program):
        if pair not in pairs and not name.startswith("t5"):
            assert recognised(program, *pair) is program


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("block", "length:cp memory_length:cp batch:data"),
        ("transformer_sgd", "seq:cp kv:cp batch:data heads:tp"),
        ("llama_unrolled_adamw", "seq:cp kv:cp batch:data"),
        ("llama_bfloat16", "seq:cp+tp kv:cp+tp"),
        ("moe_sgd", "seq:cp kv:cp batch:data"),
        ("plain_gpt", "seq:cp kv:cp batch:data heads:tp"),
        ("equinox_decoder", "seq:cp kv:cp batch:data heads:tp"),
    ],
)
def test_rings_of_models_are_exact(name: str, layout: str):
    program = traced(name)
    plan = program.plan(ml.mesh(data=2, cp=2, tp=2), layout)
    assert "collective-permute" in {c.kind for c in plan.collectives}
    report = plan.check()
    assert report.ok, report


@pytest.mark.share(4)
@pytest.mark.parametrize("name", ["transformer_sgd", "plain_gpt", "equinox_decoder"])
def test_rings_of_models_in_zigzag_order_are_exact(name: str):
    program, mesh = traced(name), ml.mesh(data=2, cp=2, tp=2)
    layout = ml.layouts.context_parallel(program, mesh, context="cp", kind="ring", balanced=True)
    assert str(layout) == "kv:zigzag(cp) seq:zigzag(cp)"
    plan = program.plan(mesh, layout & "batch:data heads:tp")
    assert any(c.value.startswith("halves of") for c in plan.collectives)
    report = plan.check()
    assert report.ok, report


def test_what_is_not_causal_or_gathered_is_not_balanced():
    def refused(name: str, kind: str) -> str:
        with pytest.raises(LayoutError, match="this layout has none") as caught:
            ml.layouts.context_parallel(traced(name), CP, kind=kind, balanced=True)
        return str(caught.value)

    assert refused("block", "ring").endswith("none. Leave balanced=True out.")
    assert 'Take kind="ring", for which attention is recognised here, write it as' in refused(
        "transformer_sgd", "gather"
    )


# --- modules, unmodified, beside FSDP ---------------------------------------------------------------------------------


def drawn(*shape: int, seed: int = 0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), "float32")


class FlaxBlock(nn.Module):
    """A block of Flax's own parts."""

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        mask = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(HEADS, use_bias=False)(y, mask=mask)
        return x + nn.Dense(EMBED)(nn.gelu(nn.Dense(32)(x)))


class EquinoxBlock(eqx.Module):
    """A block of Equinox's own parts, for one sequence."""

    attention: eqx.nn.MultiheadAttention
    mlp: eqx.nn.MLP

    def __init__(self, key: jax.Array):
        first, second = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(HEADS, EMBED, key=first)
        self.mlp = eqx.nn.MLP(EMBED, EMBED, 32, 1, key=second)

    def __call__(self, x):
        x = x + self.attention(x, x, x, mask=jnp.tril(jnp.ones((len(x), len(x)), bool)))
        return x + jax.vmap(self.mlp)(x)


def flax():
    block = FlaxBlock()
    params = block.init(jax.random.key(0), drawn(1, SEQ, EMBED))["params"]
    names = {
        "*query/kernel": "embed heads head",
        "*out/kernel": "heads head embed",
        "Dense_1/kernel": "embed ffn",
        "Dense_0/kernel": "ffn embed",
    }
    return lambda params, x: block.apply({"params": params}, x), params, names


def equinox():
    params, static = eqx.partition(EquinoxBlock(jax.random.key(0)), eqx.is_inexact_array)
    names = {
        "*_proj/weight": "(heads=4 head) embed",
        "*output_proj/weight": "embed (heads=4 head)",
        "mlp/layers/0/weight": "ffn embed",
        "mlp/layers/1/weight": "embed ffn",
    }
    return lambda params, x: jax.vmap(eqx.combine(params, static))(x), params, names


@pytest.mark.parametrize("balanced", [False, True], ids=["in order", "zig-zag"])
@pytest.mark.parametrize("again", [False, True], ids=["kept", "rematerialised"])
@pytest.mark.parametrize("module", [flax, equinox])
def test_a_ring_in_an_unmodified_module_beside_fsdp(module, again: bool, balanced: bool):
    forward, params, names = module()
    run = jax.checkpoint(forward) if again else forward

    def step(params, x):
        loss, grads = jax.value_and_grad(lambda params: (run(params, x) ** 2).mean())(params)
        return loss, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    x = drawn(4, SEQ, EMBED, seed=5)
    program = ml.trace(step, ml.named(params, names), ml.named(x, "batch seq embed"))
    mesh = ml.mesh(data=2, cp=4)
    (unnamed,) = unnamed_keys(program)
    with pytest.raises(LayoutError, match=rf'Rename them first: program.rename\({{"{unnamed}": "kv"}}\)'):
        ml.layouts.context_parallel(program, mesh, context="cp", kind="ring")
    program = program.rename({unnamed: "kv"})
    ring = ml.layouts.context_parallel(program, mesh, context="cp", kind="ring", balanced=balanced)
    assert ring.to_dict() == dict.fromkeys(("seq", "kv"), "zigzag(cp)" if balanced else "cp")
    plan = program.plan(mesh, {**ring.to_dict(), "batch": "data", "params/*": {"embed": "data"}})
    sent = Counter()
    for c in plan.collectives:
        kind = "halves" if c.value.startswith("halves of ") else c.kind
        sent[kind, c.axes] += c.times
    # What attention reads and makes, forward and backward: 8 values, or with what is read and made again 12.
    assert sent["halves", ("cp",)] == (2 * (12 if again else 8) if balanced else 0)
    # A ring there and back; of what is computed again the forward pass goes around once more.
    assert sent["collective-permute", ("cp",)] == (8 * 4 - 6 if again else 6 * 4 - 4)
    assert sent["all-gather", ("data",)]
    assert sent["reduce-scatter", ("data",)]
    report = plan.check(params, x)
    assert report.ok, report
    plain = jax.jit(step)(params, x)
    for mine, theirs in zip(*map(jax.tree.leaves, (plan.run(params, x), plain)), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6 * float(jnp.abs(theirs).max()) + 1e-7)
