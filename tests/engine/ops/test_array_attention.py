"""Attention of arrays without names: as JAX computes it, and around a ring inside modules of Flax and Equinox."""

from __future__ import annotations

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.errors import DimError, TraceError

pytestmark = pytest.mark.share(2, of="file")

BATCH, SEQ, HEADS, DEPTH, EMBED = 4, 32, 4, 8, 16


def drawn(*shape: int, seed: int = 0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), "float32")


def arrays(kv_heads: int = HEADS):
    kv = (BATCH, SEQ, kv_heads, DEPTH)
    return drawn(BATCH, SEQ, HEADS, DEPTH), drawn(*kv, seed=1), drawn(*kv, seed=2)


@pytest.mark.parametrize("kv_heads", [HEADS, 2, 1])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_jaxs_own(kv_heads: int, causal: bool):
    q, k, v = arrays(kv_heads)
    mine = jax.jit(lambda q, k, v: ml.attention(q, k, v, "seq", "kv", causal=causal))
    theirs = lambda *qkv: jax.nn.dot_product_attention(*qkv, is_causal=causal)  # noqa: E731
    np.testing.assert_allclose(mine(q, k, v), theirs(q, k, v), atol=1e-5)
    gradients = (jax.grad(lambda *a, f=f: (f(*a) ** 2).sum(), argnums=(0, 1, 2))(q, k, v) for f in (mine, theirs))
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("kv_heads", [HEADS, 2])
@pytest.mark.parametrize("shape", [(1, HEADS, SEQ, SEQ), (BATCH, 1, 1, SEQ), (SEQ, SEQ), (HEADS, 1, SEQ)], ids=str)
def test_a_bias_may_be_the_same_along_some_axes(kv_heads: int, shape: tuple[int, ...]):
    q, k, v = arrays(kv_heads)
    bias = drawn(*shape, seed=3)
    whole = bias.reshape((1,) * (4 - len(shape)) + shape)
    theirs = jax.nn.dot_product_attention(q, k, v, bias=jnp.broadcast_to(whole, (BATCH, HEADS, SEQ, SEQ)))
    np.testing.assert_allclose(ml.attention(q, k, v, "seq", "kv", bias=bias), theirs, atol=1e-5)


def test_documents_are_kept_apart():
    q, k, v = arrays()
    segments = np.sort(np.random.default_rng(1).integers(0, 3, (BATCH, SEQ)), axis=1)
    same = segments[:, None, :, None] == segments[:, None, None]
    mine = ml.attention(q, k, v, "seq", "kv", query_segments=segments, key_segments=segments, scale=0.5)
    theirs = jax.nn.dot_product_attention(q, k, v, mask=jnp.asarray(same), scale=0.5)
    np.testing.assert_allclose(mine, theirs, atol=1e-5)


class Block(nn.Module):
    """A block of Flax, whose attention is given to it."""

    @nn.compact
    def __call__(self, x):
        def attended(q, k, v, **_):
            return ml.attention(q, k, v, "seq", "kv", causal=True)

        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(HEADS, use_bias=False, attention_fn=attended)(y)
        return x + nn.Dense(EMBED)(nn.gelu(nn.Dense(32)(x)))


class Layer(eqx.Module):
    """A layer of Equinox for one sequence, in which two heads of queries share one of keys."""

    into: jax.Array
    out: jax.Array

    def __call__(self, x):
        q, k, v = jnp.einsum("se,cehd->cshd", x, self.into)
        y = ml.attention(q, k[:, ::2], v[:, ::2], "seq", "kv", causal=True)
        return x + jnp.einsum("shd,hde->se", y, self.out)


def flax():
    block = Block()
    params = block.init(jax.random.key(0), drawn(1, SEQ, EMBED))["params"]
    names = {
        "*query/kernel": "embed heads head",
        "*out/kernel": "heads head embed",
        "Dense_1/kernel": "embed ffn",
        "Dense_0/kernel": "ffn embed",
    }
    return lambda params, x: block.apply({"params": params}, x), params, names


