"""The programs that the puzzles are about: small, each with the dims that its lesson needs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import meshlab as ml


def cube() -> Any:
    """An array of 64 × 8 × 8, and nothing done to it but a sum with itself."""
    rows, columns, layers = ml.dims(i=64, j=8, k=8)
    return ml.trace(lambda a: a + a, ml.f32[rows, columns, layers])


def table() -> Any:
    """A table of bytes."""
    rows, columns = ml.dims(i=128, j=2048)
    return ml.trace(lambda a: a + a, ml.i8[rows, columns])


def perceptron() -> Any:
    """Two layers, forward."""
    Batch, Embed, Hidden = ml.dims(batch=8, embed=8, hidden=16)

    def forward(w, x):
        return ml.dot(ml.relu(ml.dot(x, w["up"], "embed")), w["down"], "hidden")

    return ml.trace(forward, {"up": ml.f32[Embed, Hidden], "down": ml.f32[Hidden, Embed]}, ml.f32[Batch, Embed])


def perceptron_step(batch: int = 64) -> Any:
    """Two layers, the loss and its gradients."""
    Batch, Embed, Hidden = ml.dims(batch=batch, embed=32, hidden=128)

    def loss(params, x):
        hidden = ml.relu(ml.dot(x, params["up"], "embed"))
        return ml.square(ml.dot(hidden, params["down"], "hidden") - x).mean()

    params = {"up": ml.f32[Embed, Hidden], "down": ml.f32[Hidden, Embed]}
    return ml.trace(jax.value_and_grad(loss), params, ml.f32[Batch, Embed])


def _logits(w, x):
    return ml.dot(ml.relu(ml.dot(x, w["w1"], "rows", "cols")), w["w2"], "hidden")


def digits() -> Any:
    """The README's network for handwritten digits, forward."""
    Batch, Rows, Cols, Hidden, Classes = ml.dims(batch=100, rows=28, cols=28, hidden=1024, classes=10)
    weights = {"w1": ml.f32[Rows, Cols, Hidden], "w2": ml.f32[Hidden, Classes]}
    return ml.trace(_logits, weights, ml.f32[Batch, Rows, Cols])


def digits_gradients() -> Any:
    """The gradients of the same network."""
    Batch, Rows, Cols, Hidden, Classes = ml.dims(batch=100, rows=28, cols=28, hidden=1024, classes=10)

    def loss(params, x, labels):
        return ml.cross_entropy(_logits(params, x), labels, "classes").mean()

    weights = {"w1": ml.f32[Rows, Cols, Hidden], "w2": ml.f32[Hidden, Classes]}
    return ml.trace(jax.grad(loss), weights, ml.f32[Batch, Rows, Cols], ml.i32[Batch])


def product() -> Any:
    """One product."""
    Batch, Embed, Hidden = ml.dims(batch=16, embed=64, hidden=32)
    return ml.trace(lambda x, w: ml.dot(x, w, "embed"), ml.f32[Batch, Embed], ml.f32[Embed, Hidden])


def gathered() -> Any:
    """A large array of bfloat16, doubled."""
    rows, columns = ml.dims(i=1024, j=4096)
    return ml.trace(lambda a: ml.tag(a + a, "doubled") * 0.5, ml.bf16[rows, columns])


def turned() -> Any:
    """A square array that is stored one way and returned another."""
    rows, columns = ml.dims(i=64, j=64)
    return ml.trace(lambda a: ml.tag(a * 2.0, "middle") + 1.0, ml.f32[rows, columns])


def _layer(w, x):
    y = ml.normalize(x, "embed")
    q, k, v = (ml.dot(y, w[name], "embed") for name in "qkv")
    weights = ml.softmax(ml.dot(q, k.rename(seq="kv"), "head"), "kv")
    x = x + ml.dot(ml.dot(weights, v.rename(seq="kv"), "kv"), w["o"], "heads", "head")
    return x + ml.dot(ml.relu(ml.dot(ml.normalize(x, "embed"), w["up"], "embed")), w["down"], "ffn")


def _of_a_layer() -> tuple[Any, Any]:
    """The weights of a layer and what it takes."""
    Batch, Seq, Embed, Heads, Head, Ffn = ml.dims(batch=8, seq=16, embed=32, heads=8, head=4, ffn=64)
    w = {name: ml.f32[Embed, Heads, Head] for name in "qkv"} | {"o": ml.f32[Heads, Head, Embed]}
    return w | {"up": ml.f32[Embed, Ffn], "down": ml.f32[Ffn, Embed]}, ml.f32[Batch, Seq, Embed]


