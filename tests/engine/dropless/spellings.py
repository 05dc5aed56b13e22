"""Layers of experts without a capacity in plain JAX, as people write them: sorted by expert, and ragged matmuls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import meshlab as ml

B, S, D, F, E, K = 8, 16, 16, 24, 8, 2
DIMS = {"router": "embed routes", "up": "experts embed ffn", "down": "experts ffn embed"}
SHAPES = {"router": (D, E), "up": (E, D, F), "down": (E, F, D)}
FUSED = SHAPES | {"up": (E, D, 2 * F)}

Weights = dict[str, Any]


def routed(w: Weights, x: Any, k: int = K) -> tuple[Any, Any]:
    return jax.lax.top_k(jax.nn.softmax(x @ w["router"]), k)


def multiplied(w: Weights, rows: Any, sizes: Any) -> Any:
    return jax.lax.ragged_dot(jax.nn.silu(jax.lax.ragged_dot(rows, w["up"], sizes)), w["down"], sizes)


def twice_sorted(w: Weights, x: Any) -> Any:
    """As MaxText: tokens taken by the order of choices, brought back by the order of that order, and weighed then."""
    weights, choice = routed(w, x)
    flat = choice.reshape(-1)
    order = jnp.argsort(flat)
    y = multiplied(w, jnp.take(x.reshape(-1, D), order // K, axis=0), jnp.bincount(flat, length=E))
    y = jnp.take(y, jnp.argsort(order), axis=0).reshape(-1, K, D)
    return jnp.einsum("tkd,tk->td", y, weights.reshape(-1, K)).reshape(x.shape)


def added(w: Weights, x: Any) -> Any:
    """Rows are weighed in their own order, and added to tokens."""
    flat = x.reshape(-1, D)
    weights, choice = routed(w, flat)
    order = jnp.argsort(choice.ravel(), stable=True)
    token = order // K
    y = multiplied(w, flat[token], jax.nn.one_hot(choice.ravel(), E, dtype=jnp.int32).sum(0))
    return jnp.zeros_like(flat).at[token].add(y * weights.ravel()[order][:, None]).reshape(x.shape)


def repeated(w: Weights, x: Any) -> Any:
    """Tokens are repeated for their choices, and the inverse of the order is written out."""
    weights, choice = routed(w, x)
    flat = choice.reshape(-1)
    order = jnp.argsort(flat)
    sizes = (flat[:, None] == jnp.arange(E)).sum(0).astype(jnp.int32)
    y = multiplied(w, jnp.repeat(x.reshape(-1, D), K, axis=0)[order], sizes)
    inverse = jnp.zeros_like(order).at[order].set(jnp.arange(B * S * K))
    return (y[inverse].reshape(B, S, K, D) * weights[..., None]).sum(2)


def switched(w: Weights, x: Any) -> Any:
    """Each token has one expert, and choices no axis of their own."""
    shares = jax.nn.softmax(x.reshape(-1, D) @ w["router"])
    choice = shares.argmax(-1)
    order = jnp.argsort(choice)
    sizes = jax.nn.one_hot(choice.reshape(B, S), E, dtype=jnp.int32).sum((0, 1))
    y = multiplied(w, x.reshape(-1, D)[order], sizes)[jnp.argsort(order)]
    return (y * shares.max(-1, keepdims=True)).reshape(x.shape)


def fused(w: Weights, x: Any) -> Any:
    """Gate and up are one matmul, taken apart then, a norm is taken of each row, and choices are of 8 bits."""
    weights, choice = routed(w, x)
    flat = choice.reshape(-1).astype(jnp.uint8)
    order = jnp.argsort(flat)
    rows = jnp.take(x.reshape(-1, D), order // K, axis=0)
    rows = rows / jnp.sqrt((rows**2).mean(-1, keepdims=True) + 1e-6)
    sizes = jnp.bincount(flat, length=E)
    both = jax.lax.ragged_dot(rows, w["up"], sizes)
    gate, up = both[:, :F], both[:, F:]
    y = jax.lax.ragged_dot(jax.nn.silu(jnp.clip(gate, -4, 4)) * up, w["down"], sizes)
    y = y[jnp.argsort(order)].reshape(B, S, K, D)
    return jnp.einsum("bskd,bsk->bsd", y, weights)


LAYERS: dict[str, Callable[[Weights, Any], Any]] = {
    function.__name__: function for function in (twice_sorted, added, repeated, switched, fused)
}


def shapes_of(layer: Callable[..., Any]) -> dict[str, tuple[int, ...]]:
    return FUSED if layer is fused else SHAPES


def plain(layer: Callable[..., Any], w: Weights, x: Any) -> Any:
    """The same: every expert multiplies every token."""
    k = 1 if layer is switched else K
    weights, choice = routed(w, x, k)
    gates = (jax.nn.one_hot(choice, E, dtype=x.dtype) * weights[..., None]).sum(-2)
    given = x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) if layer is fused else x
    hidden = jnp.einsum("bsd,edf->bsef", given, w["up"])
    if layer is fused:
        gate, up = jnp.split(hidden, 2, axis=-1)
        hidden = jax.nn.silu(jnp.clip(gate, -4, 4)) * up
    else:
        hidden = jax.nn.silu(hidden)
    return jnp.einsum("bse,bsef,efd->bsd", gates, hidden, w["down"])


def step(layer: Callable[[Weights, Any], Any]) -> Callable[..., Any]:
    """Descent, with the gradient of tokens."""

    def loss(w: Weights, x: Any) -> tuple[Any, Any]:
        y = layer(w, x)
        return ((y - x) ** 2).mean(), y

    def run(w: Weights, x: Any) -> Any:
        (value, y), (grads, to_x) = jax.value_and_grad(loss, (0, 1), has_aux=True)(w, x)
        return value, y, jax.tree.map(lambda a, g: a - 0.1 * g, w, grads), to_x

    return run


def plain_step(layer: Callable[..., Any]) -> Callable[..., Any]:
    return step(functools.partial(plain, layer))


def drawn(layer: Callable[..., Any], dtype: Any = np.float32, seed: int = 0) -> tuple[Weights, Any]:
    random = np.random.default_rng(seed)

    def made(*shape: int) -> Any:
        return (random.normal(size=shape) * 0.3).astype(dtype)

    w = {name: made(*shape) for name, shape in shapes_of(layer).items()}
    # Most tokens choose the first expert.
    x = made(B, S, D)
    w["router"][:, 0] += 2 * x.mean((0, 1))
    return w, x


def traced(
    layer: Callable[..., Any], function: Callable[..., Any] | None = None, dtype: Any = np.float32
) -> ml.Program:
    like = {name: jax.ShapeDtypeStruct(shape, dtype) for name, shape in shapes_of(layer).items()}
    dims = DIMS | {"up": "experts embed both"} if layer is fused else DIMS
    w = {name: ml.named(each, dims[name]) for name, each in like.items()}
    return ml.trace(function or step(layer), w, ml.named(jax.ShapeDtypeStruct((B, S, D), dtype), "batch seq embed"))
