"""A decoder-only transformer, as they are built today.

RMS norms, rotary positions, causal attention with grouped queries, a gated feed-forward network, and one table for
embedding and output. All layers are one `ml.scan` under `ml.checkpoint`.

What to know of its dims:

- `heads` are the key-value heads, and each serves a `group` of queries: a query has [heads, group, head].
- Attention relates each position to every other, so one tensor has both: keys and values are renamed, `seq` to `kv`.
  With `seq` on an axis of the mesh that rename is where they are gathered.
- `half` is half a head: rotary positions turn the first half against the second.
- The stream between layers is tagged `residual`, so that a layout can store it otherwise than it is computed.

    config = Config()
    params = init(jax.random.key(0), config)
    loss(params, tokens, targets)                      # both [batch, seq]
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np

import meshlab as ml

from .initial import normals

Params = dict[str, Any]
Turns = tuple[ml.Tensor, ml.Tensor]
_MASKED = -1e30


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of the transformer; `heads` times `group` is the number of query heads."""

    batch: int = 8
    seq: int = 128
    vocab: int = 512
    embed: int = 128
    heads: int = 4
    group: int = 2
    head: int = 16
    ffn: int = 384
    layers: int = 4

    def __getitem__(self, name: str) -> ml.Dim:
        return ml.Dim(name, getattr(self, name))

    def dims(self, names: str) -> tuple[ml.Dim, ...]:
        """Returns dims by their names: `config.dims("batch seq")`."""
        return tuple(self[name] for name in names.split())


def init(key: jax.Array, config: Config) -> Params:
    """Draws the parameters: `embedding`, `norm`, and `layers`, each of which has the dim `layers` first."""
    summed = {
        "query": ("layers embed heads group head", ("embed",)),
        "key": ("layers embed heads head", ("embed",)),
        "value": ("layers embed heads head", ("embed",)),
        "output": ("layers heads group head embed", ("heads", "group", "head")),
        "gate": ("layers embed ffn", ("embed",)),
        "up": ("layers embed ffn", ("embed",)),
        "down": ("layers ffn embed", ("ffn",)),
    }
    table_key, layers_key = jax.random.split(key)
    layers = normals(layers_key, {name: (config.dims(names), over) for name, (names, over) in summed.items()})
    norms = {name: _ones(config.dims("layers embed")) for name in ("attention_norm", "ffn_norm")}
    table = normals(table_key, {"embedding": (config.dims("vocab embed"), ())})
    return {**table, "layers": layers | norms, "norm": _ones(config.dims("embed"))}


def inputs(config: Config) -> tuple[ml.Tensor, ml.Tensor]:
    """Returns the shapes of tokens and targets, both [batch, seq]."""
    shape = ml.i32[config.dims("batch seq")]
    return shape, shape


def loss(params: Params, tokens: ml.Tensor, targets: ml.Tensor) -> jax.Array:
    """Returns the mean cross entropy of the next tokens.

    Args:
        params: as `init` makes them.
        tokens: [batch, seq].
        targets: [batch, seq], for each position the token that follows.
    """
    return ml.cross_entropy(predict(params, tokens), targets, "vocab").mean()


def predict(params: Params, tokens: ml.Tensor) -> ml.Tensor:
    """Returns the logits of the next token at each position.

    Args:
        params: as `init` makes them.
        tokens: [batch, seq].

    Returns:
        [batch, seq, vocab].
    """
    x = ml.tag(ml.take(params["embedding"], tokens, "vocab"), "residual")
    turns = rotary(x, params["layers"]["query"])

    def layer(x, weights):
        x = ml.tag(x + attention(rms_norm(x, weights["attention_norm"]), turns, weights), "residual")
        x = ml.tag(x + feed_forward(rms_norm(x, weights["ffn_norm"]), weights), "residual")
        return x, None

    x, _ = ml.scan(ml.checkpoint(layer), x, params["layers"], "layers")
    return ml.dot(rms_norm(x, params["norm"]), params["embedding"], "embed")


def attention(x: ml.Tensor, turns: Turns, weights: Params) -> ml.Tensor:
    """Lets each position read from itself and those before it.

    Args:
        x: [batch, seq, embed], normalised.
        turns: as `rotary` makes them.
        weights: query: [embed, heads, group, head], key and value: [embed, heads, head],
            output: [heads, group, head, embed].

    Returns:
        [batch, seq, embed].
    """
    query = rotate(ml.dot(x, weights["query"], "embed"), turns)
    key = rotate(ml.dot(x, weights["key"], "embed"), turns).rename(seq="kv")
    value = ml.dot(x, weights["value"], "embed").rename(seq="kv")
    scores = ml.dot(query, key, "head") * _size(query, "head") ** -0.5
    earlier = ml.arange(ml.Dim("seq", _size(x, "seq"))) >= ml.arange(ml.Dim("kv", _size(x, "seq")))
    mixture = ml.softmax(ml.where(earlier, scores, _MASKED), "kv")
    return ml.dot(ml.dot(mixture, value, "kv"), weights["output"], "heads", "group", "head")


def feed_forward(x: ml.Tensor, weights: Params) -> ml.Tensor:
    """Applies the gated network.

    Args:
        x: [batch, seq, embed], normalised.
        weights: gate and up: [embed, ffn], down: [ffn, embed].

    Returns:
        [batch, seq, embed].
    """
    hidden = ml.silu(ml.dot(x, weights["gate"], "embed")) * ml.dot(x, weights["up"], "embed")
    return ml.dot(hidden, weights["down"], "ffn")


def rms_norm(x: ml.Tensor, scale: ml.Tensor) -> ml.Tensor:
    """Scales each position to a mean square of 1, then by `scale`: [embed].

    Args:
        x: [batch, seq, embed].
        scale: [embed].
    """
    return x * ml.rsqrt(ml.square(x).mean("embed") + 1e-6) * scale


def rotary(x: ml.Tensor, query: ml.Tensor) -> Turns:
    """Returns how far each pair of elements is turned at each position.

    Args:
        x: [..., seq, ...].
        query: [..., head, ...], for the size of a head.

    Returns:
        Cosine and sine of the angles, both [seq, half].
    """
    half = ml.Dim("half", _size(query, "head") // 2)
    frequency = ml.exp(ml.arange(half, ml.f32) * (-math.log(10_000.0) / half.size))
    angles = ml.arange(ml.Dim("seq", _size(x, "seq")), ml.f32) * frequency
    return ml.cos(angles), ml.sin(angles)


def rotate(x: ml.Tensor, turns: Turns) -> ml.Tensor:
    """Turns the two halves of each head against each other.

    Args:
        x: [..., seq, head].
        turns: as `rotary` makes them.

    Returns:
        The dims of `x`.
    """
    cos, sin = turns
    head, half = ml.Dim("head", _size(x, "head")), ml.Dim("half", _size(cos, "half"))
    first, second = ml.split(x, head, half)
    return ml.concat((first * cos - second * sin, second * cos + first * sin), half, head)


def _size(x: ml.Tensor, name: str) -> int:
    """Returns the size of a dim."""
    return next(dim.size for dim in x.dims if dim.name == name)


def _ones(dims: tuple[ml.Dim, ...]) -> ml.Tensor:
    """Returns scales that change nothing yet."""
    return ml.tensor(np.ones([dim.size for dim in dims], np.float32), *dims)