def layer() -> Any:
    """A layer of a transformer, forward: attention and a feed-forward network, a norm in front of each."""
    return ml.trace(_layer, *_of_a_layer())


def layer_gradients() -> Any:
    """The same layer forward and backward: the gradients of its weights and of what it takes."""
    gradients = jax.value_and_grad(lambda w, x: ml.square(_layer(w, x)).mean(), argnums=(0, 1))
    return ml.trace(gradients, *_of_a_layer())


def core() -> Any:
    """The core of attention."""
    Batch, Seq, Kv, Heads, Head = ml.dims(batch=2, seq=64, kv=64, heads=8, head=16)

    def attend(q, k, v):
        weights = ml.softmax(ml.dot(q, k, "head"), "kv")
        return ml.dot(weights, v, "kv")

    keys = ml.f32[Batch, Kv, Heads, Head]
    return ml.trace(attend, ml.f32[Batch, Seq, Heads, Head], keys, keys)


def attention(*, fused: bool = False) -> Any:
    """A layer of attention, whose core is a scope: three operations, or one."""
    Batch, Seq, Embed, Heads, Head = ml.dims(batch=2, seq=64, embed=128, heads=8, head=16)

    def layer(w, x):
        q, k, v = (ml.dot(x, w[name], "embed") for name in "qkv")
        with jax.named_scope("core"):
            k, v = k.rename(seq="kv"), v.rename(seq="kv")
            if fused:
                mixed = ml.attention(q, k, v, "seq", "kv")
            else:
                mixed = ml.dot(ml.softmax(ml.dot(q, k, "head"), "kv"), v, "kv")
        return ml.dot(mixed, w["o"], "heads", "head")

    w = {name: ml.f32[Embed, Heads, Head] for name in "qkv"} | {"o": ml.f32[Heads, Head, Embed]}
    return ml.trace(layer, w, ml.f32[Batch, Seq, Embed])


def attention_gradients(*, causal: bool = False) -> Any:
    """Attention as one operation, forward and backward: the gradients of queries, keys and values."""
    Seq, Heads, Head = ml.dims(seq=1024, heads=2, head=32)

    def loss(q, k, v):
        mixed = ml.attention(q, k.rename(seq="kv"), v.rename(seq="kv"), "seq", "kv", causal=causal)
        return ml.square(mixed).mean()

    gradients = jax.value_and_grad(loss, argnums=(0, 1, 2))
    return ml.trace(gradients, *[ml.f32[Seq, Heads, Head]] * 3)


def adam() -> Any:
    """7 billion parameters in bfloat16, with a master copy and two moments in float32."""
    Batch, Embed, Ffn = ml.dims(batch=8, embed=8000, ffn=875_000)

    def step(params, state, x):
        def loss(w):
            return ml.square(ml.dot(x, w, "embed")).mean().astype(jnp.float32)

        g = jax.grad(loss)(params).astype(jnp.float32)
        m, v = 0.9 * state["m"] + 0.1 * g, 0.99 * state["v"] + 0.01 * g * g
        master = state["master"] - 1e-3 * m / (ml.sqrt(v) + 1e-8)
        return master.astype(jnp.bfloat16), {"master": master, "m": m, "v": v}

    f = ml.f32[Embed, Ffn]
    return ml.trace(step, ml.bf16[Embed, Ffn], {"master": f, "m": f, "v": f}, ml.bf16[Batch, Embed])


def experts() -> Any:
    """A layer of experts: a table sends each group's tokens to them, and brings them back.

    Between, groups and experts have other names, so that each side may lie on the mesh in its own way.
    """
    Groups, Tokens, Embed = ml.dims(groups=8, tokens=16, embed=32)
    Routes, Experts, Room, Ffn = ml.dims(routes=8, experts=8, room=4, ffn=64)

    def forward(x, table, up, down):
        sent = ml.dot(table, x, "tokens").rename(groups="senders", routes="experts")
        hidden = ml.relu(ml.dot(sent, up, "embed"))
        returned = ml.dot(hidden, down, "ffn").rename(senders="groups", experts="routes")
        return ml.dot(table, returned, "routes", "room")

    tokens, table = ml.f32[Groups, Tokens, Embed], ml.f32[Groups, Tokens, Routes, Room]
    return ml.trace(forward, tokens, table, ml.f32[Experts, Embed, Ffn], ml.f32[Experts, Ffn, Embed])


