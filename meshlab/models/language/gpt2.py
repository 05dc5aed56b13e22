"""GPT-2: learnt positions, layer norms and biases, GELU, one table for embedding and output.

    config = Config.small()                            # 124,439,808 parameters
    params = shapes(init, config)                      # their shapes; no memory is taken
    program = ml.trace(training.adamw_step(loss, optimizer), params, state, *inputs(config))

The positions' table has the dim `seq`, so that it is split with the sequence, and added without a look-up. Of the
three projections of attention each is a tensor of its own: fused into one, as in the published checkpoints, they would
be a dim of three that no layout can use.

Sizes and formula: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"; the numbers are those of
the published checkpoints' config files (`openai-community/gpt2` and its larger siblings).
"""

from __future__ import annotations

import dataclasses

import jax

import meshlab as ml

from ..parts.layers import (
    core,
    feed_forward,
    keepable,
    layer_norm,
    looked_up,
    projected,
    repeated,
    to_logits,
)
from ..parts.sizes import Sizes
from ..parts.tasks import next_token_loss, token_inputs
from ..parts.weights import Params, biased, draw, scale_and_bias, unstack


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
    """Sizes of GPT-2.

    Attributes:
        seq: the length of the context, and of the table of positions.
        unrolled: whether the layers are a Python loop over a list of weights, not a scan.
    """

    batch: int = 8
    seq: int = 16
    vocab: int = 64
    embed: int = 16
    heads: int = 4
    head: int = 4
    ffn: int = 64
    layers: int = 2
    unrolled: bool = False

    @classmethod
    def small(cls, batch: int = 8) -> Config:
        """GPT-2 small: 124,439,808 parameters."""
        return cls(batch, seq=1024, vocab=50_257, embed=768, heads=12, head=64, ffn=3072, layers=12)

    @classmethod
    def xl(cls, batch: int = 8) -> Config:
        """GPT-2 XL: 1,557,611,200 parameters."""
        return cls(batch, seq=1024, vocab=50_257, embed=1600, heads=25, head=64, ffn=6400, layers=48)


def init(key: jax.Array, config: Config) -> Params:
    """Draws the parameters: `embedding`, `positions`, `norm`, and the `layers`; biases are zero."""
    tables_key, layers_key = jax.random.split(key)
    layers = biased(layers_key, config)
    return {
        **draw(tables_key, config, {"embedding": ("vocab embed", ()), "positions": ("seq embed", ())}),
        "layers": unstack(layers) if config.unrolled else layers,
        "norm": scale_and_bias(config.dims("embed")),
    }


inputs = token_inputs()


def predict(params: Params, tokens: ml.Tensor, saved: tuple[str, ...] = ()) -> ml.Tensor:
    """Returns the logits of the next token at each position.

    Args:
        params: as `init` makes them.
        tokens: [batch, seq].
        saved: as for `layers.repeated`.

    Returns:
        [batch, seq, vocab].
    """
    x = ml.tag(looked_up(params["embedding"], tokens) + params["positions"], "residual")

    def layer(x, weights):
        x = ml.tag(x + attention(layer_norm(x, *weights["attention_norm"]), weights), "residual")
        return ml.tag(x + feed_forward(layer_norm(x, *weights["ffn_norm"]), weights), "residual")

    x = repeated(layer, x, params["layers"], saved=saved)
    return to_logits(layer_norm(x, *params["norm"]), params["embedding"])


loss = next_token_loss(predict)


@jax.named_scope("attention")
def attention(x: ml.Tensor, weights: Params) -> ml.Tensor:
    """Lets each position read from itself and those before it.

    Args:
        x: [batch, seq, embed], normalised.
        weights: query, key and value: [embed, heads, head], their biases: [heads, head], output: [heads, head, embed],
            its bias: [embed].

    Returns:
        [batch, seq, embed].
    """
    query, key, value = projected(x, weights)
    heads = keepable(core(query, key, value), "core")
    return keepable(ml.dot(heads, weights["output"], "heads", "head") + weights["output_bias"], "attention")
