"""Gemma 2: every other layer sees a window only; scores and logits are capped; norms before and after.

A sequence is two dims, [blocks, window], so that what is local is so in the layout as well:

- A *local* layer lets each position read the last `window` positions, itself among them: those are in its own block and
  the one before it. Keys and values of the block before come by `ml.shift` along `blocks`, so with `blocks` on an axis
  of the mesh each device asks its neighbour for one block, and no more. The work grows with the window, not with the
  sequence.
- A *global* layer reads all positions before: there keys and values are renamed, `blocks` and `window` at once, and
  that is where a split sequence is gathered.

Nothing is reshaped for either: one softmax may go over several dims, and over several parts (`layers.mix`).

    config = Config.gemma2_2b()                        # 2,614,341,888 parameters, blocks of 4,096
    loss(params, tokens, targets)                      # both [batch, blocks, window]

Layers are scanned in pairs of a local and a global one: each is `pairs` times in the model.

Sizes and formula: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size", table 1, and the
checkpoints' config files. The rows of a norm's scale start at 0 and are added to 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax

import meshlab as ml

from ..parts.layers import (
    MASKED,
    Part,
    Rotation,
    frequencies,
    gated,
    looked_up,
    mix,
    repeated,
    rms_norm,
    rotate,
    rotation_of,
    size,
    to_logits,
    wide,
)
from ..parts.sizes import Sizes
from ..parts.tasks import next_token_loss, token_inputs
from ..parts.weights import Params, attention_table, draw, gated_table, one_of, unstack, zeros

SCORE_CAP, LOGIT_CAP = 50.0, 30.0


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
    """Sizes of Gemma.

    Attributes:
        blocks: of `window` positions; the two are the sequence.
        heads: of keys and values.
        group: query heads for each of them.
        pairs: of a local and a global layer.
        unrolled: whether the layers are a Python loop over a list of weights, not a scan.
    """

    batch: int = 8
    blocks: int = 4
    window: int = 4
    vocab: int = 64
    embed: int = 16
    heads: int = 4
    group: int = 2
    head: int = 4
    ffn: int = 32
    pairs: int = 2
    unrolled: bool = False

    @classmethod
    def gemma2_2b(cls, batch: int = 8, blocks: int = 2) -> Config:
        """Gemma 2 2B: 2,614,341,888 parameters."""
        return cls(batch, blocks, 4096, 256_000, 2304, heads=4, group=2, head=256, ffn=9216, pairs=13)

    @classmethod
    def gemma2_9b(cls, batch: int = 8, blocks: int = 2) -> Config:
        """Gemma 2 9B: 9,241,705,984 parameters."""
        return cls(batch, blocks, 4096, 256_000, 3584, heads=8, group=2, head=256, ffn=14_336, pairs=21)


def init(key: jax.Array, config: Config) -> Params:
    """Draws the parameters: `embedding`, `norm`, and the `layers`: `local` and `global`, `pairs` of each."""
    keys = dict(zip(("embedding", "local", "global"), jax.random.split(key, 3), strict=True))
    layers = {name: _layer(keys[name], config) for name in ("local", "global")}
    return {
        **draw(keys["embedding"], config, {"embedding": ("vocab embed", ())}),
        "layers": unstack(layers, "pairs") if config.unrolled else layers,
        "norm": zeros(config.dims("embed")),
    }


def _layer(key: jax.Array, config: Config) -> Params:
    """Draws the weights of all local, or of all global layers."""
    norms = ("attention_norm", "attention_post_norm", "ffn_norm", "ffn_post_norm")
    drawn = draw(key, config, attention_table("pairs") | gated_table("pairs"))
    return drawn | {name: zeros(config.dims("pairs embed")) for name in norms}


inputs = token_inputs("batch blocks window")


def predict(params: Params, tokens: ml.Tensor) -> ml.Tensor:
    """Returns the logits of the next token at each position.

    Args:
        params: as `init` makes them.
        tokens: [batch, blocks, window].

    Returns:
        [batch, blocks, window, vocab].
    """
    table = params["embedding"]
    x = ml.tag(looked_up(table, tokens) * size(table, "embed") ** 0.5, "residual")
    blocks, window = _positions(x)
    positions = (blocks * window.shape[0] + window).astype(ml.f32)
    rotation = rotation_of(positions * frequencies(one_of(params["layers"])["local"]["query"]))

    def pair(x, weights):
        x = layer(x, weights["local"], rotation, local)
        return layer(x, weights["global"], rotation, everywhere)

    x = repeated(pair, x, params["layers"], "pairs")
    return capped(wide(to_logits(norm(x, params["norm"]), table)), LOGIT_CAP)


loss = next_token_loss(predict)


def layer(x: ml.Tensor, weights: Params, rotation: Rotation, reach: Reach) -> ml.Tensor:
    """Applies one layer.

    Args:
        x: [batch, blocks, window, embed].
        weights: of the layer.
        rotation: cosine and sine of the angles of each position, [blocks, window, half].
        reach: `local` or `everywhere`.

    Returns:
        The dims of `x`.
    """
    attended = attention(norm(x, weights["attention_norm"]), weights, rotation, reach)
    x = ml.tag(x + norm(attended, weights["attention_post_norm"]), "residual")
    hidden = gated(norm(x, weights["ffn_norm"]), weights, ml.gelu)
    return ml.tag(x + norm(hidden, weights["ffn_post_norm"]), "residual")


@jax.named_scope("attention")
def attention(x: ml.Tensor, weights: Params, rotation: Rotation, reach: Reach) -> ml.Tensor:
    """Lets each position read from what it reaches: the arguments of `layer`, the stream normalised."""
    query = rotate(ml.dot(x, weights["query"], "embed"), rotation) * size(weights["query"], "head") ** -0.5
    key, value = rotate(ml.dot(x, weights["key"], "embed"), rotation), ml.dot(x, weights["value"], "embed")
    with jax.named_scope("core"):
        mixture = mix(*reach(query, key, value))
    return ml.dot(mixture, weights["output"], "heads", "group", "head")


def local(query: ml.Tensor, key: ml.Tensor, value: ml.Tensor) -> tuple[Part, Part]:
    """Lets each position read its own block up to itself, and what is left of its window in the block before.

    Args:
        query: [batch, blocks, window, heads, group, head].
        key: [batch, blocks, window, heads, head].
        value: [batch, blocks, window, heads, head].

    Returns:
        Two parts of `layers.mix`, over `kv_window`: the block itself, and the block before it.
    """
    blocks, window = _positions(query)
    kv_window = window.rename(window="kv_window")
    key, value = key.rename(window="kv_window"), value.rename(window="kv_window")
    key_before, value_before = ml.shift(key, "blocks", 1), ml.shift(value, "blocks", 1)
    return (
        _part(query, key, value, window >= kv_window),
        _part(query, key_before, value_before, (blocks > 0) & (window < kv_window)),
    )


def everywhere(query: ml.Tensor, key: ml.Tensor, value: ml.Tensor) -> tuple[Part]:
    """Lets each position read itself and all before it.

    Args:
        query: [batch, blocks, window, heads, group, head].
        key: [batch, blocks, window, heads, head].
        value: [batch, blocks, window, heads, head].

    Returns:
        A part of `layers.mix`, over `kv_blocks` and `kv_window`.
    """
    names = {"blocks": "kv_blocks", "window": "kv_window"}
    blocks, window = _positions(query)
    kv_blocks, kv_window = blocks.rename(blocks="kv_blocks"), window.rename(window="kv_window")
    visible = (blocks > kv_blocks) | ((blocks == kv_blocks) & (window >= kv_window))
    return (_part(query, key.rename(**names), value.rename(**names), visible),)


Reach = Callable[[ml.Tensor, ml.Tensor, ml.Tensor], tuple[Part, ...]]


def _part(query: ml.Tensor, key: ml.Tensor, value: ml.Tensor, visible: ml.Tensor) -> Part:
    """Returns scores, capped and masked, values, and the dims that queries and keys do not share."""
    scores = ml.where(visible, capped(ml.dot(query, key, "head"), SCORE_CAP), MASKED)
    over = tuple(dim.name for dim in value.dims if dim not in query.dims)
    return scores, value, over


def capped(x: ml.Tensor, cap: float) -> ml.Tensor:
    """Returns what is small as it is, and nothing beyond `cap`."""
    return ml.tanh(x / cap) * cap


def norm(x: ml.Tensor, scale: ml.Tensor) -> ml.Tensor:
    """RMS norm whose scale is added to 1: [..., embed], [embed] -> [..., embed]."""
    return rms_norm(x, scale + 1.0)


def _positions(x: ml.Tensor) -> tuple[ml.Tensor, ml.Tensor]:
    """Returns 0, 1, 2, ... along `blocks` and along `window`."""
    blocks, window = (ml.arange(ml.Dim(name, size(x, name))) for name in ("blocks", "window"))
    return blocks, window
