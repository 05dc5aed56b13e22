"""Decoding: Llama writes token after token, and keeps the keys and values of those before in a cache.

    cache = empty(config, length=8192)                 # key and value: [layers, batch, heads, kv, head]
    logits, cache = step(params, cache, prompt, 0)     # prefill: the whole prompt at once
    logits, cache = step(params, cache, token, 4096)   # then one token at a time: [batch, seq=1]

One function serves both: it writes the keys and values of its `seq` tokens into the cache at `position`, and lets each
read what the cache holds up to itself. The cache comes back as the next call's argument, so it is carried:

    program = ml.trace(step, *inputs(config), carry={"cache": 1})

Its layers are one loop, which carries the cache and writes to it in place: where a loop takes and returns it slice by
slice there are two, donated or not. The order of its dims is free; in the wrong one a compiler copies it to another
order and back, which is one cache more or two. `ORDER` is that of XLA for GPUs, `TPU_ORDER` that of XLA for TPUs.

What to know of its dims: `kv` is the length of the cache, and `seq` how many tokens are written at once. With `heads`
on an axis of the mesh each device keeps the cache of its own heads; with `batch`, that of its own sequences; with `kv`,
a part of every sequence, and softmax is put together from parts.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
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
ORDER, TPU_ORDER = "layers batch heads kv head", "layers kv heads batch head"


def empty(config: llama.Config, length: int, dtype: Any = jnp.float32, order: str = ORDER) -> Cache:
    """Returns a cache without tokens.

    Args:
        config: of the model; its `seq` is not asked for.
        length: how many tokens there is room for.
        dtype: of keys and values.
        order: of their dims.

    Returns:
        `key` and `value`, each [layers, batch, heads, kv, head], or in another order.
    """
    named = {dim.name: dim for dim in (*config.dims("layers batch heads head"), ml.Dim("kv", length))}
    dims = [named[name] for name in order.split()]
    return {name: ml.tensor(jnp.zeros([dim.size for dim in dims], dtype), *dims) for name in ("key", "value")}


def inputs(
    config: llama.Config, length: int, order: str = ORDER
) -> tuple[Params, Cache, ml.Tensor, jax.ShapeDtypeStruct]:
    """Returns the shapes of what `step` takes: parameters, cache, tokens: [batch, seq], and the position.

    Args:
        config: of the model; `seq` is how many tokens are written at once.
        length: how many tokens the cache has room for; more than `seq`.
        order: of the dims of the cache.
    """
    cache = jax.eval_shape(lambda: empty(config, length, order=order))
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

    def layer(carry, slices):
        (x, cache), (weights, at) = carry, slices
        y = rms_norm(x, weights["attention_norm"], llama.EPSILON)
        cache = remember(cache, y, weights, rotation, (at, position))
        x = x + attend(y, recalled(cache, at), weights, rotation, visible)
        return (x + gated(rms_norm(x, weights["ffn_norm"], llama.EPSILON), weights), cache), None

    layers = ml.arange(ml.Dim("layers", size(cache["key"], "layers")))
    (x, cache), _ = ml.scan(layer, (x, cache), (params["layers"], layers), "layers")
    return wide(to_logits(rms_norm(x, params["norm"], llama.EPSILON), params["head"])), cache


def remember(cache: Cache, x: ml.Tensor, weights: Params, rotation: Rotation, at: tuple[Any, Any]) -> Cache:
    """Returns the cache with the keys and values of new tokens written into one layer.

    Args:
        cache: key and value: [layers, batch, heads, kv, head], in any order.
        x: [batch, seq, embed], normalised.
        weights: key and value: [embed, heads, head].
        rotation: cosine and sine of the angles of the new tokens, [seq, half].
        at: the number of the layer, and where along `kv` the first of them is written.
    """
    new = {"key": rotate(ml.dot(x, weights["key"], "embed"), rotation), "value": ml.dot(x, weights["value"], "embed")}
    return {name: write(cache[name], each, at) for name, each in new.items()}


def write(array: ml.Tensor, new: ml.Tensor, at: tuple[Any, Any]) -> ml.Tensor:
    """Returns a tensor with another written over a part of one layer.

    Args:
        array: [layers, batch, heads, kv, head], in any order.
        new: [batch, seq, heads, head].
        at: the number of the layer, and where along `kv` the first of `seq` is written.
    """
    names, of_new = ([dim.name for dim in each.dims] for each in (array, new))
    axes = [of_new.index("seq" if name == "kv" else name) for name in names if name != "layers"]
    values = jnp.expand_dims(new.array.transpose(axes), names.index("layers")).astype(array.dtype)
    place = {"layers": at[0], "kv": at[1]}
    start = [place.get(name, np.int32(0)) for name in names]
    return ml.tensor(lax.dynamic_update_slice(array.array, values, start), *array.dims)


def recalled(cache: Cache, layer: Any) -> Cache:
    """Returns what a cache holds of one layer: key and value, in its order of dims."""
    found = {}
    for name, each in cache.items():
        axis = [dim.name for dim in each.dims].index("layers")
        dims = (*each.dims[:axis], *each.dims[axis + 1 :])
        found[name] = ml.tensor(lax.dynamic_index_in_dim(each.array, layer, axis, keepdims=False), *dims)
    return found


@jax.named_scope("attention")
def attend(x: ml.Tensor, present: Cache, weights: Params, rotation: Rotation, visible: ml.Tensor) -> ml.Tensor:
    """Lets each token read what the cache holds up to itself.

    Args:
        x: [batch, seq, embed], normalised.
        present: key and value: [batch, heads, kv, head].
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
