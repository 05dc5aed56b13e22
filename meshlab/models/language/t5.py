"""T5: an encoder and a decoder, relative positions in buckets, cross attention, no biases.

    config = Config.base()                             # 222,903,552 parameters
    loss(params, source, targets)                      # [batch, source] and [batch, seq]

What to know of its dims:

- The encoder's sequence is `source`, the decoder's is `seq`: two dims, so a layout may split one and not the other.
- Keys and values are renamed, `source` to `source_kv` and `seq` to `kv`: what reads and what is read may both be split,
  and there the latter is gathered. Cross attention relates `seq` to `source_kv`.
- How far a key is from its query falls into one of the `buckets`, small distances each into its own and large ones
  together; each bucket has a bias for each head, the same in all layers.

The decoder is given the targets shifted by one, with token 0 first, as T5 is trained. Scores are not scaled, and the
logits are, by the square root of `embed`: so are the published checkpoints of version 1.0, to which the sizes belong.

Sizes and formula: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer", and the checkpoints' config files (`google-t5/t5-base` and its siblings).
"""

from __future__ import annotations

import dataclasses
import math

import jax

import meshlab as ml

from ..parts.layers import MASKED, looked_up, repeated, rms_norm, size, softmax, to_logits, token_loss
from ..parts.sizes import Sizes
from ..parts.weights import Params, attention_table, draw, hidden_table, ones, unstack

# Distances from here on share the last bucket.
FURTHEST = 128


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
    """Sizes of T5.

    Attributes:
        source: the length of what the encoder reads.
        seq: the length of what the decoder writes.
        buckets: of distances; even, since the encoder gives half of them to each direction.
        layers: of the encoder, and as many of the decoder.
        unrolled: whether the layers are a Python loop over a list of weights, not a scan.
    """

    batch: int = 8
    source: int = 16
    seq: int = 8
    vocab: int = 64
    embed: int = 16
    heads: int = 4
    head: int = 4
    ffn: int = 32
    buckets: int = 8
    layers: int = 2
    unrolled: bool = False

    @classmethod
    def small(cls, batch: int = 8, source: int = 512, seq: int = 512) -> Config:
        """T5 small: 60,506,624 parameters."""
        return cls(batch, source, seq, 32_128, embed=512, heads=8, head=64, ffn=2048, buckets=32, layers=6)

    @classmethod
    def base(cls, batch: int = 8, source: int = 512, seq: int = 512) -> Config:
        """T5 base: 222,903,552 parameters."""
        return cls(batch, source, seq, 32_128, embed=768, heads=12, head=64, ffn=3072, buckets=32, layers=12)

    @classmethod
    def eleven_b(cls, batch: int = 8, source: int = 512, seq: int = 512) -> Config:
        """T5 11B: 11,307,321,344 parameters."""
        return cls(batch, source, seq, 32_128, embed=1024, heads=128, head=128, ffn=65_536, buckets=32, layers=24)


def init(key: jax.Array, config: Config) -> Params:
    """Draws the parameters: `embedding`, and the layers, norm and biases of `encoder` and `decoder`."""
    keys = dict(zip(("embedding", "encoder", "decoder"), jax.random.split(key, 3), strict=True))
    return {
        **draw(keys["embedding"], config, {"embedding": ("vocab embed", ())}),
        "encoder": _stack(keys["encoder"], config, "own"),
        "decoder": _stack(keys["decoder"], config, "own", "cross"),
    }


def _stack(key: jax.Array, config: Config, *attentions: str) -> Params:
    """Draws the parameters of encoder or decoder, whose layers have the attentions listed."""
    layers_key, biases_key, *keys = jax.random.split(key, 2 + len(attentions))
    attention = attention_table(heads="heads head")
    layers = draw(layers_key, config, hidden_table())
    layers |= {which: draw(each, config, attention) for each, which in zip(keys, attentions, strict=True)}
    layers |= {f"{which}_norm": ones(config.dims("layers embed")) for which in (*attentions, "ffn")}
    return {
        **draw(biases_key, config, {"biases": ("buckets heads", ())}),
        "layers": unstack(layers) if config.unrolled else layers,
        "norm": ones(config.dims("embed")),
    }


def inputs(config: Config) -> tuple[ml.Tensor, ml.Tensor]:
    """Returns the shapes of source: [batch, source] and targets: [batch, seq]."""
    return ml.i32[config.dims("batch source")], ml.i32[config.dims("batch seq")]


def loss(params: Params, source: ml.Tensor, targets: ml.Tensor) -> jax.Array:
    """Returns the mean cross entropy of the targets, each predicted from the source and the targets before it.

    Args:
        params: as `init` makes them.
        source: [batch, source].
        targets: [batch, seq].
    """
    return token_loss(predict(params, source, ml.shift(targets, "seq", 1)), targets)


