"""Small steps around operations whose inside is in no array, for the sweep: attention, and experts.

What each is for:

attended      four causal layers, computed again in the backward pass       rings, USP, and stages of two chunks
documents     packed documents with a bias of the keys                      rings in order, where masks hide all
windowed      the same within a window                                      short rings
answered      few queries over a cache of which a part is filled            flash decoding
routed        four layers of experts that tokens are sent to, and stages    all-to-alls, gathered tokens
"""

from __future__ import annotations

from typing import Any

import jax

import meshlab as ml

from .language import moe
from .parts import training
from .parts.initial import shapes
from .zoo import Model, draw

Batch, Seq, Embed, Heads, Group, Depth = ml.dims(batch=8, seq=16, embed=8, heads=4, group=2, depth=4)
Layers = ml.Dim("layers", 4)
Keys = ml.Dim("kv", Seq.size)


def operations() -> tuple[Model, ...]:
    return _attended(), _documents("documents"), _documents("windowed", window=5), _answered(), _routed()


def _model(name: str, step: Any, *arguments: Any, high: int = 2) -> Model:
    def data(seed: int) -> tuple[Any, ...]:
        return jax.tree.map(lambda x: 0.3 * x if x.dtype.kind == "f" else x, draw(arguments, seed, high))

    return Model(name, step, lambda: arguments, data)


def _weights(*front: ml.Dim) -> dict[str, ml.Tensor]:
    shared = ml.f32[(*front, Embed, Heads, Depth)]
    return {
        "q": ml.f32[(*front, Embed, Heads, Group, Depth)],
        "k": shared,
        "v": shared,
        "out": ml.f32[(*front, Heads, Group, Depth, Embed)],
    }


def _attend(weights: dict[str, ml.Tensor], x: ml.Tensor, **options: Any) -> ml.Tensor:
    q, k, v = (ml.dot(x, weights[name], Embed) for name in "qkv")
    with jax.named_scope("core"):
        mixed = ml.attention(q, k.rename(seq="kv"), v.rename(seq="kv"), Seq, "kv", causal=True, **options)
    return ml.dot(mixed, weights["out"], Heads, Group, Depth)


def _attended() -> Model:
    def loss(params, x):
        layer = ml.checkpoint(lambda x, weights: ml.tanh(x + _attend(weights, x)))
        x, _ = ml.scan(lambda x, weights: (layer(x, weights), None), x, params, Layers)
        return (x**2).mean()

    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    return _model("attended", step, _weights(Layers), ml.f32[Batch, Seq, Embed])


def _documents(name: str, window: int | None = None) -> Model:
    def loss(params, x, bias, document):
        options = {"query_segments": document, "key_segments": document.rename(seq="kv"), "window": window}
        return (_attend(params, x, bias=bias, **options) ** 2).mean()

    def step(params, x, bias, document):
        return jax.value_and_grad(loss, argnums=(0, 1, 2))(params, x, bias, document)

    return _model(name, step, _weights(), ml.f32[Batch, Seq, Embed], ml.f32[Keys], ml.i32[Batch, Seq], high=3)


def _answered() -> Model:
    Queries = ml.Dim("seq", 2)

    def step(weights, x, keys, values, filled):
        query = ml.dot(x, weights["q"], Embed)
        with jax.named_scope("core"):
            here = 0 * ml.arange(Queries)
            mixed = ml.attention(query, keys, values, "seq", "kv", query_segments=here, key_segments=filled)
        return ml.dot(mixed, weights["out"], Heads, Group, Depth)

    cache = ml.f32[Batch, Keys, Heads, Depth]
    return _model("answered", step, _weights(), ml.f32[Batch, Queries, Embed], cache, cache, ml.i32[Batch, Keys])


def _routed() -> Model:
    config = moe.Config(batch=8, seq=8, vocab=16, embed=8, heads=2, ffn=16, experts=8, layers=4)

    def loss(params, tokens, targets):
        return moe.sorted_loss(params, tokens, targets, factor=8.0)  # however many devices there are, none is dropped

    def arguments():
        return shapes(moe.init, config), *moe.inputs(config)

    def data(seed: int):
        return moe.init(jax.random.key(seed), config), *draw(moe.inputs(config), seed, config.vocab)

    return Model("routed", training.sgd_step(loss), arguments, data)
