"""Attention that is written with arrays: made one operation where a layout needs that, and nowhere else."""

from __future__ import annotations

from collections import Counter
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.attention.recognise import around, positions, recognised, unnamed_keys
from meshlab.engine.attention.scores import attentions, scores_of
from meshlab.engine.code.operations import walk
from meshlab.engine.errors import LayoutError
from meshlab.models.zoo import imported_models, models

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


@pytest.mark.parametrize("again", [False, True], ids=["kept", "rematerialised"])
@pytest.mark.parametrize("module", [flax, equinox])
def test_a_ring_in_an_unmodified_module_beside_fsdp(module, again: bool):
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
    ring = ml.layouts.context_parallel(program, mesh, context="cp", kind="ring")
    assert ring.to_dict() == {"seq": "cp", "kv": "cp"}
    plan = program.plan(mesh, {**ring.to_dict(), "batch": "data", "params/*": {"embed": "data"}})
    sent = Counter()
    for c in plan.collectives:
        sent[c.kind, c.axes] += c.times
    # A ring there and back; of what is computed again the forward pass goes around once more.
    assert sent["collective-permute", ("cp",)] == (8 * 4 - 6 if again else 6 * 4 - 4)
    assert sent["all-gather", ("data",)]
    assert sent["reduce-scatter", ("data",)]
    report = plan.check(params, x)
    assert report.ok, report
    plain = jax.jit(step)(params, x)
    for mine, theirs in zip(*map(jax.tree.leaves, (plan.run(params, x), plain)), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6 * float(jnp.abs(theirs).max()) + 1e-7)


# --- spellings --------------------------------------------------------------------------------------------------------

AT = np.arange(SEQ)


def by_hand(q, k, v):
    scores = jnp.einsum("bshd,bthd->bhst", q, k) * DEPTH**-0.5
    weights = jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    return jnp.einsum("bhst,bthd->bshd", weights / weights.sum(-1, keepdims=True), v)


def without_a_maximum(q, k, v):
    weights = jnp.exp(jnp.einsum("bshd,bthd->bhst", q, k) / jnp.sqrt(DEPTH))
    return jnp.einsum("bhst,bthd->bshd", weights / weights.sum(-1, keepdims=True), v)


def jaxs_own(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def masked(mask: Any, hidden: float = -1e9):
    def attend(q, k, v):
        at = jnp.arange(q.shape[1])
        scores = jnp.where(mask(at[:, None], at), jnp.einsum("bshd,bthd->bhst", q / 3, k), hidden)
        return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)

    return attend


def with_a_bias(q, k, v):
    at = jnp.arange(q.shape[1])
    bias = jnp.where(at[:, None] < at, -1e9, 0.0)
    scores = jnp.einsum("bshd,bthd->bhst", q, k) * 0.5 + bias
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)


def keys_first(q, k, v):
    scores = jnp.einsum("bthd,bshd->bths", k, q)
    return jnp.einsum("bths,bthd->bhsd", jax.nn.softmax(scores, axis=1), v).swapaxes(1, 2)


SPELLINGS = {
    "by hand": by_hand,
    "without a maximum": without_a_maximum,
    "JAX's own": jaxs_own,
    "a mask": masked(lambda i, j: i >= j),
    "a mask of what is hidden": masked(lambda i, j: ~(j > i)),
    "a difference": masked(lambda i, j: i - j >= 0, -jnp.inf),
    "a window": masked(lambda i, j: (i >= j) & (i - j < 5)),
    "a window to both sides": masked(lambda i, j: abs(i - j) < 5),
    "a bias of positions": with_a_bias,
    "keys first": keys_first,
}


def program_of(attend: Any, wrap: Any = lambda f: f) -> ml.Program:
    def step(q, k, v):
        return jax.value_and_grad(lambda *qkv: (wrap(attend)(*qkv) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)

    q, k = (
        ml.named(jax.ShapeDtypeStruct((2, SEQ, HEADS, DEPTH), "float32"), f"batch {s} heads head")
        for s in ("seq", "kv")
    )
    return ml.trace(step, q, k, k)


@pytest.mark.share(4)
@pytest.mark.parametrize("spelled", SPELLINGS)
def test_spellings_are_one_operation(spelled: str):
    plan = program_of(SPELLINGS[spelled]).plan(CP, RING)
    assert {c.kind for c in plan.collectives if c.shape} == {"collective-permute"}
    # A window makes the ring shorter.
    turns = 1 if spelled == "a window" else 3
    assert sum(c.times for c in plan.collectives if c.shape) == 6 * turns + 2
    report = plan.check()
    assert report.ok, report


@pytest.mark.parametrize("policy", ["dots_saveable", "nothing_saveable"])
def test_what_is_kept_and_what_is_computed_again(policy: str):
    again = lambda f: jax.checkpoint(f, policy=getattr(jax.checkpoint_policies, policy))  # noqa: E731
    plan = program_of(by_hand, again).plan(CP, RING)
    assert {c.kind for c in plan.collectives if c.shape} == {"collective-permute"}
    assert plan.check().ok


@pytest.mark.parametrize("attend", [by_hand, jaxs_own])
def test_a_loop_that_keeps_its_scores_for_the_backward_pass(attend):
    def loss(weights, x):
        def layer(x, w):
            q, k, v = jnp.einsum("bse,cehd->cbshd", x, w[:3])
            return x + jnp.einsum("bshd,ehd->bse", attend(q, k, v), w[3]), None

        return (jax.lax.scan(layer, x, weights)[0] ** 2).mean()

    weights, x = drawn(3, 4, EMBED, HEADS, DEPTH) * 0.2, drawn(2, SEQ, EMBED)
    named = ml.named(weights, "layers _ embed heads head"), ml.named(x, "batch seq embed")
    program = ml.trace(jax.value_and_grad(loss), *named)
    program = program.rename(dict.fromkeys(unnamed_keys(program), "kv"))
    plan = program.plan(CP, RING)
    # Forward, and again in the backward pass, which keeps no scores.
    assert sum(c.times for c in plan.collectives if c.kind == "collective-permute") == 3 * (8 * 4 - 6)
    report = plan.check(weights, x)
    assert report.ok, report


def with_a_learned_bias(q, k, v):
    bias = q[0, :, 0, 0][:, None] * k[0, :, 0, 0]
    scores = jnp.einsum("bshd,bthd->bhst", q, k) + bias
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)