def predict(params: Params, source: ml.Tensor, tokens: ml.Tensor) -> ml.Tensor:
    """Returns the logits of the next token at each position.

    Args:
        params: as `init` makes them.
        source: [batch, source].
        tokens: [batch, seq], what was written up to each position.

    Returns:
        [batch, seq, vocab].
    """
    table = params["embedding"]
    memory = encode(params["encoder"], looked_up(table, source))
    x = decode(params["decoder"], looked_up(table, tokens), memory)
    return to_logits(x * size(x, "embed") ** -0.5, table)


def encode(params: Params, x: ml.Tensor) -> ml.Tensor:
    """Applies the encoder, in which every position reads every other.

    Args:
        params: biases, layers and norm.
        x: [batch, source, embed].

    Returns:
        [batch, source, embed].
    """
    Source, Key = (ml.Dim(name, size(x, "source")) for name in ("source", "source_kv"))
    distance = ml.arange(Key) - ml.arange(Source)
    half = size(params["biases"], "buckets") // 2
    bucket = ml.where(distance > 0, half, 0) + buckets(ml.abs(distance), half)
    bias = ml.take(params["biases"], bucket, "buckets")

    def layer(x, weights):
        y = rms_norm(x, weights["own_norm"])
        x = ml.tag(x + attention(y, y, weights["own"], bias, source="source_kv"), "residual")
        return ml.tag(x + feed_forward(rms_norm(x, weights["ffn_norm"]), weights), "residual")

    return rms_norm(repeated(layer, ml.tag(x, "residual"), params["layers"]), params["norm"])


def decode(params: Params, x: ml.Tensor, memory: ml.Tensor) -> ml.Tensor:
    """Applies the decoder, in which each position reads itself, those before it, and all of the source.

    Args:
        params: biases, layers and norm.
        x: [batch, seq, embed].
        memory: [batch, source, embed], from the encoder.

    Returns:
        [batch, seq, embed].
    """
    Seq, Key = (ml.Dim(name, size(x, "seq")) for name in ("seq", "kv"))
    distance = ml.arange(Seq) - ml.arange(Key)
    bucket = buckets(ml.maximum(distance, 0), size(params["biases"], "buckets"))
    bias = ml.where(distance >= 0, ml.take(params["biases"], bucket, "buckets"), MASKED)

    def layer(x, weights):
        y = rms_norm(x, weights["own_norm"])
        x = ml.tag(x + attention(y, y, weights["own"], bias, seq="kv"), "residual")
        y = rms_norm(x, weights["cross_norm"])
        x = ml.tag(x + attention(y, memory, weights["cross"], source="source_kv"), "residual")
        return ml.tag(x + feed_forward(rms_norm(x, weights["ffn_norm"]), weights), "residual")

    return rms_norm(repeated(layer, ml.tag(x, "residual"), params["layers"]), params["norm"])


def buckets(distance: ml.Tensor, count: int) -> ml.Tensor:
    """Returns which bucket a distance falls into.

    Half of the buckets hold one distance each, the others hold more and more: they are even on a logarithmic scale.

    Args:
        distance: integers, 0 or more.
        count: of buckets.

    Returns:
        Integers below `count`, the dims of `distance`.
    """
    exact = count // 2
    decades = ml.log(ml.maximum(distance, 1).astype(ml.f32) / exact) / math.log(FURTHEST / exact)
    large = exact + (decades * (count - exact)).astype(ml.i32)
    return ml.where(distance < exact, distance, ml.minimum(large, count - 1))


@jax.named_scope("attention")
def attention(
    x: ml.Tensor, memory: ml.Tensor, weights: Params, bias: ml.Tensor | None = None, **names: str
) -> ml.Tensor:
    """Lets each position read from all positions of a memory.

    Args:
        x: [batch, source or seq, embed], normalised.
        memory: [batch, source or seq, embed].
        weights: query, key and value: [embed, heads, head], and output: [heads, head, embed].
        bias: [seq, kv, heads], added to the scores.
        names: old=new, for the sequence of keys and values.

    Returns:
        The dims of `x`.
    """
    query, key, value = (
        ml.dot(y, weights[name], "embed") for name, y in (("query", x), ("key", memory), ("value", memory))
    )
    with jax.named_scope("core"):
        key, value = key.rename(**names), value.rename(**names)
        scores = ml.dot(query, key, "head")
        mixture = softmax(scores if bias is None else scores + bias, key.dims[1].name)
        mixed = ml.dot(mixture, value, key.dims[1])
    return ml.dot(mixed, weights["output"], "heads", "head")


@jax.named_scope("ffn")
def feed_forward(x: ml.Tensor, weights: Params) -> ml.Tensor:
    """Applies a network of one hidden layer.

    Args:
        x: [batch, source or seq, embed], normalised.
        weights: up: [embed, ffn], down: [ffn, embed].

    Returns:
        The dims of `x`.
    """
    return ml.dot(ml.relu(ml.dot(x, weights["up"], "embed")), weights["down"], "ffn")
