"""Programs of plain JAX, written anew after questions that people ask in public; none is copied."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.own.foreign.program import Program, f32


def resharded(mesh: Mesh):
    before, after = NamedSharding(mesh, P("y", None, "x")), NamedSharding(mesh, P(None, ("x", "y"), None))

    def moved(a, b, c):
        total = a + b
        rows = jax.lax.with_sharding_constraint(total, after)
        return rows + c

    cube = f32(8, 16, 32)
    return jax.jit(moved, in_shardings=(before, before, after), out_shardings=after), (cube, cube, cube)


def shuffled(mesh: Mesh):
    batches, whole = NamedSharding(mesh, P("dp")), NamedSharding(mesh, P())

    def shuffle(key, batch):
        keys = jax.random.split(key, batch.shape[0])
        return jax.vmap(jax.random.permutation)(keys, batch)

    jitted = jax.jit(shuffle, in_shardings=(whole, batches), out_shardings=batches)
    return jitted, (jax.eval_shape(lambda: jax.random.key(0)), f32(16, 64, 4))


def grouped_convolution(mesh: Mesh):
    batches, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())

    def convolve(images, kernel):
        features = jax.lax.conv_general_dilated(
            images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=4
        )
        return jax.nn.gelu(features)

    return jax.jit(convolve, in_shardings=(batches, whole), out_shardings=batches), (
        f32(16, 8, 8, 16),
        f32(3, 3, 4, 32),
    )


def largest_logits(mesh: Mesh):
    @functools.partial(jax.jit, in_shardings=NamedSharding(mesh, P(None, "data")))
    def best(logits):
        first, _ = jax.lax.top_k(logits, 1)
        four, places = jax.lax.top_k(logits, 4)
        return first, four, places

    return best, (f32(2, 1024),)


def sequence_parallel(mesh: Mesh):
    split, gathered = NamedSharding(mesh, P("data", "tensor")), NamedSharding(mesh, P("data"))
    heads, columns, rows = (
        NamedSharding(mesh, P(*s)) for s in (("data", None, "tensor"), (None, "tensor"), ("tensor",))
    )

    def norm(x, scale):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale

    @functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.nothing_saveable)
    def layer(x, params):
        x = jax.lax.with_sharding_constraint(x, split)
        normed = norm(x, params["scale"])
        normed = jax.lax.with_sharding_constraint(normed, gathered)
        query, key, value = (
            jax.lax.with_sharding_constraint((normed @ params[name]).reshape(4, 16, 4, 8), heads) for name in "qkv"
        )
        scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", query, key))
        mixed = jnp.einsum("bhqk,bkhd->bqhd", scores, value)
        mixed = jax.lax.with_sharding_constraint(mixed, heads).reshape(4, 16, 32)
        out = mixed @ params["o"]
        return x + jax.lax.with_sharding_constraint(out, split)

    def loss(params, x):
        return (layer(x, params) ** 2).mean()

    stored = {"scale": NamedSharding(mesh, P()), "q": columns, "k": columns, "v": columns, "o": rows}
    params = {name: f32(32) if name == "scale" else f32(32, 32) for name in stored}
    return jax.jit(jax.grad(loss), in_shardings=(stored, split), out_shardings=stored), (params, f32(4, 16, 32))


def fused_projection(mesh: Mesh):
    columns, whole = NamedSharding(mesh, P(None, "tensor")), NamedSharding(mesh, P())
    rows, by_head = NamedSharding(mesh, P("tensor")), NamedSharding(mesh, P(None, None, "tensor"))

    def attention(x, qkv_weight, out_weight):
        fused = x @ qkv_weight
        parts = jnp.split(fused, 3, axis=-1)
        query, key, value = (jax.lax.with_sharding_constraint(p.reshape(2, 16, 8, 8), by_head) for p in parts)
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
        return mixed.reshape(2, 16, 64) @ out_weight

    jitted = jax.jit(attention, in_shardings=(whole, columns, rows), out_shardings=whole)
    return jitted, (f32(2, 16, 64), f32(64, 192), f32(64, 64))


PROGRAMS = {
    "resharded": Program(
        "https://github.com/jax-ml/jax/issues/21562",
        "Why does XLA rematerialize an array in full to go from P('y', None, 'x') to P(None, ('x', 'y'))?",
        {"x": 4, "y": 2},
        resharded,
    ),
    "shuffled": Program(
        "https://github.com/jax-ml/jax/issues/20381",
        "What is that all-gather doing at the end of shuffling each row of a batch that is split over its rows?",
        {"dp": 8},
        shuffled,
    ),
    "grouped convolution": Program(
        "https://github.com/openxla/xla/issues/47945",
        "Why does a grouped convolution gather the whole batch, and a plain one does not?",
        {"data": 8},
        grouped_convolution,
    ),
    "largest logits": Program(
        "https://github.com/jax-ml/jax/issues/19271",
        "What happens to `top_k` along the axis that is split?",
        {"data": 8},
        largest_logits,
    ),
    "sequence parallel": Program(
        "https://github.com/jax-ml/jax/issues/25010",
        "How do I have the all-gather in front of attention made again in the backward pass, and which line makes it?",
        {"data": 2, "tensor": 4},
        sequence_parallel,
    ),
    "fused projection": Program(
        "https://github.com/sgl-project/sglang-jax/issues/1096",
        "Why does splitting one fused projection into query, key and value send anything?",
        {"tensor": 8},
        fused_projection,
    ),
}
