"""The layers of the transformer family: norms, positions, attention, and layers that are repeated.

A model is then its own formula and little else:

    def predict(params, tokens):
        x = looked_up(params["embedding"], tokens)

        def layer(x, weights):
            return x + gated(rms_norm(x, weights["ffn_norm"]), weights)

        x = repeated(layer, x, params["layers"])
        return to_logits(rms_norm(x, params["norm"]), params["embedding"])

The parts of a model are scopes (`jax.named_scope`), by which a layout can compute each of them in its own way:
`lookup`, `attention` and in it `core` (what relates positions, between the projections), `ffn`, `head` and `loss`; of
experts `router` and `experts`; of a training step `optimizer`.

Two conventions make each model run in mixed precision (`training.mixed`) as it stands. What adds up many numbers (the
norms, softmax, the loss) does so in 32 bits, whatever it is given; and whatever is added to the stream between layers
has the dtype of the stream, since the carry of a scan keeps its dtype. With 32-bit parameters neither leaves a trace.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

import meshlab as ml

from ...engine.errors import MeshlabError, closest, listed
from .weights import Params

Rotation = tuple[ml.Tensor, ml.Tensor]
Part = tuple[ml.Tensor, ml.Tensor, tuple[str, ...]]
MASKED = -1e30
# The values that a layer can keep for its backward pass: what attention reads, what it mixes, its result, and the
# hidden units.
KEEPABLE = ("query", "key", "value", "core", "attention", "gate", "up")


def size(x: ml.Tensor, name: str) -> int:
    return next(dim.size for dim in x.dims if dim.name == name)


def wide(x: ml.Tensor) -> ml.Tensor:
    """Returns the tensor in 32 bits, in which sums are taken; in 64 if it has them."""
    return narrow(x, jnp.promote_types(x.dtype, jnp.float32))


def narrow(x: ml.Tensor, dtype: Any) -> ml.Tensor:
    """Returns the tensor in a dtype; the tensor itself where it has that dtype already."""
    return x if x.dtype == dtype else x.astype(dtype)


def repeated(
    layer: Callable[[Any, Params], Any], x: Any, weights: Any, dim: str = "layers", saved: tuple[str, ...] = ()
) -> Any:
    """Applies a layer once for each set of weights, and rematerialises it in the backward pass.

    The weights say how: those that have the dim `layers` are scanned, so that the program is as long as one layer; a
    list of weights is a Python loop, and the program as long as all of them.

    Args:
        layer: (x, weights of one layer) -> x.
        x: a tree of tensors; its dims and dtypes stay the same.
        weights: a tree of tensors with `dim`, or a list of trees without.
        dim: what the layers are counted by.
        saved: which of the values named `KEEPABLE` are kept for the backward pass, not computed again; `("all",)` keeps
            everything.
    """

    def one_layer(x, each):
        return layer(x, each), None

    if saved != ("all",):
        one_layer = ml.checkpoint(one_layer, policy=_keeps(saved)) if saved else ml.checkpoint(one_layer)
    if isinstance(weights, list):
        return functools.reduce(lambda x, each: one_layer(x, each)[0], weights, x)
    return ml.scan(one_layer, x, weights, dim)[0]


def _keeps(saved: tuple[str, ...]) -> Callable[..., bool]:
    """Returns the policy of `jax.checkpoint` that keeps the values of some names."""
    unknown = [name for name in saved if name not in KEEPABLE]
    if unknown:
        raise MeshlabError(
            f"A layer was asked to keep {listed(unknown)}.{closest(unknown[0], KEEPABLE)} It can keep"
            f" {listed(KEEPABLE)}, or `all`, alone."
        )
    return jax.checkpoint_policies.save_only_these_names(*saved)


def keepable(x: ml.Tensor, name: str) -> ml.Tensor:
    """Names a value of a layer, so that `repeated` can keep it: `jax.ad_checkpoint.checkpoint_name`.

    Args:
        x: any dims.
        name: of `KEEPABLE`.
    """
    return ml.tensor(checkpoint_name(x.array, name), *x.dims)


@jax.named_scope("lookup")
def looked_up(table: ml.Tensor, tokens: ml.Tensor) -> ml.Tensor:
    """Returns the row of a table for each token, in the scope `lookup`: [vocab, embed], [...] -> [..., embed]."""
    return ml.take(table, tokens, "vocab")


@jax.named_scope("head")
def to_logits(x: ml.Tensor, table: ml.Tensor) -> ml.Tensor:
    """Scores each row of a table, in the scope `head`: [..., embed], [vocab, embed] -> [..., vocab]."""
    return ml.dot(x, table, "embed")


def rms_norm(x: ml.Tensor, scale: Any, epsilon: float = 1e-6) -> ml.Tensor:
    """Scales each position to a mean square of 1, then by `scale`.

    Args:
        x: [..., embed].
        scale: [embed].
        epsilon: what is added to the mean square.
    """
    x_wide = wide(x)
    return narrow(x_wide * ml.rsqrt(ml.square(x_wide).mean("embed") + epsilon), x.dtype) * scale


def layer_norm(x: ml.Tensor, scale: ml.Tensor, bias: ml.Tensor, epsilon: float = 1e-5) -> ml.Tensor:
    """Shifts and scales each position to a mean of 0 and a variance of 1, then by `scale` and `bias`.

    Args:
        x: [..., embed].
        scale: [embed].
        bias: [embed].
        epsilon: what is added to the variance.
    """
    return ml.normalize(x, "embed", epsilon=epsilon) * scale + bias


def rotary(x: ml.Tensor, query: ml.Tensor, theta: float = 10_000.0) -> Rotation:
    """Returns the rotation of each pair of elements at each position (RoPE).

    Args:
        x: [..., seq, ...].
        query: [..., head, ...], for the size of a head.
        theta: the slowest pair rotates once in about 2 pi theta positions.

    Returns:
        Cosine and sine of the angles, both [seq, half].
    """
    frequency = frequencies(query, theta)
    return rotation_of(ml.arange(ml.Dim("seq", size(x, "seq")), ml.f32) * frequency)


def frequencies(query: ml.Tensor, theta: float = 10_000.0) -> ml.Tensor:
    """Returns the angle by which each pair of elements is rotated from one position to the next.

    Args:
        query: [..., head, ...], for the size of a head.
        theta: the slowest pair rotates once in about 2 pi theta positions.

    Returns:
        [half].
    """
    half = ml.Dim("half", size(query, "head") // 2)
    return ml.exp(ml.arange(half, ml.f32) * (-math.log(theta) / half.size))


def rotation_of(angles: ml.Tensor) -> Rotation:
    """Returns cosine and sine of angles: [seq, half], or of the dims that positions are counted by, and half."""
    return ml.cos(angles), ml.sin(angles)


def rotate(x: ml.Tensor, rotation: Rotation) -> ml.Tensor:
    """Rotates the two halves of each head against each other.

    Args:
        x: [..., seq, head].
        rotation: as `rotary` makes them.

    Returns:
        The dims of `x`.
    """
    cos, sin = rotation
    head, half = ml.Dim("head", size(x, "head")), ml.Dim("half", size(cos, "half"))
    first, second = (wide(part) for part in ml.split(x, head, half))
    return narrow(ml.concat((first * cos - second * sin, second * cos + first * sin), half, head), x.dtype)


def causal(x: ml.Tensor) -> ml.Tensor:
    """Returns which keys each position sees: itself and those before it.

    Args:
        x: [..., seq, ...], for the size of `seq`.

    Returns:
        Booleans, [seq, kv].
    """
    return ml.arange(ml.Dim("seq", size(x, "seq"))) >= ml.arange(ml.Dim("kv", size(x, "seq")))


def softmax(scores: ml.Tensor, *dims: str) -> ml.Tensor:
    """Returns `ml.softmax`, taken in 32 bits, in the dtype of the scores."""
    return narrow(ml.softmax(wide(scores), *dims), scores.dtype)


def mix(*parts: Part) -> ml.Tensor:
    """Returns a mean of values, weighted by one softmax over all parts together.

    It is attention to keys that are no one tensor: a block and the block before it, patches and a class token. Nothing
    is concatenated, so each part may be laid out as it likes.

    Args:
        parts: scores, values, and the dims that both have and that are summed over. Scores of one key have none.
    """
    alike: dict[tuple[str, ...], list[ml.Tensor]] = {}
    for scores, _, over in parts:
        alike.setdefault(over, []).append(ml.stop_gradient(wide(scores)))
    # The maximum of scores over the same dims comes first: then devices that share a dim ask each other once.
    peaks = (_over(ml.Tensor.max, functools.reduce(ml.maximum, scores), over) for over, scores in alike.items())
    peak = functools.reduce(ml.maximum, peaks)
    weights = [(ml.exp(wide(scores) - peak), values, over) for scores, values, over in parts]
    total = functools.reduce(operator.add, (_over(ml.Tensor.sum, x, over) for x, _, over in weights))
    means = (ml.dot(narrow(x / total, values.dtype), values, *over) for x, values, over in weights)
    return functools.reduce(operator.add, means)


def _over(reduction: Callable[..., ml.Tensor], x: ml.Tensor, dims: tuple[str, ...]) -> ml.Tensor:
    """Reduces over some dims; over none there is nothing to do, where a reduction would take all."""
    return reduction(x, *dims) if dims else x


@jax.named_scope("attention")
def attention(x: ml.Tensor, rotation: Rotation, weights: Params) -> ml.Tensor:
    """Lets each position read from itself and those before it; queries in groups share keys and values.

    Args:
        x: [batch, seq, embed], normalised.
        rotation: as `rotary` makes them.
        weights: query: [embed, heads, group, head], key and value: [embed, heads, head],
            output: [heads, group, head, embed].

    Returns:
        [batch, seq, embed].
    """
    query = keepable(rotate(ml.dot(x, weights["query"], "embed"), rotation), "query")
    key = keepable(rotate(ml.dot(x, weights["key"], "embed"), rotation), "key")
    value = keepable(ml.dot(x, weights["value"], "embed"), "value")
    heads = keepable(core(query, key, value), "core")
    return keepable(ml.dot(heads, weights["output"], "heads", "group", "head"), "attention")


@jax.named_scope("core")
def core(query: ml.Tensor, key: ml.Tensor, value: ml.Tensor) -> ml.Tensor:
    """Mixes for each position the values of itself and of those before it.

    Args:
        query: [..., seq, heads, (group,) head].
        key: [..., seq, heads, head].
        value: the dims of `key`.

    Returns:
        The dims of `query`.
    """
    key, value = key.rename(seq="kv"), value.rename(seq="kv")
    scores = ml.dot(query, key, "head") * size(query, "head") ** -0.5
    return ml.dot(softmax(ml.where(causal(query), scores, MASKED), "kv"), value, "kv")


@jax.named_scope("ffn")
def gated(x: ml.Tensor, weights: Params, function: Callable[[Any], Any] = ml.silu) -> ml.Tensor:
    """Applies a feed-forward network whose hidden units are gated by others.

    Args:
        x: [..., embed], normalised.
        weights: gate and up: [embed, ffn], down: [ffn, embed].
        function: of the gate.

    Returns:
        [..., embed].
    """
    gate, up = (keepable(ml.dot(x, weights[name], "embed"), name) for name in ("gate", "up"))
    return ml.dot(function(gate) * up, weights["down"], "ffn")


@jax.named_scope("ffn")
def feed_forward(x: ml.Tensor, weights: Params) -> ml.Tensor:
    """Applies a network of one hidden layer, with biases.

    Args:
        x: [..., embed], normalised.
        weights: up: [embed, ffn], its bias: [ffn], down: [ffn, embed], its bias: [embed].

    Returns:
        The dims of `x`.
    """
    up = keepable(ml.dot(x, weights["up"], "embed") + weights["up_bias"], "up")
    return ml.dot(ml.gelu(up), weights["down"], "ffn") + weights["down_bias"]


def projected(x: ml.Tensor, weights: Params) -> tuple[ml.Tensor, ml.Tensor, ml.Tensor]:
    """Returns queries, keys and values, with biases.

    Args:
        x: [..., embed], normalised.
        weights: query, key and value: [embed, heads, head], their biases: [heads, head].

    Returns:
        Three tensors of [..., heads, head].
    """
    query, key, value = (
        keepable(ml.dot(x, weights[name], "embed") + weights[f"{name}_bias"], name)
        for name in ("query", "key", "value")
    )
    return query, key, value


@jax.named_scope("loss")
def token_loss(logits: ml.Tensor, targets: ml.Tensor) -> jax.Array:
    """Returns the mean cross entropy, taken in 32 bits.

    Args:
        logits: [..., vocab].
        targets: integers, the other dims of `logits`.
    """
    return ml.cross_entropy(wide(logits), targets, "vocab").mean()
