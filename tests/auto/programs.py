"""Programs for tests: the zoo's, and those that Mesh TensorFlow was measured on, in their full sizes."""

from __future__ import annotations

import functools
from typing import Any

import jax

import meshlab as ml
from meshlab.models import zoo
from meshlab.models.basic import mesh_tf, mlp
from meshlab.models.parts.initial import shapes

# Those of the zoo with so few dims that all their layouts can be gone through.
_FEW_DIMS = (
    "mlp digits mlp_sgd mlp_adamw transformer transformer_sgd transformer_adamw two_layer block autoencoder".split()
)
MODELS = {model.name: model for model in zoo.models() if model.name in _FEW_DIMS}
SMALL = tuple(name for name, model in MODELS.items() if "transformer" not in name)


@functools.cache
def traced(name: str) -> ml.Program:
    """Returns a model of the zoo, traced."""
    return ml.trace(MODELS[name].step, *MODELS[name].shapes)


@functools.cache
def recorded(name: str) -> ml.Program:
    """Returns meshlab's own program for one of the graphs in `mesh_tf.json`."""
    if name.startswith("mlp"):
        config = mlp.Config()
        step = _mlp_train if name == "mlp_train" else _mlp_forward
        return ml.trace(step, shapes(mlp.init, config), *mlp.inputs(config))
    if name == "two_layer":
        layers = mesh_tf.TwoLayer(64, 32, 128)
        return ml.trace(mesh_tf.two_layer, shapes(mesh_tf.init_two_layer, layers), ml.f32[layers.dims("batch io")])
    block = mesh_tf.Block()
    x = ml.f32[block.dims("batch length d_model")]
    return ml.trace(_block_train if name == "block_train" else mesh_tf.block, shapes(mesh_tf.init_block, block), x)


def _mlp_forward(params: Any, images: ml.Tensor, labels: ml.Tensor) -> Any:
    logits = ml.dot(ml.relu(ml.dot(images, params["w1"], "rows", "cols")), params["w2"], "hidden")
    return ml.cross_entropy(logits, labels, "classes").mean(), logits


def _mlp_train(params: Any, images: ml.Tensor, labels: ml.Tensor) -> Any:
    (loss, logits), grads = jax.value_and_grad(_mlp_forward, has_aux=True)(params, images, labels)
    return logits, loss, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)


def _block_train(params: Any, x: ml.Tensor) -> Any:
    def loss(params: Any) -> Any:
        y = mesh_tf.block(params, x)
        return ml.square(y).mean(), y

    (value, y), grads = jax.value_and_grad(loss, has_aux=True)(params)
    return y, value, grads
