"""Steps of training: a loss becomes a function that returns better parameters.

    optimizer = adamw()
    step = adamw_step(transformer.loss, optimizer)
    opt_state = optimizer.init(params)
    value, params, opt_state = step(params, opt_state, tokens, targets)

The whole step, gradients and optimizer and all, is one function to be traced, since a layout is for all of it. Sharding
the optimizer's state alone (ZeRO-1) names `opt_state/*` in a layout, sharding gradients as well (ZeRO-2) names
`grads/*`, sharding parameters (FSDP, ZeRO-3) names `params/*`.

Mixed precision is a loss of its own: `mixed(transformer.loss)` takes parameters of 32 bits, computes with them in 16,
and has gradients of 32 bits, so that any of the steps serves it.

optax is imported when an optimizer is made; plain gradient descent does not need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

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
        return value, jax.tree.map(lambda w, g: w - learning_rate * g, params, grads)

    return step


def mixed(loss: Loss, dtype: Any = jnp.bfloat16) -> Loss:
    """Makes a loss that is computed in fewer bits than its parameters have.

    The parameters stay as they are, and so do gradients and optimizer: a small update is not lost. They are cast once,
    where the loss begins, so what a layout gathers of them is gathered in few bits. What the models add up in 32 bits
    (norms, softmax, the loss itself) they add up in 32 bits still.

    Args:
        loss: (params, inputs, targets) -> a number.
        dtype: what is computed in: `jnp.bfloat16`, `jnp.float16`.

    Returns:
        A loss of the same arguments, whose floats may have any dtype.
    """

    def cast(array):
        return array.astype(dtype) if jnp.issubdtype(array.dtype, jnp.floating) else array

    def mixed_loss(params, inputs, targets):
        return loss(jax.tree.map(cast, params), jax.tree.map(cast, inputs), targets)

    return mixed_loss


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


def adafactor(peak: float = 1e-2, warmup: int = 10, least: int = 128) -> optax.GradientTransformation:
    """Makes Adafactor: of a second moment it keeps the means along two dims, not each element.

    The state of a weight [embed, ffn] is one number for each `embed` and one for each `ffn`: the tracer names them by
    where they come from, so a rule for `embed` splits the weight and its state alike.

    Args:
        peak: the largest learning rate, as a share of the root mean square of a weight.
        warmup: how many steps it rises for; then it falls with the root of the steps.
        least: weights whose second largest dim is smaller than this keep the whole second moment.
    """
    import optax  # noqa: PLC0415 - an extra, needed for this optimizer alone

    def schedule(count):
        return peak * jnp.minimum((count + 1) / warmup, jnp.sqrt(warmup / (count + 1)))

    return optax.adafactor(schedule, min_dim_size_to_factor=least)


def adamw_step(
    loss: Loss, optimizer: optax.GradientTransformation
) -> Callable[..., tuple[jax.Array, Any, optax.OptState]]:
    """Makes a step with an optimizer of optax.

    Args:
        loss: (params, inputs, targets) -> a number.
        optimizer: from `adamw()`, `adafactor()`, or any of optax.

    Returns:
        step(params, opt_state, inputs, targets) -> (loss, params, opt_state).
    """
    import optax  # noqa: PLC0415 - an extra, needed for this optimizer alone

    def step(params, opt_state, inputs, targets):
        value, grads = jax.value_and_grad(loss)(params, inputs, targets)
        with jax.named_scope("optimizer"):
            updates, opt_state = optimizer.update(grads, opt_state, params)
            params = optax.apply_updates(params, updates)
        return value, params, opt_state

    return step
