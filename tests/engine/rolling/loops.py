"""Train steps whose layers are a Python loop, over what users keep layers in."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import meshlab as ml

COUNT, WIDTH, BATCH = 4, 4, 8


def layer(x: Any, weights: Any) -> Any:
    hidden = jnp.tanh((x - x.mean(-1, keepdims=True)) @ weights["w"] + weights["b"])
    return x + hidden


def _loss(h: Any, params: Any, y: Any, how: Any = lambda layer: layer) -> Any:
    for weights in params["layers"]:
        h = how(layer)(h, weights)
    return jnp.square(h - y).mean()


def over_a_list(params: Any, x: Any, y: Any) -> Any:
    return _loss(x @ params["w_in"], params, y)


def rematerialised(params: Any, x: Any, y: Any) -> Any:
    return _loss(x @ params["w_in"], params, y, jax.checkpoint)


def jitted(params: Any, x: Any, y: Any) -> Any:
    """The loss is under `jit`, and so is each layer."""
    return jax.jit(lambda params: _loss(x @ params["w_in"], params, y, jax.jit))(params)


def cast(params: Any, x: Any, y: Any) -> Any:
    """All weights are cast in front of the layers, and a mask is made in each."""
    half = jax.tree.map(lambda w: w.astype(jnp.float16).astype(w.dtype), params)
    h = x @ half["w_in"]
    for weights in half["layers"]:
        mask = jnp.tril(jnp.ones((WIDTH, WIDTH), bool))
        h = layer(h, {**weights, "w": jnp.where(mask, weights["w"], 0.0)})
    return jnp.square(h - y).mean()


def without_table(params: Any, x: Any, y: Any) -> Any:
    """The first layer reads the input, whose gradient nobody needs."""
    return _loss(x, params, y)


def without_table_rematerialised(params: Any, x: Any, y: Any) -> Any:
    return _loss(x, params, y, jax.checkpoint)


def balanced(params: Any, x: Any, y: Any) -> Any:
    """Two values are carried, and one of them starts from a number."""
    h, balance = x @ params["w_in"], 0.0
    for weights in params["layers"]:
        h = layer(h, weights)
        balance = balance + jnp.square(h).mean()
    return jnp.square(h - y).mean() + 0.1 * balance


def numbered(params: Any, x: Any, y: Any) -> Any:
    """Layers are values of a dict, under numbered keys."""
    h = x @ params["w_in"]
    for i in range(COUNT):
        h = layer(h, params[f"block_{i}"])
    return jnp.square(h - y).mean()


def _crossed(params: Any, x: Any, y: Any, how: Any = lambda layer: layer) -> Any:
    """Each layer reads, several times, what is made before all of them, and trains a weight that they share."""
    start = x @ params["w_in"]
    memory, scale = jnp.tanh(start), params["w_in"].sum(0)

    def own(h: Any, weights: Any) -> Any:
        return layer(h * scale + memory, weights) * jnp.cos(memory)

    h = start
    for weights in params["layers"]:
        h = how(own)(h, weights)
    return jnp.square(h - y).mean()


def crossed(params: Any, x: Any, y: Any) -> Any:
    return _crossed(params, x, y)


def crossed_rematerialised(params: Any, x: Any, y: Any) -> Any:
    return _crossed(params, x, y, jax.checkpoint)


def attending(params: Any, x: Any, y: Any) -> Any:
    """Each layer reads its input as often as there are layers: of each layer the gradients of that are a sum."""

    def own(h: Any, weights: Any) -> Any:
        return h + sum(jnp.tanh(scale * h @ weights["w"]) for scale in range(1, COUNT + 1)) * weights["b"]

    h = x @ params["w_in"]
    for weights in params["layers"]:
        h = own(h, weights)
    return jnp.square(h - y).mean()


LOSSES = {
    f.__name__: f
    for f in (
        over_a_list,
        rematerialised,
        jitted,
        cast,
        without_table,
        without_table_rematerialised,
        balanced,
        numbered,
        crossed,
        crossed_rematerialised,
        attending,
    )
}


def descent(loss: Any) -> Any:
    """A step that clips gradients by the norm of all of them, and keeps a momentum."""

    def step(params: Any, momentum: Any, x: Any, y: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x, y)
        norm = jnp.sqrt(sum(jnp.square(g).sum() for g in jax.tree.leaves(grads)))
        grads = jax.tree.map(lambda g: g / jnp.maximum(norm, 1.0), grads)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return value, jax.tree.map(lambda w, m: w - 0.1 * m, params, momentum), momentum

    return step


def arguments(loss: Any, count: int = COUNT, dtype: Any = np.float32) -> tuple[Any, ...]:
    """Parameters, momentum and a batch, as numbers."""
    draw = np.random.default_rng(1)

    def array(*shape: int) -> Any:
        return draw.standard_normal(shape).astype(dtype) / 2

    layers: Any = [{"w": array(WIDTH, WIDTH), "b": array(WIDTH)} for _ in range(count)]
    params: Any = {"w_in": array(WIDTH, WIDTH), "layers": layers}
    if loss is numbered:
        params = {"w_in": params["w_in"]} | {f"block_{i}": each for i, each in enumerate(layers)}
    return params, jax.tree.map(lambda w: w / 2, params), array(BATCH, WIDTH), array(BATCH, WIDTH)


NAMES = {"w_in": "rows embed", "*/w": "embed _", "*/b": "_"}


def named(loss: Any, **given: Any) -> tuple[Any, ...]:
    """The same arguments, as shapes with names."""
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), arguments(loss, **given))
    params, momentum, x, y = shapes
    first = "batch embed" if loss in (without_table, without_table_rematerialised) else "batch rows"
    return ml.named(params, NAMES), ml.named(momentum, NAMES), ml.named(x, first), ml.named(y, "batch embed")
