"""Two networks of two layers: Mesh TensorFlow's README model, and a feed-forward block for AdamW.

The first is the model of meshlab's own README, dim for dim that of Mesh TensorFlow's: 28 x 28 images, 1024 hidden
units, 10 classes. Its gradients and its update are part of the step, since that is what a layout lays out:

    params = init(jax.random.key(0), Config())
    value, params = step(params, images, labels)       # images: [batch, rows, cols], labels: [batch]

Batch on an axis splits the data and all-reduces the gradients; hidden on an axis splits the model and all-reduces the
logits; both at once do both.

The second (`Block`, `init_block`, `block_loss`) is the feed-forward half of a transformer layer, embed to ffn and back,
fitted to targets: small enough to count each byte of an optimizer's collectives by hand.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

import meshlab as ml

from ..parts.sizes import Sizes
from ..parts.tasks import image_inputs
from ..parts.weights import Params, draw


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
    """Sizes of the README model."""

    batch: int = 100
    rows: int = 28
    cols: int = 28
    hidden: int = 1024
    classes: int = 10


def init(key: jax.Array, config: Config) -> Params:
    """Draws w1: [rows, cols, hidden] and w2: [hidden, classes]."""
    return draw(key, config, {"w1": ("rows cols hidden", ("rows", "cols")), "w2": ("hidden classes", ("hidden",))})


inputs = image_inputs("batch rows cols")


def loss(params: Params, images: ml.Tensor, labels: ml.Tensor) -> jax.Array:
    """Returns the mean cross entropy.

    Args:
        params: as `init` makes them.
        images: [batch, rows, cols].
        labels: [batch].
    """
    hidden = ml.relu(ml.dot(images, params["w1"], "rows", "cols"))
    logits = ml.dot(hidden, params["w2"], "hidden")
    return ml.cross_entropy(logits, labels, "classes").mean()


def step(params: Params, images: ml.Tensor, labels: ml.Tensor) -> tuple[jax.Array, Params]:
    """Returns the loss and the parameters after one step of gradient descent; the arguments are those of `loss`."""
    value, grads = jax.value_and_grad(loss)(params, images, labels)
    return value, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)


@dataclasses.dataclass(frozen=True)
class Block(Sizes):
    """Sizes of the feed-forward block."""

    batch: int = 32
    embed: int = 64
    ffn: int = 256


def init_block(key: jax.Array, config: Block) -> Params:
    """Draws up: [embed, ffn] and down: [ffn, embed]."""
    return draw(key, config, {"up": ("embed ffn", ("embed",)), "down": ("ffn embed", ("ffn",))})


def block_inputs(config: Block) -> tuple[ml.Tensor, ml.Tensor]:
    """Returns the shapes of x and targets, both [batch, embed]."""
    shape = ml.f32[config.dims("batch embed")]
    return shape, shape


def block_loss(params: Params, x: ml.Tensor, targets: ml.Tensor) -> Any:
    """Returns the mean squared error.

    Args:
        params: as `init_block` makes them.
        x: [batch, embed].
        targets: [batch, embed].
    """
    hidden = ml.relu(ml.dot(x, params["up"], "embed"))
    return ml.square(ml.dot(hidden, params["down"], "ffn") - targets).mean()
