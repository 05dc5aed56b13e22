"""A GPT in plain JAX: dicts of arrays, `@`, heads by reshape, attention by einsum, AdamW with clipping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from .full_sizes import Config

NAMES = {
    "tokens": "vocab embed",
    "positions": "seq embed",
    "*norm/*": "embed",
    "*/query": "embed (heads=4 head)",
    "*/key": "embed (heads=4 head)",
    "*/value": "embed (heads=4 head)",
    "*/output": "(heads=4 head) embed",
    "*/up": "embed ffn",
    "*/down": "ffn embed",
}


def init(key: jax.Array, config: Config) -> Any:
    """Draws the parameters: `tokens`, `positions`, a list of `layers`, and the last `norm`."""
    keys = iter(jax.random.split(key, 2 + 6 * config.layers))
    width = config.embed

    def normal(*shape):
        return shape[0] ** -0.5 * jax.random.normal(next(keys), shape)

    def norm():
        return {"scale": jnp.ones(width), "bias": jnp.zeros(width)}

    def layer():
        square = {name: normal(width, width) for name in ("query", "key", "value", "output")}
        wide = {"up": normal(width, config.ffn), "down": normal(config.ffn, width)}
        return {"attention_norm": norm(), "ffn_norm": norm()} | square | wide

    return {
        "tokens": normal(config.vocab, width),
        "positions": normal(config.seq, width),
        "layers": [layer() for _ in range(config.layers)],
        "norm": norm(),
    }


def layer_norm(x: jax.Array, weights: Any) -> jax.Array:
    """Layer norm over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weights["scale"] + weights["bias"]


def attention(x: jax.Array, weights: Any, heads: int) -> jax.Array:
    """Causal self-attention; x: (batch, seq, embed)."""
    batch, seq, embed = x.shape
    q, k, v = ((x @ weights[name]).reshape(batch, seq, heads, -1) for name in ("query", "key", "value"))
    scores = jnp.einsum("bshd,bthd->bhst", q, k) / jnp.sqrt(q.shape[-1])
    causal = jnp.tril(jnp.ones((seq, seq), bool))
    shares = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf))
    mixed = jnp.einsum("bhst,bthd->bshd", shares, v)
    return mixed.reshape(batch, seq, embed) @ weights["output"]


def forward(params: Any, tokens: jax.Array, heads: int) -> jax.Array:
    """The logits: (batch, seq, vocab)."""
    x = params["tokens"][tokens] + params["positions"]
    for weights in params["layers"]:
        x = x + attention(layer_norm(x, weights["attention_norm"]), weights, heads)
        hidden = jax.nn.gelu(layer_norm(x, weights["ffn_norm"]) @ weights["up"])
        x = x + hidden @ weights["down"]
    return layer_norm(x, params["norm"]) @ params["tokens"].T


def optimizer() -> optax.GradientTransformation:
    """AdamW behind clipping by the norm of all gradients."""
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))


def training(config: Config) -> Callable[..., Any]:
    """Makes step(params, opt_state, tokens, targets) -> (loss, params, opt_state)."""
    update = optimizer().update

    def loss_fn(params, tokens, targets):
        logits = forward(params, tokens, config.heads)
        return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()

    def step(params, opt_state, tokens, targets):
        loss, grads = jax.value_and_grad(loss_fn)(params, tokens, targets)
        updates, opt_state = update(grads, opt_state, params)
        return loss, optax.apply_updates(params, updates), opt_state

    return step
