"""Layers in Haiku's parameters: one dict of paths, with the layer's number at the end of a path or inside of it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml

X = jnp.ones((2, 4))


def linear(seed: int) -> dict[str, jax.Array]:
    return {"w": jax.random.normal(jax.random.key(seed), (4, 4)), "b": jnp.full(4, seed / 8)}


MLP = {f"mlp/~/linear_{i}": linear(i) for i in range(3)}
# Ten and more: by their numbers, not as texts.
PARTS = ("up", "mlp/linear_1")
NET = {f"net/block_{i}/~/{name}": linear(2 * i + at) for i in range(11) for at, name in enumerate(PARTS)}
NET |= {"net/~/embed": linear(30)}


def dense(params: Any, x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ params["w"] + params["b"])


def mlp(params: Any, x: jax.Array) -> jax.Array:
    for i in range(3):
        x = dense(params[f"mlp/~/linear_{i}"], x)
    return jnp.sum(x)


def net(params: Any, x: jax.Array) -> jax.Array:
    x = dense(params["net/~/embed"], x)
    for i in range(11):
        x = dense(params[f"net/block_{i}/~/mlp/linear_1"], dense(params[f"net/block_{i}/~/up"], x))
    return jnp.sum(x)


@pytest.mark.parametrize(("loss", "params", "key"), [(mlp, MLP, "mlp/~/linear"), (net, NET, "net/block")])
def test_layers_of_paths_become_a_scan(loss, params, key):
    stacked = ml.stack_layers(params)
    assert set(stacked) == {key, *(path for path in params if "_" not in path)}
    back = ml.unstack_layers(stacked)
    assert back.keys() == params.keys()
    jax.tree.map(np.testing.assert_array_equal, back, params)

    def step(params: Any, x: jax.Array) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    value, after = ml.scan_layers(step)(stacked, X)
    wanted, updated = step(params, X)
    np.testing.assert_allclose(value, wanted, rtol=1e-5)
    assert jax.tree.structure(after) == jax.tree.structure(stacked)
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, atol=1e-5), ml.unstack_layers(after), updated
    )
    scans = str(jax.make_jaxpr(ml.scan_layers(loss))(stacked, X)).count("scan[")
    assert scans == 1


def test_a_layer_over_several_paths_has_the_rest_of_each_as_its_place():
    program = ml.trace(ml.scan_layers(net), ml.stack_layers(NET), X)
    assert program.place("params/net/block/~/up/w").shape == (11, 4, 4)
    assert program.place("params/net/block/~/mlp/linear_1/b").shape == (11, 4)


def test_paths_of_layers_that_are_not_alike_stay_as_they_are():
    other = NET | {"net/block_3/~/up": {"w": jnp.ones((4, 8)), "b": jnp.ones(8)}}
    with pytest.raises(ml.TraceError, match="found no layers that are alike"):
        ml.stack_layers(other)
    both = ml.stack_layers(other | MLP)
    assert set(both) == {*other, "mlp/~/linear"}
