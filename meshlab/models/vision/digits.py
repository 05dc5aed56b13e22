"""A classifier of handwritten digits, and the digits: real data, and no download.

scikit-learn carries 1,797 digits of 8 x 8 pixels. They are read here into named tensors, and a network without
convolutions learns them in seconds:

    data = load()
    params = init(jax.random.key(0), Config())
    for images, labels in batches(data, Config(), epochs=10):
        value, params = step(params, images, labels)
    accuracy(params, *data.test)

The batch is fixed and the last, incomplete one of an epoch is left out: a dim has one size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np

import meshlab as ml

from ..basic import mlp
from ..parts.tasks import class_loss, image_inputs
from ..parts.weights import Params, zeros

_PIXELS, _BRIGHTEST, _TEST = 8, 16.0, 261


@dataclasses.dataclass(frozen=True)
class Config(mlp.Config):
    """Sizes of the classifier, which has those of the README model."""

    batch: int = 128
    rows: int = _PIXELS
    cols: int = _PIXELS
    hidden: int = 256


@dataclasses.dataclass(frozen=True)
class Digits:
    """Digits in two parts; images: [_, rows, cols] with pixels from 0 to 1, labels: [_]."""

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[ml.Tensor, ml.Tensor]


def load(seed: int = 0) -> Digits:
    """Reads scikit-learn's digits, shuffled: 1,536 to learn from and 261 to test with."""
    from sklearn import datasets  # noqa: PLC0415 - an extra, needed for the data alone

    pixels, classes = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(classes))
    images = (pixels[order] / _BRIGHTEST).astype(np.float32).reshape(-1, _PIXELS, _PIXELS)
    labels = classes[order].astype(np.int32)
    Test, Rows, Cols = ml.dims(test=_TEST, rows=_PIXELS, cols=_PIXELS)
    test = ml.tensor(images[:_TEST], Test, Rows, Cols), ml.tensor(labels[:_TEST], Test)
    return Digits((images[_TEST:], labels[_TEST:]), test)


def batches(data: Digits, config: Config, epochs: int = 1, seed: int = 0) -> Iterator[tuple[ml.Tensor, ml.Tensor]]:
    """Yields images: [batch, rows, cols] and labels: [batch], in a new order each epoch."""
    Batch, Rows, Cols = config.dims("batch rows cols")
    random = np.random.default_rng(seed)
    images, labels = data.train
    for _ in range(epochs):
        order = random.permutation(len(labels))
        for start in range(0, len(order) - config.batch + 1, config.batch):
            chosen = order[start : start + config.batch]
            yield ml.tensor(images[chosen], Batch, Rows, Cols), ml.tensor(labels[chosen], Batch)


def init(key: jax.Array, config: Config) -> Params:
    """Draws w1: [rows, cols, hidden], w2: [hidden, classes]; b1: [hidden] and b2: [classes] are zero."""
    biases = {"b1": zeros(config.dims("hidden")), "b2": zeros(config.dims("classes"))}
    return mlp.init(key, config) | biases


inputs = image_inputs("batch rows cols")


def classify(params: Params, images: ml.Tensor) -> ml.Tensor:
    """Returns logits, [batch, classes], of images, [batch, rows, cols]; the batch may have any name."""
    hidden = ml.relu(ml.dot(images, params["w1"], "rows", "cols") + params["b1"])
    return ml.dot(hidden, params["w2"], "hidden") + params["b2"]


loss = class_loss(classify)


def accuracy(params: Params, images: ml.Tensor, labels: ml.Tensor) -> jax.Array:
    """Returns the share of images that are classified right; the arguments are those of `loss`."""
    return (ml.argmax(classify(params, images), "classes") == labels).mean()


def step(params: Params, images: ml.Tensor, labels: ml.Tensor) -> tuple[jax.Array, Params]:
    """Returns the loss and the parameters after one step of gradient descent; the arguments are those of `loss`."""
    value, grads = jax.value_and_grad(loss)(params, images, labels)
    return value, jax.tree.map(lambda w, g: w - 0.5 * g, params, grads)
