"""Models that know nothing of meshlab, as the users of four libraries write them: what `ml.named` brings along.

    for model in imported_models():
        program = ml.trace(model.step, *model.shapes)

A GPT in plain JAX, an encoder in Flax Linen that computes in bfloat16, an MLP-Mixer in Flax NNX and a decoder in
Equinox, each trained with optax in the way of its library. All that meshlab is told are the names of the inputs, and a
few globs over the paths of the parameters (`NAMES` in each module); what the optimizers keep is named by the rules.

Flax and Equinox are no dependencies of meshlab: the modules beside this one are imported when a model is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

import meshlab as ml

from ..zoo import Model
from .sizes import Config

Init = Callable[[jax.Array], Any]


def imported_models(config: Config | None = None) -> tuple[Model, ...]:
    """Returns every imported model; the step of each takes its trees of arrays, tokens and targets.

    Args:
        config: the sizes of all of them; by default small ones.

    Raises:
        ModuleNotFoundError: Flax or Equinox is not installed.
    """
    sizes = config or Config()
    return tuple(make(sizes) for make in (_plain_gpt, _linen_encoder, _nnx_mixer, _equinox_decoder))


def _plain_gpt(config: Config) -> Model:
    from . import plain_gpt as source  # noqa: PLC0415 - needs optax, an extra

    def init(key):
        return source.init(key, config)

    step = source.training(config)
    return _model("plain_gpt", step, config, source.NAMES, init, optimizer_state=source.optimizer().init)


def _linen_encoder(config: Config) -> Model:
    from . import linen_encoder as source  # noqa: PLC0415 - needs Flax

    return _model("linen_encoder", source.step, config, source.NAMES, source.state_of(config))


def _nnx_mixer(config: Config) -> Model:
    from . import nnx_mixer as source  # noqa: PLC0415 - needs Flax

    def init(key):
        return source.init(key, config)

    return _model("nnx_mixer", source.training(config), config, source.NAMES, init)


def _equinox_decoder(config: Config) -> Model:
    from . import equinox_decoder as source  # noqa: PLC0415 - needs Equinox

    def init(key):
        return source.init(key, config)

    step = source.training(config)
    return _model("equinox_decoder", step, config, source.NAMES, init, optimizer_state=source.optimizer().init)


def _model(
    name: str,
    step: Callable[..., Any],
    config: Config,
    names: Mapping[str, str],
    init: Init,
    *,
    optimizer_state: Callable[[Any], Any] | None = None,
) -> Model:
    """A model whose step takes what `init` makes, then the optimizer's state where it is apart, then the batch."""

    def trees(key):
        first = init(key)
        return (first,) if optimizer_state is None else (first, optimizer_state(first))

    def arguments():
        first, *others = jax.eval_shape(trees, jax.random.key(0))
        tokens = ml.named(jax.ShapeDtypeStruct((config.batch, config.seq), np.int32), "batch seq")
        return ml.named(first, names), *others, tokens, tokens

    def data(seed):
        return *jax.jit(trees)(jax.random.key(seed)), *_batch(config, seed)

    return Model(name, step, arguments, data)


def _batch(config: Config, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws tokens and what is to be predicted of them, both (batch, seq)."""
    shape = (2, config.batch, config.seq)
    tokens, targets = np.random.default_rng(seed).integers(0, config.vocab, shape, np.int32)
    return tokens, targets
