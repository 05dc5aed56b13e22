"""All models, in sizes of which one step takes milliseconds: what tests and sweeps over layouts run through.

    for model in models():
        program = ml.trace(model.step, *model.shapes)
        ...
        plan.run(*model.data(seed=0))

Sizes are small and divide by 2, 4 and 8 wherever a dim may be split; the steps are those of the modules beside this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import meshlab as ml

from . import digits, mesh_tf, mlp, training, transformer
from .initial import shapes


@dataclasses.dataclass(frozen=True)
class Model:
    """A step, the shapes of its arguments, and numbers for them.

    Attributes:
        name: what tests call it.
        step: the function to trace.
        shapes: its arguments without data.
        data: seed -> its arguments.
    """

    name: str
    step: Callable[..., Any]
    shapes: tuple[Any, ...]
    data: Callable[[int], tuple[Any, ...]]


def models() -> tuple[Model, ...]:
    """Returns every model, small."""
    two_layer, block, auto = mesh_tf.TwoLayer(), mesh_tf.Block(batch=8, length=8), mesh_tf.Autoencoder()
    image, digit, ffn = mlp.Config(16, 8, 8, 64, 8), digits.Config(16, 8, 8, 32, 10), mlp.Block(16, 16, 32)
    text = transformer.Config(batch=8, seq=8, vocab=32, embed=16, heads=4, group=2, head=8, ffn=32, layers=2)
    words = transformer.inputs(text)
    Batch, Io, _ = two_layer.dims
    pair = (ml.f32[Batch, Io], ml.f32[Batch, Io])
    block_input = (ml.f32[block.dims("batch length d_model")],)
    auto_input = (ml.f32[ml.Dim("batch", auto.batch), ml.Dim("io", auto.io)],)
    return (
        _plain("mlp", mlp.step, (mlp.init, image), mlp.inputs(image), image.classes),
        _plain("digits", digits.step, (digits.init, digit), digits.inputs(digit), digit.classes),
        _plain("mlp_sgd", training.sgd_step(mlp.block_loss), (mlp.init_block, ffn), mlp.block_inputs(ffn)),
        _adamw("mlp_adamw", mlp.block_loss, (mlp.init_block, ffn), mlp.block_inputs(ffn)),
        _plain("transformer", transformer.loss, (transformer.init, text), words, text.vocab),
        _plain("transformer_sgd", training.sgd_step(transformer.loss), (transformer.init, text), words, text.vocab),
        _adamw("transformer_adamw", transformer.loss, (transformer.init, text), words, text.vocab),
        _plain("two_layer", mesh_tf.train(mesh_tf.two_layer_loss), (mesh_tf.init_two_layer, two_layer), pair),
        _plain("block", mesh_tf.train(mesh_tf.block_loss), (mesh_tf.init_block, block), block_input),
        _plain("autoencoder", mesh_tf.train(mesh_tf.autoencoder_loss), (mesh_tf.init_autoencoder, auto), auto_input),
    )


def draw(abstract: Any, seed: int, high: int = 2) -> Any:
    """Returns numbers for a tree of shapes: normal ones, and integers from 0 up to `high`."""
    random = np.random.default_rng(seed)

    def one(leaf):
        if np.issubdtype(leaf.dtype, np.integer):
            return random.integers(0, high, leaf.shape).astype(leaf.dtype)
        return random.normal(size=leaf.shape).astype(leaf.dtype)

    return jax.tree.map(one, abstract)


def _plain(name: str, step: Callable[..., Any], made: tuple[Any, Any], inputs: tuple[Any, ...], high: int = 2) -> Model:
    """A model whose step takes parameters and inputs."""
    init, config = made

    def data(seed):
        return init(jax.random.key(seed), config), *draw(inputs, seed, high)

    return Model(name, step, (shapes(init, config), *inputs), data)


def _adamw(name: str, loss: training.Loss, made: tuple[Any, Any], inputs: tuple[Any, ...], high: int = 2) -> Model:
    """A model whose step takes the optimizer's state as well."""
    init, config = made
    optimizer = training.adamw()
    params = shapes(init, config)

    def data(seed):
        params = init(jax.random.key(seed), config)
        return params, optimizer.init(params), *draw(inputs, seed, high)

    step = training.adamw_step(loss, optimizer)
    return Model(name, step, (params, jax.eval_shape(optimizer.init, params), *inputs), data)
