"""Train steps with a stack of layers, so small that a pipeline of them compiles in a second or two.

step = STEPS["tied"]
program = ml.trace(step, *shapes(step))
plan = program.plan(ml.mesh(pipe=ml.stages(2), micro=ml.serial(4)), "batch:micro layers:pipe")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import meshlab as ml
from meshlab.engine.planning.staged import Staged

LAYERS, BATCH, WIDTH, WORDS = 4, 8, 4, 6
# Arguments by name: their dims.
DIMS = {
    "w": "layers embed _",
    "b": "layers _",
    "w_in": "rows embed",
    "w_out": "embed classes",
    "table": "words embed",
    "shared": "embed _",
    "x": "batch rows",
    "tokens": "batch",
    "y": "batch classes",
}
_SIZES = {"_": WIDTH, "layers": LAYERS, "batch": BATCH, "embed": WIDTH, "rows": 3, "classes": 5, "words": WORDS}
_WEIGHTS = ("w", "b", "w_in", "w_out", "table", "shared")


def layer(x: Any, weights: Any) -> tuple[Any, None]:
    return x + jnp.tanh(x @ weights["w"] + weights["b"]), None


def _stack(p: Any) -> dict[str, Any]:
    return {"w": p["w"], "b": p["b"]}


def plain(p: Any, x: Any, y: Any) -> Any:
    h, _ = jax.lax.scan(layer, x @ p["w_in"], _stack(p))
    return jnp.square(h @ p["w_out"] - y).mean()


def tied(p: Any, tokens: Any, x: Any) -> Any:
    """One table looked up in front of the layers, and multiplied behind them."""
    h, _ = jax.lax.scan(layer, p["table"][tokens] + x @ p["w_in"], _stack(p))
    logits = h @ p["table"].T
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, None], 1).mean()


def balanced(p: Any, x: Any, y: Any) -> Any:
    """Two values are carried, and one of them is a result as it is."""

    def both(carry: Any, weights: Any) -> Any:
        h, balance = carry
        h, _ = layer(h, weights)
        return (h, balance + jnp.square(h).mean()), None

    (h, balance), _ = jax.lax.scan(both, (x @ p["w_in"], 0.0), _stack(p))
    return jnp.square(h @ p["w_out"] - y).mean() + 0.1 * balance


def shared(p: Any, x: Any, y: Any) -> Any:
    """All layers read one matrix, whose gradient is carried back from zeros."""

    def both(h: Any, weights: Any) -> Any:
        h, _ = layer(h, weights)
        return h + jnp.sin(h @ p["shared"]), None

    h, _ = jax.lax.scan(both, x @ p["w_in"], _stack(p))
    return jnp.square(h @ p["w_out"] - y).mean()


def context(p: Any, x: Any, y: Any) -> Any:
    """All layers read a product that is made in front of them, and a mask."""
    seen, mask = x @ p["w_in"], (x.sum(1) > 0)[:, None]

    def both(h: Any, weights: Any) -> Any:
        h, _ = layer(h, weights)
        return jnp.where(mask, h * seen, h), None

    h, _ = jax.lax.scan(both, x @ p["w_in"] + 1, _stack(p))
    return jnp.square(h @ p["w_out"] - y).mean()


def remat(p: Any, x: Any, y: Any) -> Any:
    h, _ = jax.lax.scan(jax.checkpoint(layer), x @ p["w_in"], _stack(p))
    return jnp.square(h @ p["w_out"] - y).mean()


def scaled(p: Any, x: Any, y: Any) -> Any:
    """What the layers' gradients are scaled by is known behind the last of them."""

    def both(h: Any, weights: Any) -> Any:
        h, _ = layer(h, weights)
        return h, jnp.square(h).sum(1)

    h, sums = jax.lax.scan(both, x @ p["w_in"], _stack(p))
    losses = jnp.square(h @ p["w_out"] - y).mean(1)
    return (losses + jax.lax.stop_gradient(jnp.exp(-losses)) * sums.sum(0)).sum()


