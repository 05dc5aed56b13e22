"""Programs of the zoo at sizes at which layouts matter: small ones grown, and a language model of published size."""

from __future__ import annotations

import functools
from typing import Any

import jax

import meshlab as ml
from meshlab.models import zoo
from meshlab.models.language import llama, moe
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes

# Those with at most four dims that may be split, so that all of their layouts can be gone through.
FEW = ("mlp_sgd", "mlp_adamw", "two_layer", "autoencoder")
MODELS = {model.name: model for model in zoo.models()}


@functools.cache
def grown(name: str, factor: int = 64) -> ml.Program:
    """Returns a model of the zoo, each of its dims that many times as large."""
    program = MODELS[name].trace()
    return program.resize(**{dim: size * factor for dim, size in program.dims.items()})


@functools.cache
def llama3(size: str = "8b", batch: int = 64) -> ml.Program:
    """Returns a training step of Llama 3, with AdamW, in 16 bits."""
    return trained(llama, getattr(llama.Config, f"llama3_{size}")(batch=batch))


@functools.cache
def mixtral(batch: int = 64) -> ml.Program:
    """Returns a training step of Mixtral 8x7B, with AdamW, in 16 bits."""
    return trained(moe, moe.Config.mixtral_8x7b(batch=batch))


def trained(model: Any, config: Any) -> ml.Program:
    """Returns a training step of a model, with AdamW, in 16 bits."""
    optimizer, params = training.adamw(), shapes(model.init, config)
    step = training.adamw_step(training.mixed(model.loss), optimizer)
    return ml.trace(step, params, jax.eval_shape(optimizer.init, params), *model.inputs(config))
