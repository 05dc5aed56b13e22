"""A decoder in Equinox: modules for one sequence, mapped over the batch, with Adafactor on the arrays among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from .full_sizes import Config

NAMES = {
    "tokens/weight": "vocab embed",
    "positions/weight": "seq embed",
    "*norm/*": "embed",
    "*_proj/weight": "(heads=4 head) embed",
    "*/output_proj/weight": "embed (heads=4 head)",
    "*/mlp/layers/0/weight": "ffn embed",
    "*/mlp/layers/0/bias": "ffn",
    "*/mlp/layers/1/weight": "embed ffn",
    "*/mlp/layers/1/bias": "embed",
    "head/weight": "vocab embed",
}


class Layer(eqx.Module):
    """Attention and a feed-forward network, each behind a norm."""

    attention_norm: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    mlp_norm: eqx.nn.LayerNorm
    mlp: eqx.nn.MLP

    def __init__(self, config: Config, key: jax.Array):
        first, second = jax.random.split(key)
        self.attention_norm = eqx.nn.LayerNorm(config.embed)
        self.attention = eqx.nn.MultiheadAttention(config.heads, config.embed, key=first)
        self.mlp_norm = eqx.nn.LayerNorm(config.embed)
        self.mlp = eqx.nn.MLP(config.embed, config.embed, config.ffn, 1, jax.nn.gelu, key=second)

    def __call__(self, x: jax.Array) -> jax.Array:
        """x: (seq, embed), and so is what is returned."""
        y = jax.vmap(self.attention_norm)(x)
        causal = jnp.tril(jnp.ones((len(x), len(x)), bool))
        x = x + self.attention(y, y, y, mask=causal)
        return x + jax.vmap(self.mlp)(jax.vmap(self.mlp_norm)(x))


class Decoder(eqx.Module):
    """Predicts the next token at each position of one sequence."""

    tokens: eqx.nn.Embedding
    positions: eqx.nn.Embedding
    layers: list[Layer]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, config: Config, key: jax.Array):
        first, second, third, *others = jax.random.split(key, 3 + config.layers)
        self.tokens = eqx.nn.Embedding(config.vocab, config.embed, key=first)
        self.positions = eqx.nn.Embedding(config.seq, config.embed, key=second)
        self.layers = [Layer(config, each) for each in others]
        self.norm = eqx.nn.LayerNorm(config.embed)
        self.head = eqx.nn.Linear(config.embed, config.vocab, use_bias=False, key=third)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """tokens: (seq,); returns logits: (seq, vocab)."""
        x = jax.vmap(self.tokens)(tokens) + jax.vmap(self.positions)(jnp.arange(len(tokens)))
        for layer in self.layers:
            x = layer(x)
        return jax.vmap(self.head)(jax.vmap(self.norm)(x))


def optimizer() -> optax.GradientTransformation:
    """Adafactor that factors all but the smallest weights."""
    return optax.adafactor(1e-2, min_dim_size_to_factor=8)


def init(key: jax.Array, config: Config) -> Any:
    """Draws the arrays of the model; what is no array is left out."""
    return eqx.filter(Decoder(config, key), eqx.is_inexact_array)


def training(config: Config) -> Callable[..., Any]:
    """Makes step(params, opt_state, tokens, targets) -> (loss, params, opt_state)."""
    model = eqx.filter_eval_shape(Decoder, config, jax.random.key(0))
    static = eqx.filter(model, lambda leaf: not isinstance(leaf, jax.ShapeDtypeStruct))
    update = optimizer().update

    def loss_fn(params, tokens, targets):
        logits = jax.vmap(eqx.combine(params, static))(tokens)
        return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()

    def step(params, opt_state, tokens, targets):
        loss, grads = eqx.filter_value_and_grad(loss_fn)(params, tokens, targets)
        updates, opt_state = update(grads, opt_state, params)
        return loss, eqx.apply_updates(params, updates), opt_state

    return step