def equinox():
    layer = Layer(drawn(3, EMBED, HEADS, DEPTH) * 0.2, drawn(HEADS, DEPTH, EMBED, seed=1) * 0.2)
    return lambda layer, x: jax.vmap(layer)(x), layer, {"into": "_ embed heads head", "out": "heads head embed"}


@pytest.mark.parametrize("module", [flax, equinox])
def test_a_ring_in_a_module_beside_fsdp(module):
    forward, params, names = module()

    def step(params, x):
        loss, grads = jax.value_and_grad(lambda params: (forward(params, x) ** 2).mean())(params)
        return loss, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    x = drawn(BATCH, SEQ, EMBED, seed=5)
    program = ml.trace(step, ml.named(params, names), ml.named(x, "batch seq embed"))
    layout = {"batch": "data", "seq": "cp", "kv": "cp", "params/*": {"embed": "data"}}
    plan = program.plan(ml.mesh(data=2, cp=4), layout)
    permutes = [c for c in plan.collectives if c.kind == "collective-permute"]
    assert sum(c.times for c in permutes) == 6 * 4 - 4
    report = plan.check(params, x)
    assert report.ok, report
    plain = jax.jit(step)(params, x)
    for mine, theirs in zip(*map(jax.tree.leaves, (plan.run(params, x), plain)), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6 * float(jnp.abs(theirs).max()) + 1e-7)


def test_names_are_those_of_the_program():
    q, k, v = (ml.named(a, "batch seq heads depth") for a in arrays())
    program = ml.trace(lambda q, k, v: ml.attention(q, k, v, "seq", "kv"), q, k, v)
    assert program.dims == {"batch": BATCH, "seq": SEQ, "heads": HEADS, "depth": DEPTH, "kv": SEQ}
    # Keys that have a name of their own keep it.
    others = [ml.named(a, "batch source heads depth") for a in arrays()[1:]]
    crossed = ml.trace(lambda q, k, v: ml.attention(q, k, v, "seq", "source"), q, *others)
    plan = crossed.plan(ml.mesh(a=4), "seq:a source:a")
    assert {c.kind for c in plan.collectives} == {"collective-permute"}
    assert plan.check().ok
    with pytest.raises(TraceError, match="Two names meet on one axis"):
        ml.trace(lambda q, k, v: ml.attention(q, k, v, "rows", "kv"), q, k, v)


Q, K, V = arrays()


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ((Q, K[..., :3], V), {}, r"q\[4, 32, 4, 8\], k\[4, 32, 4, 3\].*different depths"),
        ((Q, K[:, 1:], V), {}, "k and v have different positions or heads"),
        ((Q, K[:, :, :3], V[:, :, :3]), {}, "not a multiple of the heads of k"),
        ((Q[:1], K, V), {}, "different axes in front of positions"),
        ((Q[0, 0], K, V), {}, r"arrays without names are \[..., positions, heads, depth\]"),
        ((Q.astype(int), K.astype(int), V.astype(int)), {}, "it takes floats"),
        ((Q, K, V), {"query": "kv"}, "both have positions called `kv`"),
        ((Q, K, V), {"key": 1}, "1 is not a name: a name is ASCII letters"),
        ((Q, K, V), {"key": ml.Dim("kv", 3)}, "the size of key is kv=3 and the array has 32"),
        ((Q, K, V), {"over": "depth"}, "over= is for tensors"),
        ((Q, K, V), {"bias": Q}, r"bias has the shape \[4, 32, 4, 8\], which does not fit \[4, 4, 32, 32\]"),
        ((Q, K, V), {"query_segments": Q[0, :, 0, 0].astype(int)}, "no key_segments"),
        ((Q, K, ml.tensor(V, "batch", "kv", "heads", "depth")), {}, "without names for `q`"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(given, options, message):
    query, key = options.pop("query", "seq"), options.pop("key", "kv")
    q, k, v = given
    with pytest.raises(DimError, match=message):
        ml.attention(q, k, v, query, key, **options)
