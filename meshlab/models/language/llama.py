"""Llama 3: RMS norms, rotary positions, grouped queries, SwiGLU, and a head that is no transposed embedding.

    config = Config.llama3_70b()                       # 70,553,706,496 parameters
    params = shapes(init, config)                      # their shapes; no memory is taken

The layer is that of `transformer.py`, with the constants of Llama 3. What it has besides is both forms of its layers:
one scan, or (`unrolled=True`) a Python loop over a list of weights, whose step with AdamW has about 13,000 equations
for 32 layers. Both compute the same; a scan keeps the program short, a loop lets every layer be looked at.

As everywhere in the zoo, `heads` are the heads of keys and values, and each serves a `group` of queries.

Sizes and formula: Grattafiori et al. 2024, "The Llama 3 Herd of Models", table 3, and the checkpoints' config files.
Rotary positions rotate the first half of a head against the second, as in the checkpoints for Hugging Face; Meta's own
rotate even against odd elements, which is the same model with the rows of query and key in another order.
"""

from __future__ import annotations

import dataclasses

import jax

import meshlab as ml

from ..parts.layers import attention, gated, looked_up, repeated, rms_norm, rotary, to_logits
from ..parts.sizes import Sizes
from ..parts.tasks import next_token_loss, token_inputs
from ..parts.weights import Params, attention_table, gated_table, normed, one_of

THETA = 500_000.0
EPSILON = 1e-5


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
    """Sizes of Llama.

    Attributes:
        heads: of keys and values.
        group: query heads for each of them.
        unrolled: whether the layers are a Python loop over a list of weights, not a scan.
    """

    batch: int = 8
    seq: int = 16
    vocab: int = 64
    embed: int = 16
    heads: int = 4
    group: int = 2
    head: int = 4
    ffn: int = 32
    layers: int = 2
    unrolled: bool = False

    @classmethod
    def llama3_8b(cls, batch: int = 8, seq: int = 8192, unrolled: bool = False) -> Config:
        """Llama 3 8B: 8,030,261,248 parameters."""
        return cls(batch, seq, 128_256, 4096, heads=8, group=4, head=128, ffn=14_336, layers=32, unrolled=unrolled)

    @classmethod
    def llama3_70b(cls, batch: int = 8, seq: int = 8192, unrolled: bool = False) -> Config:
        """Llama 3 70B: 70,553,706,496 parameters."""
        return cls(batch, seq, 128_256, 8192, heads=8, group=8, head=128, ffn=28_672, layers=80, unrolled=unrolled)

    @classmethod
    def llama3_405b(cls, batch: int = 8, seq: int = 8192, unrolled: bool = False) -> Config:
        """Llama 3.1 405B: 405,853,388,800 parameters."""
        return cls(batch, seq, 128_256, 16_384, heads=8, group=16, head=128, ffn=53_248, layers=126, unrolled=unrolled)


def init(key: jax.Array, config: Config) -> Params:
    """Draws the parameters: `embedding`, `head`, `norm`, and the `layers`."""
    tables = {"embedding": ("vocab embed", ()), "head": ("embed vocab", ("embed",))}
    return normed(key, config, tables, attention_table() | gated_table())


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
    x = ml.tag(looked_up(params["embedding"], tokens), "residual")
    rotation = rotary(x, one_of(params["layers"])["query"], THETA)

    def layer(x, weights):
        x = ml.tag(x + attention(rms_norm(x, weights["attention_norm"], EPSILON), rotation, weights), "residual")
        return ml.tag(x + gated(rms_norm(x, weights["ffn_norm"], EPSILON), weights), "residual")

    x = repeated(layer, x, params["layers"], saved=saved)
    return to_logits(rms_norm(x, params["norm"], EPSILON), params["head"])


loss = next_token_loss(predict)
