"""Steps of training: a loss becomes a function that returns better parameters.

    optimizer = adamw()
    step = adamw_step(transformer.loss, optimizer)
    opt_state = optimizer.init(params)
    value, params, opt_state = step(params, opt_state, tokens, targets)

The whole step, gradients and optimizer and all, is one function to be traced, since a layout is for all of it. The
gradients are tagged `grads`: sharding the optimizer's state alone (ZeRO-1) names `opt_state/*` in a layout, sharding
gradients as well (ZeRO-2) names `grads`, sharding parameters (FSDP, ZeRO-3) names `params/*`.

optax is imported when an optimizer is made; plain gradient descent does not need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax

import meshlab as ml

if TYPE_CHECKING:
    import optax

Loss = Callable[[Any, Any, Any], jax.Array]


def sgd_step(loss: Loss, learning_rate: float = 1e-3) -> Callable[..., tuple[jax.Array, Any]]:
    """Makes a step of plain gradient descent.

    Args:
        loss: (params, inputs, targets) -> a number.
        learning_rate: what the gradient is multiplied by.

    Returns:
        step(params, inputs, targets) -> (loss, params).
    """

    def step(params, inputs, targets):
        value, grads = jax.value_and_grad(loss)(params, inputs, targets)
        grads = ml.tag(grads, "grads")
        return value, jax.tree.map(lambda w, g: w - learning_rate * g, params, grads)

    return step


def adamw(
    peak: float = 1e-3, warmup: int = 10, steps: int = 1000, clip: float = 1.0, decay: float = 0.1
) -> optax.GradientTransformation:
    """Makes AdamW as language models are trained with it.

    Args:
        peak: the largest learning rate.
        warmup: how many steps it rises for, from 0.
        steps: when it has fallen to 0 again, along a cosine.
        clip: the largest norm of all gradients together.
        decay: how much of the parameters is taken off, times the learning rate.
    """
    import optax  # noqa: PLC0415 - an extra, needed for this optimizer alone

    schedule = optax.warmup_cosine_decay_schedule(0.0, peak, warmup, steps)
    return optax.chain(optax.clip_by_global_norm(clip), optax.adamw(schedule, weight_decay=decay))


def adamw_step(
    loss: Loss, optimizer: optax.GradientTransformation
) -> Callable[..., tuple[jax.Array, Any, optax.OptState]]:
    """Makes a step with an optimizer of optax.

    Args:
        loss: (params, inputs, targets) -> a number.
        optimizer: from `adamw()`, or any of optax whose state has the shapes of the parameters.

    Returns:
        step(params, opt_state, inputs, targets) -> (loss, params, opt_state).
    """
    import optax  # noqa: PLC0415 - an extra, needed for this optimizer alone

    def step(params, opt_state, inputs, targets):
        value, grads = jax.value_and_grad(loss)(params, inputs, targets)
        grads = ml.tag(grads, "grads")
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return value, optax.apply_updates(params, updates), opt_state

    return step
