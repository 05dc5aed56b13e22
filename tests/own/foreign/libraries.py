"""Programs of Flax, Equinox and Optax, written anew after questions that people ask in public; none is copied."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.own.foreign.program import Program, f32


def muon(mesh: Mesh):
    optax = pytest.importorskip("optax")
    optimizer = optax.contrib.muon(0.02)

    def step(params, state, x, y):
        def loss(params):
            hidden = jax.nn.silu(x @ params["up"])
            return ((hidden @ params["down"] - y) ** 2).mean()

        grads = jax.grad(loss)(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    fsdp, batch = NamedSharding(mesh, P("fsdp")), NamedSharding(mesh, P("fsdp"))
    params = {"up": f32(32, 128), "down": f32(128, 32)}
    state = jax.eval_shape(optimizer.init, params)
    stored = jax.tree.map(lambda leaf: fsdp if leaf.ndim == 2 else NamedSharding(mesh, P()), state)
    jitted = jax.jit(
        step,
        in_shardings=({"up": fsdp, "down": fsdp}, stored, batch, batch),
        out_shardings=({"up": fsdp, "down": fsdp}, stored),
    )
    return jitted, (params, state, f32(16, 32), f32(16, 32))


def split_optimizer(mesh: Mesh):
    nnx, optax = pytest.importorskip("flax.nnx"), pytest.importorskip("optax")

    class Model(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.first = nnx.Linear(8, 64, rngs=rngs)
            self.second = nnx.Linear(64, 16, rngs=rngs)

        def __call__(self, x):
            return self.second(jax.nn.relu(self.first(x)))

    def built():
        model = Model(nnx.Rngs(0))
        return model, nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

    graph, state = nnx.split(nnx.eval_shape(built))

    def train_step(state, x, y):
        model, optimizer = nnx.merge(graph, state)

        def loss(model):
            return jnp.sum((y - model(x)) ** 2)

        grads = nnx.grad(loss)(model)
        optimizer.update(model, grads)
        return nnx.state((model, optimizer))

    def where(path, leaf):
        of_optimizer = path[0].key == 1
        return NamedSharding(mesh, P(*("x", "y")[-leaf.ndim :]) if of_optimizer and leaf.ndim else P())

    stored = jax.tree_util.tree_map_with_path(where, state)
    whole = NamedSharding(mesh, P())
    return jax.jit(train_step, in_shardings=(stored, whole, whole), out_shardings=stored), (
        state,
        f32(32, 8),
        f32(32, 16),
    )


def sharded_twice(mesh: Mesh):
    eqx, optax = pytest.importorskip("equinox"), pytest.importorskip("optax")
    data, replicated = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    optimizer = optax.adam(3e-3)

    @eqx.filter_value_and_grad
    def compute_loss(model, x, y):
        predicted = jax.vmap(model)(x)
        return jnp.mean((predicted - y) ** 2)

    @eqx.filter_jit
    def train_step(model, state, x, y):
        model, state = eqx.filter_shard((model, state), replicated)
        x, y = eqx.filter_shard((x, y), data)
        loss, grads = compute_loss(model, x, y)
        updates, state = optimizer.update(grads, state)
        model = eqx.apply_updates(model, updates)
        model, state = eqx.filter_shard((model, state), replicated)
        return model, state, loss

    model = eqx.nn.MLP(16, 8, width_size=32, depth=2, key=jax.random.key(0))
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    model, state = eqx.filter_shard((model, state), replicated)
    x, y = eqx.filter_shard((jnp.zeros((64, 16)), jnp.zeros((64, 8))), data)
    return train_step, (model, state, x, y)


def wrong_constraint(mesh: Mesh):
    nn, optax = pytest.importorskip("flax.linen"), pytest.importorskip("optax")
    rules = (("batch", "data"), ("mlp", "tensor"), ("embed", None))

    class LayerNormMLP(nn.Module):
        @nn.compact
        def __call__(self, x):
            normed = nn.LayerNorm(use_bias=False)(x)
            kernel = nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("embed", "mlp"))
            hidden = nn.Dense(64, use_bias=False, kernel_init=kernel)(normed)
            hidden = nn.with_logical_constraint(hidden, (None, None, None), rules=rules, mesh=mesh)
            kernel = nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("mlp", "embed"))
            return nn.Dense(32, use_bias=False, kernel_init=kernel)(nn.gelu(hidden))

    model, optimizer = LayerNormMLP(), optax.sgd(0.1)
    variables = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((8, 16, 32)))
    stored = nn.logical_to_mesh_sharding(nn.get_partition_spec(variables), mesh, rules)
    batch = NamedSharding(mesh, P("data"))

    def step(variables, x, y):
        def loss(variables):
            return ((model.apply(variables, x) - y) ** 2).mean()

        grads = jax.grad(loss)(variables)
        updates, _ = optimizer.update(grads, optimizer.init(variables))
        return optax.apply_updates(variables, updates)

    jitted = jax.jit(step, in_shardings=(stored, batch, batch), out_shardings=stored)
    return jitted, (nn.unbox(variables), f32(8, 16, 32), f32(8, 16, 32))


def batch_norm(mesh: Mesh):
    nn, optax = pytest.importorskip("flax.linen"), pytest.importorskip("optax")
    data, replicated = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())

    class Network(nn.Module):
        @nn.compact
        def __call__(self, images):
            features = nn.Conv(16, (3, 3), use_bias=False)(images)
            features = nn.BatchNorm(use_running_average=False)(features)
            pooled = nn.relu(features).mean(axis=(1, 2))
            return nn.Dense(10)(pooled)

    model, optimizer = Network(), optax.sgd(0.1, momentum=0.9)
    variables = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((16, 8, 8, 3)))
    momentum = jax.eval_shape(optimizer.init, variables["params"])

    def train_step(variables, momentum, images, labels):
        def loss(params):
            given = {"params": params, "batch_stats": variables["batch_stats"]}
            logits, changed = model.apply(given, images, mutable=["batch_stats"])
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), changed

        grads, changed = jax.grad(loss, has_aux=True)(variables["params"])
        updates, moved = optimizer.update(grads, momentum)
        return {"params": optax.apply_updates(variables["params"], updates), **changed}, moved

    jitted = jax.jit(
        train_step, in_shardings=(replicated, replicated, data, data), out_shardings=(replicated, replicated)
    )
    return jitted, (variables, momentum, f32(16, 8, 8, 3), jax.ShapeDtypeStruct((16,), jnp.int32))


PROGRAMS = {
    "muon": Program(
        "https://github.com/google-deepmind/optax/issues/1660",
        "What does Muon's orthogonalization send for matrices that are split, and how can it be sharded?",
        {"fsdp": 8},
        muon,
    ),
    "split optimizer": Program(
        "https://github.com/google/flax/issues/5172",
        "What happens to the model's sharding where an NNX optimizer's state is split and the model is not?",
        {"x": 2, "y": 4},
        split_optimizer,
    ),
    "sharded twice": Program(
        "https://github.com/patrick-kidger/equinox/issues/1076",
        "Is `eqx.filter_shard` needed inside the jitted step, where its arguments are sharded already?",
        {"data": 8},
        sharded_twice,
    ),
    "wrong constraint": Program(
        "https://github.com/NVIDIA/TransformerEngine/pull/1772",
        "Why does a layer-norm MLP of Flax run out of memory: which line replicates its hidden values?",
        {"data": 4, "tensor": 2},
        wrong_constraint,
    ),
    "batch norm": Program(
        "https://github.com/google/flax/issues/877",
        "Are batch norm's statistics synchronized between devices, and what does that send?",
        {"data": 8},
        batch_norm,
    ),
}
