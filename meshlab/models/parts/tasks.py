"""The two tasks that most models are trained for: the next token at each position, and the class of an image.

    inputs = token_inputs("batch seq")                 # Config -> the shapes of tokens and targets
    loss = next_token_loss(predict)                    # (params, tokens, targets) -> a number

A model says what it reads, and how it predicts; what both mean for its loss is said here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

import meshlab as ml

from .layers import token_loss, wide
from .sizes import Sizes

Inputs = Callable[[Any], tuple[ml.Tensor, ml.Tensor]]


def token_inputs(dims: str = "batch seq") -> Inputs:
    """Makes `inputs(config)`, which returns the shapes of tokens and targets: integers of these dims."""

    def inputs(config: Sizes) -> tuple[ml.Tensor, ml.Tensor]:
        shape = ml.i32[config.dims(dims)]
        return shape, shape

    return inputs


def image_inputs(dims: str) -> Inputs:
    """Makes `inputs(config)`, which returns the shapes of images: floats of these dims, and of labels: [batch]."""

    def inputs(config: Sizes) -> tuple[ml.Tensor, ml.Tensor]:
        return ml.f32[config.dims(dims)], ml.i32[config["batch"],]

    return inputs


def next_token_loss(predict: Callable[..., ml.Tensor]) -> Callable[..., jax.Array]:
    """Makes `loss(params, tokens, targets)`, the mean cross entropy of the next tokens.

    Args:
        predict: (params, tokens) -> logits, [..., vocab]; its options are those of the loss.
    """

    def loss(params: Any, tokens: ml.Tensor, targets: ml.Tensor, **options: Any) -> jax.Array:
        return token_loss(predict(params, tokens, **options), targets)

    return loss


def class_loss(classify: Callable[[Any, ml.Tensor], ml.Tensor]) -> Callable[[Any, ml.Tensor, ml.Tensor], jax.Array]:
    """Makes `loss(params, images, labels)`, the mean cross entropy of the classes, taken in 32 bits.

    Args:
        classify: (params, images) -> logits, [batch, classes].
    """

    def loss(params: Any, images: ml.Tensor, labels: ml.Tensor) -> jax.Array:
        return ml.cross_entropy(wide(classify(params, images)), labels, "classes").mean()

    return loss
