"""An MLP-Mixer over tokens in Flax NNX, with Adafactor in an `nnx.Optimizer`: the state of both is one tree.

A layer mixes the positions of each channel, then the channels of each position: the first matmul sums over `seq`.
Its norms subtract no mean: that would take out again what the second bias of `positions` adds, which has one number for
all channels of a position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from .full_sizes import Config

NAMES = {
    "0/embed/embedding/value": "vocab embed",
    "0/*norm*/value": "embed",
    "0/*/positions/up/kernel/value": "seq mixing",
    "0/*/positions/up/bias/value": "mixing",
    "0/*/positions/down/kernel/value": "mixing seq",
    "0/*/positions/down/bias/value": "seq",
    "0/*/channels/up/kernel/value": "embed ffn",
    "0/*/channels/up/bias/value": "ffn",
    "0/*/channels/down/kernel/value": "ffn embed",
    "0/*/channels/down/bias/value": "embed",
    "0/head/kernel/value": "embed vocab",
    "0/head/bias/value": "vocab",
}


class Mlp(nnx.Module):
    """Two layers over the last axis."""

    def __init__(self, width: int, hidden: int, rngs: nnx.Rngs):
        self.up = nnx.Linear(width, hidden, rngs=rngs)
        self.down = nnx.Linear(hidden, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """x: (..., width), and so is what is returned."""
        return self.down(nnx.gelu(self.up(x)))


class Layer(nnx.Module):
    """Mixes positions, then channels."""

    def __init__(self, config: Config, rngs: nnx.Rngs):
        self.positions_norm = nnx.RMSNorm(config.embed, rngs=rngs)
        self.positions = Mlp(config.seq, config.ffn, rngs)
        self.channels_norm = nnx.RMSNorm(config.embed, rngs=rngs)
        self.channels = Mlp(config.embed, config.ffn, rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """x: (batch, seq, embed), and so is what is returned."""
        y = jnp.swapaxes(self.positions_norm(x), 1, 2)
        x = x + jnp.swapaxes(self.positions(y), 1, 2)
        return x + self.channels(self.channels_norm(x))


class Mixer(nnx.Module):
    """Predicts a token at each position."""

    def __init__(self, config: Config, rngs: nnx.Rngs):
        self.embed = nnx.Embed(config.vocab, config.embed, rngs=rngs)
        self.layers = nnx.List([Layer(config, rngs) for _ in range(config.layers)])
        self.norm = nnx.RMSNorm(config.embed, rngs=rngs)
        self.head = nnx.Linear(config.embed, config.vocab, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """tokens: (batch, seq); returns logits: (batch, seq, vocab)."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def create(key: jax.Array, config: Config) -> tuple[Mixer, nnx.Optimizer]:
    model = Mixer(config, nnx.Rngs(key))
    return model, nnx.Optimizer(model, optax.adafactor(1e-2, min_dim_size_to_factor=8), wrt=nnx.Param)


def init(key: jax.Array, config: Config) -> nnx.State:
    """Draws the state of model (0) and optimizer (1)."""
    return nnx.state(create(key, config))


def training(config: Config) -> Callable[..., Any]:
    """Makes step(state, tokens, targets) -> (loss, state)."""
    graph = nnx.graphdef(nnx.eval_shape(lambda: create(jax.random.key(0), config)))

    def loss_fn(model, tokens, targets):
        return optax.softmax_cross_entropy_with_integer_labels(model(tokens), targets).mean()

    def step(state, tokens, targets):
        model, optimizer = nnx.merge(graph, state)
        loss, grads = nnx.value_and_grad(loss_fn)(model, tokens, targets)
        optimizer.update(model, grads)
        return loss, nnx.state((model, optimizer))

    return step