def masked(p: Any, x: Any, y: Any) -> Any:
    """A mean over some examples, of which a loop in front counts how many there are."""
    h, _ = jax.lax.scan(layer, x @ p["w_in"], _stack(p))
    mask = x[:, 0] > 0
    return (jnp.square(h @ p["w_out"] - y).mean(1) * mask).sum() / mask.sum()


def dropped(p: Any, x: Any, y: Any) -> Any:
    """Each layer drops what a key of its own draws, as the whole batch does."""

    def both(h: Any, weights: Any) -> Any:
        h, _ = layer(h, weights)
        return jnp.where(jax.random.bernoulli(weights["key"], 0.8, h.shape), h / 0.8, 0.0), None

    keys = jax.random.split(jax.random.key(0), LAYERS)
    h, _ = jax.lax.scan(both, x @ p["w_in"], _stack(p) | {"key": keys})
    return jnp.square(h @ p["w_out"] - y).mean()


def stacked(p: Any, x: Any, y: Any) -> Any:
    """A penalty on the activations of all layers, which each stage adds up by itself."""

    def both(h: Any, weights: Any) -> Any:
        h, _ = layer(h, weights)
        return h, jnp.square(h).sum(1)

    h, sums = jax.lax.scan(both, x @ p["w_in"], _stack(p))
    return jnp.square(h @ p["w_out"] - y).mean() + 0.1 * jnp.square(sums).mean()


LOSSES: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (plain, tied, balanced, shared, context, remat, scaled, masked, dropped, stacked)
}


def descent(loss: Callable[..., Any], value: bool = True) -> Callable[..., Any]:
    """A step of gradient descent, which returns the loss too, if asked for."""

    def step(params: Any, *inputs: Any) -> Any:
        made, grads = jax.value_and_grad(loss)(params, *inputs)
        new = jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)
        return (made, new) if value else new

    return step


def moments(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A step of Adam, without its corrections: both moments read each gradient."""

    def step(params: Any, mean: Any, square: Any, *inputs: Any) -> Any:
        grads = jax.grad(loss)(params, *inputs)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
        square = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, square, grads)
        new = jax.tree.map(lambda w, m, v: w - 0.1 * m / (jnp.sqrt(jnp.abs(v)) + 1), params, mean, square)
        return new, mean, square

    return step


def inputs_of(loss: Callable[..., Any]) -> tuple[str, ...]:
    return ("tokens", "x") if loss is tied else ("x", "y")


def named(dtype: Any = jnp.float32, inputs: tuple[str, ...] = ("x", "y"), **sizes: int) -> tuple[Any, ...]:
    """The arguments of a step without data."""
    sizes = _SIZES | sizes

    def one(name: str) -> Any:
        shape = tuple(sizes[dim] for dim in DIMS[name].split())
        kind = jnp.int32 if name == "tokens" else dtype
        return ml.named(jax.ShapeDtypeStruct(shape, kind), DIMS[name])

    return {name: one(name) for name in _WEIGHTS}, *(one(name) for name in inputs)


def data(arguments: tuple[Any, ...], seed: int = 0) -> tuple[Any, ...]:
    random = np.random.default_rng(seed)

    def one(leaf: Any) -> Any:
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            return random.integers(0, WORDS, leaf.shape).astype(leaf.dtype)
        return random.normal(size=leaf.shape).astype(leaf.dtype) / 2

    return jax.tree.map(one, arguments, is_leaf=lambda leaf: hasattr(leaf, "names"))


def program(name: str, dtype: Any = jnp.float32, **sizes: int) -> ml.Program:
    loss = LOSSES[name]
    return ml.trace(descent(loss, value=name != "scaled"), *named(dtype, inputs_of(loss), **sizes))


def pipeline(plan: ml.Plan) -> Staged:
    (step,) = (step for step in plan.steps if isinstance(step, Staged))
    return step
