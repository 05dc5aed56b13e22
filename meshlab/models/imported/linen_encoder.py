"""An encoder in Flax Linen, in mixed precision: parameters in float32, activations in bfloat16, a `TrainState`."""

from __future__ import annotations

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState

from .full_sizes import Config

NAMES = {
    "*/tokens/embedding": "vocab embed",
    "*/positions/embedding": "seq embed",
    "*/LayerNorm_*": "embed",
    "*Attention_0/*/kernel": "embed heads head",
    "*Attention_0/out/kernel": "heads head embed",
    "*/Dense_0/kernel": "embed ffn",
    "*/Dense_0/bias": "ffn",
    "*/Dense_1/kernel": "ffn embed",
    "*/Dense_1/bias": "embed",
}


# AdamW's first update is the sign of the gradient, whatever its size: what starts from zero would be nothing but signs,
# of which some are chance in bfloat16.
SMALL = nn.initializers.normal(0.1)


class Layer(nn.Module):
    """Attention and a feed-forward network, each behind a norm."""

    config: Config
    dtype: Any = jnp.bfloat16

    @nn.compact
    def __call__(self, x, mask):
        """x: (batch, seq, embed), and so is what is returned; mask: (batch, 1, seq, seq)."""
        dense = functools.partial(nn.Dense, dtype=self.dtype, bias_init=SMALL)
        y = nn.LayerNorm(dtype=self.dtype, bias_init=SMALL)(x)
        y = nn.MultiHeadDotProductAttention(self.config.heads, dtype=self.dtype, use_bias=False)(y, mask=mask)
        x = x + nn.Dropout(0.1, deterministic=True)(y)
        y = nn.LayerNorm(dtype=self.dtype, bias_init=SMALL)(x)
        y = nn.gelu(dense(self.config.ffn)(y))
        y = dense(self.config.embed)(y)
        return x + nn.Dropout(0.1, deterministic=True)(y)


class Encoder(nn.Module):
    """Predicts a token at each position; positions of token 0 are padding, and nobody attends to them."""

    config: Config
    dtype: Any = jnp.bfloat16

    @nn.compact
    def __call__(self, tokens):
        """tokens: (batch, seq); returns logits: (batch, seq, vocab)."""
        config = self.config
        table = nn.Embed(config.vocab, config.embed, dtype=self.dtype, name="tokens")
        positions = nn.Embed(config.seq, config.embed, dtype=self.dtype, name="positions")
        x = table(tokens) + positions(jnp.arange(tokens.shape[1]))
        mask = nn.make_attention_mask(tokens > 0, tokens > 0, dtype=self.dtype)
        for _ in range(config.layers):
            x = Layer(config, self.dtype)(x, mask)
        x = nn.LayerNorm(dtype=self.dtype, bias_init=SMALL)(x)
        return table.attend(x).astype(jnp.float32)


@functools.cache
def static(config: Config) -> tuple[Encoder, optax.GradientTransformation]:
    """One module and one optimizer for all states, as a script has them: states of others are other trees to JAX."""
    return Encoder(config), optax.adamw(1e-3)


def init(key: jax.Array, config: Config) -> TrainState:
    """Draws the parameters, with AdamW's state beside them."""
    model, optimizer = static(config)
    variables = model.init(key, jnp.zeros((1, config.seq), jnp.int32))
    return TrainState.create(apply_fn=model.apply, params=variables["params"], tx=optimizer)


def step(state: TrainState, tokens: jax.Array, targets: jax.Array) -> tuple[TrainState, jax.Array]:
    """One step of training; tokens and targets: (batch, seq)."""

    def loss_fn(params):
        logits = state.apply_fn({"params": params}, tokens)
        return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss
