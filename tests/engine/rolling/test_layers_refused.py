"""Layers that are stacked and are no scan, or are not alike: the message says what to do, which works."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml

X = jnp.ones((2, 4))


def weights(seed: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (4, 4))


# As Flax calls them: the two dense layers have one shape, and only the blocks are a loop.
FLAX = {f"{name}_{i}": {"kernel": weights(i)} for name, count in (("Dense", 2), ("Block", 3)) for i in range(count)}
LISTS = {"dense": [weights(0), weights(1)], "blocks": [weights(2), weights(3), weights(4)]}


def of_flax(params: Any, x: jax.Array) -> jax.Array:
    x = x @ params["Dense_0"]["kernel"]
    for i in range(3):
        x = jnp.tanh(x @ params[f"Block_{i}"]["kernel"])
    return x @ params["Dense_1"]["kernel"]


def of_lists(params: Any, x: jax.Array) -> jax.Array:
    x = x @ params["dense"][0]
    for block in params["blocks"]:
        x = jnp.tanh(x @ block)
    return x @ params["dense"][1]


def test_layers_that_are_no_loop_are_not_stacked_then():
    for step, params, words in (
        (of_flax, FLAX, "{**others, **ml.stack_layers(blocks)}"),
        (of_lists, LISTS, '{**others, "blocks": ml.stack_layers(blocks)}'),
    ):
        with pytest.raises(ml.TraceError, match=re.escape(words)):
            ml.scan_layers(step)(ml.stack_layers(params), X)
    numbered = {key: value for key, value in FLAX.items() if key.startswith("Block")}
    others = {key: value for key, value in FLAX.items() if key not in numbered}
    y = ml.scan_layers(of_flax)({**others, **ml.stack_layers(numbered)}, X)
    np.testing.assert_allclose(y, of_flax(FLAX, X), atol=1e-5)
    y = ml.scan_layers(of_lists)({"dense": LISTS["dense"], "blocks": ml.stack_layers(LISTS["blocks"])}, X)
    np.testing.assert_allclose(y, of_lists(LISTS, X), atol=1e-5)


def test_of_layers_that_a_loop_reads_all_stay_stacked():
    """The last layer's gradient begins otherwise than in the others: to stack less would be no help."""
    params = {"first": weights(9), "blocks": [{"up": weights(i), "down": weights(4 + i)} for i in range(4)]}

    def step(params: Any, x: jax.Array) -> Any:
        def loss(params: Any) -> jax.Array:
            y = jnp.tanh(x @ params["first"])
            for block in params["blocks"]:
                y = y + jnp.tanh(jnp.tanh(y @ block["up"]) @ block["down"])
            return y.sum()

        return jax.grad(loss)(params)

    with pytest.raises(ml.TraceError, match=r"reads the weights of one layer alone\.$"):
        ml.scan_layers(step)(ml.stack_layers(params), X)


def test_more_than_ten_numbered_layers_are_in_the_order_of_their_numbers():
    """JAX flattens `Block_10` before `Block_2`: then no step was a scan, and one layer was read for another."""
    params = {f"Block_{i}": weights(i) for i in range(11)}

    def loop(params: Any, x: jax.Array) -> Any:
        for i in range(11):
            x = jnp.tanh(x @ params[f"Block_{i}"])
        return x, params["Block_2"].sum()

    for one, other in zip(ml.scan_layers(loop)(ml.stack_layers(params), X), loop(params, X), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_where_nothing_is_a_loop_no_stacking_would_help():
    with pytest.raises(ml.TraceError, match=r"reads the weights of one layer alone\.$"):
        ml.scan_layers(lambda p, x: x @ p["Dense_0"]["kernel"] + x)(ml.stack_layers(FLAX), X)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Block:
    w: Any
    act: Callable = dataclasses.field(metadata={"static": True})


def test_the_static_field_in_which_layers_differ_is_named():
    own = {"net": [Block(weights(i), lambda x, i=i: x + i) for i in range(2)]}
    with pytest.raises(ml.TraceError, match=r"they differ in the static field `act` of `Block`: <function .*lambda"):
        ml.stack_layers(own)
    nested = {f"Block_{i}": {"inner": Block(weights(i), act)} for i, act in enumerate((jnp.sin, jnp.cos))}
    with pytest.raises(ml.TraceError, match=r"the static field `act` of `Block`: .*sin.* and .*cos"):
        ml.stack_layers(nested)
    one = jnp.sin
    assert ml.stack_layers([Block(weights(i), one) for i in range(2)]).layers.w.shape == (2, 4, 4)
    with pytest.raises(ml.TraceError, match=r"same shapes, dtypes and dims\.$"):
        ml.stack_layers({"a": [Block(weights(0), one)], "b": {"Dense_0": X, "Dense_1": X.T}})
