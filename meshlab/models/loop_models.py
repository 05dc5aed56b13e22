"""Small steps that the zoo has not got: loops, scopes and dims of one size together, for the sweep.

A cache that is written round and round, attention over several documents in a row, an integrator whose state is an
argument, and a whitened regression. Several dims of each are as long: what is known of one must not be taken for known
of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import meshlab as ml

from .zoo import Model

Shapes = Mapping[str, tuple[int, ...]]


def loops() -> tuple[Model, ...]:
    return _ring_cache(), _packed(), _integrator(), _whitened()


def _array(names: str, *shape: int, dtype: Any = jnp.float32) -> Any:
    return ml.named(jax.ShapeDtypeStruct(shape, dtype), names)


def _normal(chance: np.random.Generator, shapes: Shapes) -> dict[str, np.ndarray]:
    return {name: (0.3 * chance.normal(size=shape)).astype(np.float32) for name, shape in shapes.items()}


def _descent(loss: Callable[..., Any]) -> Callable[..., Any]:
    def step(params, *inputs):
        value, grads = jax.value_and_grad(loss)(params, *inputs)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    return step


def _ring_cache() -> Model:
    """Decodes two tokens: each is written into a window of the last ones, at a place of its own in each row."""
    names = {"q": "embed heads head", "k": "embed heads head", "o": "heads head embed"}
    sizes = {"q": (8, 4, 4), "k": (8, 4, 4), "o": (4, 4, 8)}

    def step(params, cache, x, at):
        def decode(carry, _):
            cache, x, at = carry
            with jax.named_scope("attention"):
                query, key = (jnp.einsum("be,ehd->bhd", x, params[name]) for name in "qk")
                cache = jax.vmap(lambda row, new, i: row.at[i].set(new))(cache, key, at)
                with jax.named_scope("core"):
                    weights = jax.nn.softmax(jnp.einsum("bhd,bwhd->bhw", query, cache))
                    mixed = jnp.einsum("bhw,bwhd->bhd", weights, cache)
            x = jnp.tanh(x + jnp.einsum("bhd,hde->be", mixed, params["o"]))
            return (cache, x, (at + 1) % cache.shape[1]), x.sum(1)

        return lax.scan(decode, (cache, x, at), None, length=2)

    def arguments():
        weights = {name: _array(names[name], *sizes[name]) for name in names}
        cache = _array("batch window heads head", 4, 8, 4, 4)
        return weights, cache, _array("batch embed", 4, 8), _array("batch", 4, dtype=jnp.int32)

    def data(seed: int):
        chance = np.random.default_rng(seed)
        inputs = _normal(chance, {"cache": (4, 8, 4, 4), "x": (4, 8)})
        return _normal(chance, sizes), *inputs.values(), chance.integers(0, 8, 4).astype(np.int32)

    return Model("ring_cache", step, arguments, data)


def _packed() -> Model:
    """Attends within the documents of a row, and leaves out what begins the next one."""
    names = {"embedding": "vocab embed", **dict.fromkeys("qkv", "embed heads head"), "o": "heads head embed"}
    sizes = {"embedding": (12, 8), **dict.fromkeys("qkv", (8, 4, 4)), "o": (4, 4, 8)}

    def loss(params, ids, document):
        x = params["embedding"][ids]
        with jax.named_scope("attention"):
            query, key, value = (jnp.einsum("bse,ehd->bshd", x, params[name]) for name in "qkv")
            with jax.named_scope("core"):
                same = (document[:, :, None] == document[:, None]) & jnp.tri(ids.shape[1], dtype=bool)
                scores = jnp.tanh(jnp.einsum("bqhd,bkhd->bhqk", query, key))
                weights = jax.nn.softmax(jnp.where(same[:, None], scores, -1e30))
                mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, value)
            x = x + jnp.einsum("bshd,hde->bse", mixed, params["o"])
        with jax.named_scope("head"):
            logits = x @ params["embedding"].T
            missed = jax.nn.logsumexp(logits, -1)[:, :-1]
            missed -= jnp.take_along_axis(logits[:, :-1], ids[:, 1:, None], -1)[..., 0]
        counted = (document[:, 1:] == document[:, :-1]).astype(jnp.float32)
        return (missed * counted).sum() / counted.sum()

    def arguments():
        weights = {name: _array(names[name], *sizes[name]) for name in names}
        return weights, *(_array("batch seq", 4, 8, dtype=jnp.int32) for _ in range(2))

    def data(seed: int):
        chance = np.random.default_rng(seed)
        ids = chance.integers(0, 12, (4, 8)).astype(np.int32)
        return _normal(chance, sizes), ids, np.sort(chance.integers(0, 3, (4, 8)), axis=1).astype(np.int32)

    return Model("packed", _descent(loss), arguments, data)


def _integrator() -> Model:
    """Moves particles, a chain in each row: the loops begin from arguments, one is in the other, and one is a while."""

    def step(where, speed, charge):
        def force(where):
            with jax.named_scope("force"):
                between = where[:, :, None] - where[:, None]
                near = 1 / (1 + jnp.square(between).sum(-1))
                return jnp.einsum("bij,bijx,bj->bix", near, between, charge)

        def leap(_, state):
            where, speed = state
            speed = speed - 0.05 * force(where)
            return where + 0.1 * speed, speed

        def outer(state, _):
            state = lax.fori_loop(0, 2, leap, state)
            return state, jnp.square(state[1]).sum((1, 2))

        (where, speed), energy = lax.scan(outer, (where, speed), None, length=2)
        where, _ = lax.while_loop(lambda s: s[1] < 2, lambda s: (jnp.tanh(s[0]), s[1] + 1), (where, 0))
        return where, speed, energy

    def arguments():
        return *(_array("batch atoms space", 4, 4, 2) for _ in range(2)), _array("batch atoms", 4, 4)

    def data(seed: int):
        shapes = {"where": (4, 4, 2), "speed": (4, 4, 2), "charge": (4, 4)}
        return tuple(_normal(np.random.default_rng(seed), shapes).values())

    return Model("integrator", step, arguments, data)


def _whitened() -> Model:
    """A regression on a few inducing points, whitened by a Cholesky factor, in as many dims as there are points."""

    def loss(params, x, y):
        def kernel(a, b):
            return jnp.exp(-jnp.square(a[:, None] - b[None]).sum(-1))

        with jax.named_scope("white"):
            factor = jnp.linalg.cholesky(kernel(params["points"], params["points"]) + 0.1 * jnp.eye(4))
            weights = jax.scipy.linalg.solve_triangular(factor, params["mean"], lower=True)
        with jax.named_scope("fit"):
            away = kernel(x, params["points"]) @ weights - y
        return jnp.square(away).mean() + jnp.square(weights).mean()

    shapes = {"points": (4, 4), "mean": (4, 2)}

    def arguments():
        weights = {"points": _array("points features", 4, 4), "mean": _array("points outputs", 4, 2)}
        return weights, _array("batch features", 6, 4), _array("batch outputs", 6, 2)

    def data(seed: int):
        chance = np.random.default_rng(seed)
        return _normal(chance, shapes), *_normal(chance, {"x": (6, 4), "y": (6, 2)}).values()

    return Model("whitened", _descent(loss), arguments, data)