def with_dropout(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k))
    kept = jax.random.bernoulli(jax.random.key(0), 0.9, weights.shape)
    return jnp.einsum("bhst,bthd->bshd", jnp.where(kept, weights, 0), v)


def over_the_queries(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k), axis=2)
    return jnp.einsum("bhst,bthd->bshd", weights, v)


def not_normalised(q, k, v):
    weights = jnp.exp(jnp.einsum("bshd,bthd->bhst", q, k))
    return jnp.einsum("bhst,bthd->bshd", weights / 7, v)


def with_a_cap(q, k, v):
    scores = 5 * jnp.tanh(jnp.einsum("bshd,bthd->bhst", q, k) / 5)
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)


def with_its_own_gradient(q, k, v):
    """Its backward pass doubles what comes back to the scores."""
    scores = jnp.einsum("bshd,bthd->bhst", q, k)
    doubled = 2 * scores - jax.lax.stop_gradient(scores)
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(doubled), v)


def in_documents(q, k, v):
    """A mask of blocks, which the first and the last positions alone do not show."""
    return masked(lambda i, j: (i >= j) & (i // 8 == j // 8))(q, k, v)


def hidden_from_some(q, k, v):
    return masked(lambda i, j: i > j)(q, k, v)


OTHERS = (
    with_a_learned_bias,
    with_dropout,
    over_the_queries,
    not_normalised,
    with_a_cap,
    with_its_own_gradient,
    in_documents,
    hidden_from_some,
)


@pytest.mark.parametrize("attend", OTHERS, ids=lambda f: f.__name__)
def test_what_is_not_attention_is_left_and_refused_with_its_line(attend):
    program = program_of(attend)
    with pytest.raises(LayoutError, match=r"cannot both be on `cp`.*test_recognise\.py:\d+"):
        program.plan(CP, RING)
    assert "kv" not in {key for _, key in around(program)}


def test_returned_weights_are_refused():
    def attend(q, k, v):
        weights = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k))
        return jnp.einsum("bhst,bthd->bshd", weights, v), weights

    q, k = (ml.named(drawn(2, SEQ, HEADS, DEPTH), f"batch {s} heads head") for s in ("seq", "kv"))
    with pytest.raises(LayoutError, match="cannot both be on `cp`"):
        ml.trace(attend, q, k, k).plan(CP, RING)


# --- when -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout", [None, "seq:cp", "kv:cp", "heads:cp", "seq:cp kv:data", {"seq": "cp", "*": {"kv": "cp"}}]
)
def test_programs_plan_as_they_stand_until_both_are_on_one_axis(layout):
    program = program_of(by_hand)
    plan = program.plan(ml.mesh(cp=4, data=2), layout)
    assert plan.program is program


def test_rules_by_scope_decide_where_the_scores_are():
    def core(q, k, v):
        with jax.named_scope("core"):
            return by_hand(q, k, v)

    program, mesh = program_of(core), ml.mesh(ring=2, ulysses=4)
    ulysses = {"seq": "ulysses", "kv": "ulysses", "@core": {"seq": None, "kv": None, "heads": "ulysses"}}
    plan = program.plan(mesh, ulysses)
    assert {c.kind for c in plan.collectives if c.shape} == {"all-to-all"}
    assert scores_of(plan.program)
    usp = ml.layouts.context_parallel(program, mesh, kind="usp", context=("ring", "ulysses"))
    plan = program.plan(mesh, usp)
    assert not scores_of(plan.program)
    assert {c.kind for c in plan.collectives if c.shape} == {"collective-permute", "all-to-all"}
    assert plan.check().ok


def test_refusals_know_of_it():
    program = program_of(by_hand)
    assert program.refusals(CP, "seq:cp")["kv"]["cp"] is None
    assert program_of(with_a_cap).refusals(CP, "seq:cp")["kv"]["cp"] is not None
    # From a ring a dim can be taken away again.
    assert program.refusals(CP, RING)["heads"]["cp"] is not None
