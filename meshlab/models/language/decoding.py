"""Decoding: Llama writes token after token, and keeps the keys and values of those before in a cache.

    cache = empty(config, length=8192)                 # key and value: [layers, batch, kv, heads, head]
    logits, cache = step(params, cache, prompt, 0)     # prefill: the whole prompt at once
    logits, cache = step(params, cache, token, 4096)   # then one token at a time: [batch, seq=1]

One function serves both: it writes the keys and values of its `seq` tokens into the cache at `position`, and lets each
read what the cache holds up to itself. The cache comes back as the next call's argument, so it is carried:

    program = ml.trace(step, *inputs(config), carry={"cache": 1})

What to know of its dims: `kv` is the length of the cache, and `seq` how many tokens are written at once. With `heads`
on an axis of the mesh each device keeps the cache of its own heads; with `batch`, that of its own sequences; with `kv`,
a part of every sequence, and softmax is put together from parts.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import meshlab as ml

from ..parts.initial import shapes
from ..parts.layers import (
    MASKED,
    Rotation,
    frequencies,
    gated,
    looked_up,
    rms_norm,
    rotate,
    rotation_of,
    size,
    softmax,
    to_logits,
    wide,
)
from ..parts.weights import Params
from . import llama

Cache = dict[str, ml.Tensor]


def empty(config: llama.Config, length: int, dtype: Any = jnp.float32) -> Cache:
    """Returns a cache without tokens.

    Args:
        config: of the model; its `seq` is not asked for.
        length: how many tokens there is room for.
        dtype: of keys and values.

    Returns:
        `key` and `value`, each [layers, batch, kv, heads, head].
    """
    Layers, Batch, Heads, Head = config.dims("layers batch heads head")
    dims = (Layers, Batch, ml.Dim("kv", length), Heads, Head)
    return {name: ml.tensor(jnp.zeros([dim.size for dim in dims], dtype), *dims) for name in ("key", "value")}


def inputs(config: llama.Config, length: int) -> tuple[Params, Cache, ml.Tensor, jax.ShapeDtypeStruct]:
    """Returns the shapes of what `step` takes: parameters, cache, tokens: [batch, seq], and the position.

    Args:
        config: of the model; `seq` is how many tokens are written at once.
        length: how many tokens the cache has room for; more than `seq`.
    """
    cache = jax.eval_shape(lambda: empty(config, length))
    return shapes(llama.init, config), cache, ml.i32[config.dims("batch seq")], jax.ShapeDtypeStruct((), jnp.int32)


def step(params: Params, cache: Cache, tokens: ml.Tensor, position: Any) -> tuple[ml.Tensor, Cache]:
    """Writes tokens into the cache, and returns what follows each.

    Args:
        params: as `llama.init` makes them, the layers stacked.
        cache: what was written before.
        tokens: [batch, seq].
        position: where the first of the tokens stands; those before it are in the cache.

    Returns:
        The logits, [batch, seq, vocab], and the cache with the tokens in it.
    """
    x = looked_up(params["embedding"], tokens)
    seq = ml.arange(ml.Dim("seq", size(tokens, "seq"))) + position
    visible = seq >= ml.arange(ml.Dim("kv", size(cache["key"], "kv")))
    rotation = rotation_of(seq.astype(ml.f32) * frequencies(params["layers"]["query"], llama.THETA))

    def layer(x, slices):
        weights, past = slices
        y = rms_norm(x, weights["attention_norm"], llama.EPSILON)
        present = remember(past, y, weights, rotation, position)
        x = x + attend(y, present, weights, rotation, visible)
        return x + gated(rms_norm(x, weights["ffn_norm"], llama.EPSILON), weights), present

    x, cache = ml.scan(layer, x, (params["layers"], cache), "layers")
    return wide(to_logits(rms_norm(x, params["norm"], llama.EPSILON), params["head"])), cache


def remember(past: Cache, x: ml.Tensor, weights: Params, rotation: Rotation, position: Any) -> Cache:
    """Returns the cache of a layer with the keys and values of new tokens written into it.

    Args:
        past: key and value: [batch, kv, heads, head].
        x: [batch, seq, embed], normalised.
        weights: key and value: [embed, heads, head].
        rotation: cosine and sine of the angles of the new tokens, [seq, half].
        position: where the first of them is written.
    """
    new = {"key": rotate(ml.dot(x, weights["key"], "embed"), rotation), "value": ml.dot(x, weights["value"], "embed")}
    return {name: write(past[name], each, position) for name, each in new.items()}


def write(array: ml.Tensor, new: ml.Tensor, position: Any) -> ml.Tensor:
    """Returns a tensor with another written over a part of its `kv`.

    Args:
        array: [batch, kv, heads, head].
        new: [batch, seq, heads, head].
        position: where along `kv` the first of `seq` is written.
    """
    values = new.array.astype(array.dtype)
    return ml.tensor(lax.dynamic_update_slice_in_dim(array.array, values, position, axis=1), *array.dims)


@jax.named_scope("attention")
def attend(x: ml.Tensor, present: Cache, weights: Params, rotation: Rotation, visible: ml.Tensor) -> ml.Tensor:
    """Lets each token read what the cache holds up to itself.

    Args:
        x: [batch, seq, embed], normalised.
        present: key and value: [batch, kv, heads, head].
        weights: query: [embed, heads, group, head], output: [heads, group, head, embed].
        rotation: cosine and sine of the angles of the new tokens, [seq, half].
        visible: what each token may read: [seq, kv].

    Returns:
        [batch, seq, embed].
    """
    query = rotate(ml.dot(x, weights["query"], "embed"), rotation)
    key, value = (present[name].astype(x.dtype) for name in ("key", "value"))
    with jax.named_scope("core"):
        scores = ml.where(visible, ml.dot(query, key, "head") * size(query, "head") ** -0.5, MASKED)
        mixture = ml.dot(softmax(scores, "kv"), value, "kv")
    return ml.dot(mixture, weights["output"], "heads", "group", "head")