def dropless() -> Any:
    """A layer of experts without a capacity: with places for all, so that nothing is ever dropped on four devices."""
    Tokens, Embed, Ffn = ml.dims(tokens=64, embed=32, ffn=64)
    Experts, K = ml.dims(experts=8, k=2)

    def forward(x, choice, up, down):
        rows, sent = ml.dispatch(x, choice, Experts, factor=4)
        hidden = ml.relu(ml.ragged_dot(rows, up, sent, "embed"))
        return ml.combine(ml.ragged_dot(hidden, down, sent, "ffn"), sent)

    tokens, choice = ml.f32[Tokens, Embed], ml.i32[Tokens, K]
    return ml.trace(forward, tokens, choice, ml.f32[Experts, Embed, Ffn], ml.f32[Experts, Ffn, Embed])


def deep() -> Any:
    """A step of gradient descent on a stack of layers, one after the other."""
    Batch, Embed, Layers = ml.dims(batch=128, embed=64, layers=8)

    def loss(w, x, y):
        def layer(h, matrix):
            return h + ml.tanh(ml.dot(h, matrix, "embed").rename(out="embed")), None

        h, _ = ml.scan(layer, x, w, "layers")
        return ml.square(h - y).mean()

    def step(w, x, y):
        value, grads = jax.value_and_grad(loss)(w, x, y)
        return value, jax.tree.map(lambda weight, grad: weight - 0.1 * grad, w, grads)

    weights = ml.f32[Layers, Embed, ml.Dim("out", 64)]
    return ml.trace(step, weights, ml.f32[Batch, Embed], ml.f32[Batch, Embed])


def decoding() -> Any:
    """Attention of one new token over its cache, with 8 heads of keys and 4 queries for each."""
    Kv, Heads, Group, Head = ml.dims(kv=1024, heads=8, group=4, head=16)

    def attend(q, keys, values):
        weights = ml.softmax(ml.dot(q, keys, "head"), "kv")
        return ml.dot(weights, values, "kv")

    cache = ml.bf16[Kv, Heads, Head]
    return ml.trace(attend, ml.bf16[Heads, Group, Head], cache, cache)


def llama_70b() -> Any:
    """A step of training of Llama 3 70B, with AdamW."""
    return ml.named_models()["llama3-70b"].trace(batch=64, seq=4096)


def llama_8b(batch: int = 8, seq: int = 4096) -> Any:
    """A step of training of Llama 3 8B, with AdamW."""
    return ml.named_models()["llama3-8b"].trace(batch=batch, seq=seq)


def foreign_attention() -> Any:
    """A block of a transformer in plain JAX, whose arguments are named from outside."""

    def block(w, x):
        q, k, v = (jnp.einsum("bse,ehd->bshd", x, w[name]) for name in "qkv")
        weights = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k))
        x = x + jnp.einsum("bshd,hde->bse", jnp.einsum("bhst,bthd->bshd", weights, v), w["o"])
        return x + jax.nn.gelu(x @ w["up"]) @ w["down"]

    shapes = {name: (32, 4, 8) for name in "qkv"} | {"o": (4, 8, 32), "up": (32, 64), "down": (64, 32)}
    names = {name: "embed heads head" for name in "qkv"} | {
        "o": "heads head embed",
        "up": "embed ffn",
        "down": "ffn embed",
    }
    w = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    x = jax.ShapeDtypeStruct((8, 16, 32), jnp.float32)
    return ml.trace(block, ml.named(w, names), ml.named(x, "batch seq embed"))


def large_step() -> Any:
    """A step of two large layers."""
    Batch, Embed, Ffn = ml.dims(batch=8192, embed=4096, ffn=16384)

    def loss(params, x):
        return ml.square(ml.dot(ml.relu(ml.dot(x, params["up"], "embed")), params["down"], "ffn") - x).mean()

    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)

    return ml.trace(step, {"up": ml.f32[Embed, Ffn], "down": ml.f32[Ffn, Embed]}, ml.f32[Batch, Embed])
