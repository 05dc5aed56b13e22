"""Programs with what the zoo has not: made-up axes, renames within gradients, sums of partial sums over other axes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import meshlab as ml

SIZES = {"batch": 4, "seq": 4, "key": 4, "e": 8, "f": 8, "g": 8, "h": 8, "out": 8, "layers": 2}


def abstract(names: str) -> ml.Tensor:
    """Returns an abstract tensor by the names of its dims."""
    return ml.f32[tuple(ml.Dim(name, SIZES[name]) for name in names.split())]


def updated(loss: Any, weights: Any) -> Any:
    """One step of gradient descent with gradients divided by their global norm."""
    value, grads = jax.value_and_grad(loss)(weights)
    norm = jnp.sqrt(sum(jnp.square(g).sum() for g in jax.tree.leaves(grads)))
    return value, jax.tree.map(lambda w, g: w - g / norm, weights, grads)


def chain(x: ml.Tensor, weights: dict[str, ml.Tensor]) -> Any:
    """Layers without a common dim, and a sum of two partial sums that a rename ends."""

    def loss(weights: dict[str, ml.Tensor]) -> Any:
        y = x
        for name, summed in (("ef", "e"), ("fg", "f"), ("gh", "g")):
            y = ml.relu(ml.dot(y, weights[name], summed))
        both = 2.0 * ml.dot(x, weights["ef"], "e") - ml.dot(x, weights["second"], "e")
        return ml.square(y).sum() + ml.square(both.sum("seq").rename(f="out")).sum() + both.sum()

    return updated(loss, weights)


def merged(x: ml.Tensor, weights: dict[str, ml.Tensor]) -> Any:
    """Plain JAX on merged axes, whose names are made up."""

    def loss(weights: dict[str, ml.Tensor]) -> Any:
        ef, fg, gh = (weights[name].array for name in ("ef", "fg", "gh"))
        z = jax.nn.relu(jax.nn.relu(x.array.reshape(16, 8) @ ef) @ fg)
        return ((z.reshape(4, 4, 8) @ gh) ** 2).sum()

    return updated(loss, weights)


def stacked(x: ml.Tensor, weights: dict[str, ml.Tensor]) -> Any:
    """Layers under a scan and a checkpoint, whose steps also hand out something."""

    def loss(weights: dict[str, ml.Tensor]) -> Any:
        def layer(x: ml.Tensor, w: dict[str, ml.Tensor]) -> tuple[ml.Tensor, ml.Tensor]:
            y = ml.dot(ml.relu(ml.dot(x, w["in"], "e")), w["out"], "f")
            return x + y, ml.dot(y, weights["eg"], "e")

        layers = {name: weights[name] for name in ("in", "out")}
        y, steps = ml.scan(ml.checkpoint(layer), x, layers, ml.Dim("layers", 2))
        return ml.square(ml.dot(y, weights["eh"], "e")).mean() + ml.square(steps).sum()

    return updated(loss, weights)


def attention(x: ml.Tensor, weights: dict[str, ml.Tensor]) -> Any:
    """Renames on the way to the result, through softmax and contractions."""

    def loss(weights: dict[str, ml.Tensor]) -> Any:
        keys = ml.dot(x.rename(seq="key"), weights["ef"], "e")
        scores = ml.softmax(ml.dot(ml.dot(x, weights["second"], "e"), keys, "f"), "key")
        y = ml.dot(scores, keys, "key")
        once = ml.dot(y, weights["fh"], "f").rename(seq="key").sum("batch")
        return ml.square(once).sum() + ml.square(y.sum("seq").rename(f="g")).sum()

    return updated(loss, weights)


PROGRAMS = {
    "chain": (chain, {"ef": "e f", "fg": "f g", "gh": "g h", "second": "e f"}),
    "merged": (merged, {"ef": "e f", "fg": "f g", "gh": "g h"}),
    "stacked": (stacked, {"in": "layers e f", "out": "layers f e", "eg": "e g", "eh": "e h"}),
    "attention": (attention, {"ef": "e f", "second": "e f", "fh": "f h"}),
}


def program(name: str) -> ml.Program:
    """Traces one of the programs."""
    fn, weights = PROGRAMS[name]
    return ml.trace(fn, abstract("batch seq e"), {name: abstract(dims) for name, dims in weights.items()})
