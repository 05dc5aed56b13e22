"""Mesh TensorFlow's network of convolutions for handwritten digits.

Two convolutions of 9 x 9, the mean over the second's filters, and two hidden layers. Mesh TensorFlow cuts the image
into blocks, `[row_blocks, col_blocks, rows, cols]`, so that there is something to split, and exchanges the edges of
blocks by hand. Here `rows` and `cols` are split themselves:

    config = Config.mesh_tf()
    program = ml.trace(training.sgd_step(loss), shapes(init, config), *inputs(config))
    program.plan(ml.mesh(b1=2, b2=2), "rows:b1 cols:b2")         # its own "row_blocks:b1;col_blocks:b2"

Sizes and formula: `examples/mnist.py` of Mesh TensorFlow.
"""

from __future__ import annotations

import dataclasses

import jax

import meshlab as ml

from ..parts.sizes import Sizes
from ..parts.tasks import class_loss, image_inputs
from .convolutional import Grid, Params, bias, convolved, dense, draw, filters

GRID = Grid(("rows", "cols"))


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
    """Sizes of the network; `window` is how many rows and columns a filter covers."""

    batch: int = 8
    rows: int = 16
    cols: int = 16
    window: int = 3
    channels: int = 1
    filters1: int = 8
    filters2: int = 8
    hidden1: int = 32
    hidden2: int = 32
    classes: int = 8

    @classmethod
    def mesh_tf(cls, batch: int = 200) -> Config:
        """Mesh TensorFlow's own sizes."""
        return cls(batch, 28, 28, window=9, filters1=16, filters2=16, hidden1=512, hidden2=512, classes=10)


def init(key: jax.Array, config: Config) -> Params:
    """Draws the filters `first` and `second`, and `hidden1`, `hidden2` and `logits`, each with a bias."""
    rows, cols, hidden1, hidden2, classes = config.dims("rows cols hidden1 hidden2 classes")
    first, second = config.dims("filters1 filters2")
    images = dataclasses.replace(dense(rows, hidden1), dims=(rows, cols, hidden1), summed=("rows", "cols"))
    return draw(
        key,
        {
            "first": filters(GRID, config.window, config["channels"], first),
            "second": filters(GRID, config.window, first, second),
            "hidden1": images,
            "hidden1_bias": bias(hidden1),
            "hidden2": dense(hidden1, hidden2),
            "hidden2_bias": bias(hidden2),
            "logits": dense(hidden2, classes),
            "logits_bias": bias(classes),
        },
    )


inputs = image_inputs("batch rows cols channels")


def classify(params: Params, images: ml.Tensor) -> ml.Tensor:
    """Returns the logits of the classes.

    Args:
        params: as `init` makes them.
        images: [batch, rows, cols, channels].

    Returns:
        [batch, classes].
    """
    x = ml.relu(convolved(images, params["first"], GRID))
    x = ml.relu(convolved(x, params["second"], GRID)).mean("filters2")
    x = ml.relu(ml.dot(x, params["hidden1"], "rows", "cols") + params["hidden1_bias"])
    x = ml.relu(ml.dot(x, params["hidden2"], "hidden1") + params["hidden2_bias"])
    return ml.dot(x, params["logits"], "hidden2") + params["logits_bias"]


loss = class_loss(classify)
