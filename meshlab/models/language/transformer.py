"""A decoder-only transformer, as they are built today.

RMS norms, rotary positions, causal attention with grouped queries, a gated feed-forward network, and one table for
embedding and output. All layers are one `ml.scan` under `ml.checkpoint`.

What to know of its dims:

- `heads` are the key-value heads, and each serves a `group` of queries: a query has [heads, group, head].
- Attention relates each position to every other, so one tensor has both: keys and values are renamed, `seq` to `kv`.
  With `seq` on an axis of the mesh that rename is where they are gathered.
- `half` is half a head: rotary positions rotate the first half against the second.
- The stream between layers is tagged `residual`, so that a layout can store it otherwise than it is computed.

    config = Config()
    params = init(jax.random.key(0), config)
    loss(params, tokens, targets)                      # both [batch, seq]
"""

from __future__ import annotations

import dataclasses

import jax

import meshlab as ml

from ..parts.layers import attention, looked_up, repeated, rms_norm, rotary, to_logits
from ..parts.layers import gated as feed_forward
from ..parts.sizes import Sizes
from ..parts.tasks import next_token_loss, token_inputs
from ..parts.weights import Params, attention_table, gated_table, normed


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
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


def init(key: jax.Array, config: Config) -> Params:
    """Draws the parameters: `embedding`, `norm`, and `layers`, each of which has the dim `layers` first."""
    return normed(key, config, {"embedding": ("vocab embed", ())}, attention_table() | gated_table())


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
    rotation = rotary(x, params["layers"]["query"])

    def layer(x, weights):
        x = ml.tag(x + attention(rms_norm(x, weights["attention_norm"]), rotation, weights), "residual")
        return ml.tag(x + feed_forward(rms_norm(x, weights["ffn_norm"]), weights), "residual")

    x = repeated(layer, x, params["layers"], saved=saved)
    return to_logits(rms_norm(x, params["norm"]), params["embedding"])


loss = next_token_loss(predict)
