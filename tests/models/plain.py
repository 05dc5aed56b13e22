"""What tests of the zoo share: comparing with plain JAX on raw arrays, and planning a step of training.

The oracle of a model is written again in each test, on arrays without names, with letters for dims: b batch, s seq,
t the keys' seq, e embed, h heads, g group, d head, f ffn, v vocab.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import meshlab as ml
from meshlab.models.parts import training, weights
from meshlab.models.parts.initial import shapes
from meshlab.models.zoo import draw

MESH = ml.mesh(data=2, model=2)


def raw(tree):
    """The arrays of a tree of tensors, without names."""
    return jax.tree.map(lambda x: jnp.asarray(x.array), tree, is_leaf=lambda x: isinstance(x, ml.Tensor))


def numbers(init, inputs, config, high, seed=1):
    """Parameters, none of them as a model starts with, and inputs; integers from 0 up to `high`."""
    params = jax.tree.map(lambda w: (0.3 * w).astype(w.dtype), draw(shapes(init, config), seed))
    return params, *draw(inputs(config), seed, high)


def count(init, config):
    """How many parameters a model has, of any size."""
    return sum(leaf.size for leaf in jax.tree.leaves(shapes(init, config)))


def off(actual, wanted):
    """The greatest difference, as a share of the root mean square of what is wanted; near 0 absolute."""
    actual, wanted = (np.asarray(x, np.float64) for x in (actual, wanted))
    assert actual.shape == wanted.shape
    return np.abs(actual - wanted).max() / max(np.sqrt(np.mean(wanted**2)), 1e-9)


def same(loss, plain, params, *inputs, most=1e-5):
    """Asserts that a loss and all its gradients are those of a plain function of raw arrays, in 64 bits."""
    with jax.enable_x64(True):
        params, inputs = jax.tree.map(widened, (params, inputs))
        value, grads = jax.jit(jax.value_and_grad(loss))(params, *inputs)
        wanted, plain_grads = jax.jit(jax.value_and_grad(plain))(raw(params), *raw(inputs))
    assert np.isfinite(wanted)
    assert off(value, wanted) < most
    places = jax.tree_util.tree_leaves_with_path(plain_grads)
    for actual, (place, reference) in zip(jax.tree.leaves(grads), places, strict=True):
        assert np.abs(reference).max() > 0, place
        assert off(actual, reference) < most, (place, off(actual, reference))


def widened(array):
    """Floats in 64 bits, so that what differs is the formula and not the order of additions."""
    return jnp.asarray(array, jnp.float64) if jnp.issubdtype(array.dtype, jnp.floating) else array


def step_of(loss, init, inputs, config, optimizer=None):
    """The program of a step of training: with AdamW, or another optimizer of optax."""
    optimizer, params = optimizer or training.adamw(), shapes(init, config)
    state = jax.eval_shape(optimizer.init, params)
    return ml.trace(training.adamw_step(loss, optimizer), params, state, *inputs(config))


def descent_of(loss, init, inputs, config):
    """The program of a step of plain descent, which is compiled in less time."""
    return ml.trace(training.sgd_step(loss), shapes(init, config), *inputs(config))


def trains(loss, init, inputs, config, *layouts, checked):
    """Plans a step of AdamW under each layout, and checks one of them by plain descent.

    Returns:
        The plans, by layout.
    """
    program = step_of(loss, init, inputs, config)
    assert program.carry == {"params": 1, "opt_state": 2}
    plans = {layout: program.plan(MESH, layout) for layout in ("", *layouts)}
    assert not plans[""].collectives
    for layout in layouts:
        assert plans[layout].collectives, layout
        assert plans[layout].memory.argument_bytes < plans[""].memory.argument_bytes, layout
    verified(descent_of(loss, init, inputs, config).plan(MESH, checked))
    return plans


def verified(plan):
    """Asserts that the compiled program has the predicted collectives, and the unsharded function's results."""
    report = plan.check()
    assert report.ok, report


def looped(loss, init, inputs, config, high):
    """Asserts that a model computes the same by a loop over a list of layers, and that `init` makes such a list."""
    params, *data = numbers(init, inputs, config, high)
    listed = unstacked(params)
    value, wanted = (jax.jit(loss)(each, *data) for each in (listed, params))
    assert off(value, wanted) < 1e-6
    assert jax.tree.structure(listed) == jax.tree.structure(shapes(init, dataclasses.replace(config, unrolled=True)))
    assert len(jax.tree.leaves(listed)) > len(jax.tree.leaves(params))


def unstacked(params):
    """The parameters with a list for `layers`, wherever they stand."""
    if "layers" not in params:
        return {name: unstacked(part) if isinstance(part, dict) else part for name, part in params.items()}
    (dim,) = {x.dims[0].name for x in jax.tree.leaves(params["layers"], is_leaf=lambda x: isinstance(x, ml.Tensor))}
    return params | {"layers": weights.unstack(params["layers"], dim)}


def norm(x, scale, epsilon=1e-6):
    """RMS norm over the last axis."""
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * scale


def layer_norm(x, scale, bias, epsilon=1e-5):
    """Layer norm over the last axis."""
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + epsilon) * scale + bias


def rotate(x, positions, theta):
    """Rotary positions: x [b, s, ..., d] as complex numbers, half against half."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * theta ** (-jnp.arange(half) / half)
    angles = angles.reshape(1, len(positions), *(1,) * (x.ndim - 3), half)
    turned = (x[..., :half] + 1j * x[..., half:]) * jnp.exp(1j * angles)
    return jnp.concatenate([turned.real, turned.imag], -1)


def grouped(x, w, theta):
    """Causal attention with grouped queries."""
    positions = jnp.arange(x.shape[1])
    q = rotate(jnp.einsum("bse,ehgd->bshgd", x, w["query"]), positions, theta)
    k = rotate(jnp.einsum("bse,ehd->bshd", x, w["key"]), positions, theta)
    v = jnp.einsum("bse,ehd->bshd", x, w["value"])
    scores = jnp.einsum("bshgd,bthd->bhgst", q, k) / jnp.sqrt(q.shape[-1])
    weights = jax.nn.softmax(jnp.where(jnp.tri(x.shape[1], dtype=bool), scores, -jnp.inf))
    return jnp.einsum("bhgst,bthd,hgde->bse", weights, v, w["output"])


def layers_of(weights):
    """The weights of each layer, of arrays that have the layers first."""
    return [jax.tree.map(lambda w: w[n], weights) for n in range(len(jax.tree.leaves(weights)[0]))]  # noqa: B023


def nll(logits, targets):
    """Mean negative log likelihood."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1).mean()


def named_share(program):
    """The share of the axes of all values that have a name: a dim's, or one that is made of dims' names."""
    values = [v for v in program.values if v.number not in program.code.constants]
    actual = [name for v in values for name, size in zip(v.dims, v.shape, strict=True) if size != 1]
    parts = [name.split("*") for name in actual]
    return sum(not any(part.lstrip("~")[:1].isdigit() for part in name) for name in parts) / len(actual)
