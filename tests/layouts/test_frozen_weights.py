"""Presets take weights that are not trained, the base of a LoRA, for weights, and nothing else for them."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml

layouts = ml.layouts
X4 = ml.mesh(x=4)


def lora(data, dims):
    """A step of SGD on adapters alone, beside a frozen base; its data are a tree, with `x` in it."""

    def step(adapters, base, data):
        def loss(adapters):
            hidden = data["x"]
            for name in ("up", "down"):
                hidden = jnp.tanh(hidden @ base[name] + hidden @ adapters[name]["a"] @ adapters[name]["b"])
            return (hidden**2).mean() + sum(each.sum() for each in data.values())

        return jax.tree.map(lambda w, g: w - 0.1 * g, adapters, jax.grad(loss)(adapters))

    base = {"up": jnp.ones((16, 32)), "down": jnp.ones((32, 16))}
    adapters = {name: {"a": w[:, :2], "b": w[:2]} for name, w in base.items()}
    named = {"up/a": "width rank", "up/b": "rank hidden", "down/a": "hidden rank", "down/b": "rank width"}
    return ml.trace(
        step,
        ml.named(adapters, named),
        ml.named(base, {"up": "width hidden", "down": "hidden width"}),
        ml.named(data, dims),
    )


def test_frozen_weights_are_no_data_and_are_stored_in_shards():
    traced = lora({"x": jnp.ones((8, 16)), "y": jnp.ones(8)}, {"x": "batch width", "y": "batch"})
    assert layouts.data_parallel(traced, X4) == ml.Layout.of({"batch": "x"})
    frozen, named = {"base/*": {"hidden": "x"}}, {"adapters/*": {"hidden": "x", "width": "x"}}
    assert layouts.fsdp(traced, X4) == ml.Layout.of({"batch": "x", **named, **frozen})
    assert layouts.fsdp(traced, X4, batch="batch") == layouts.fsdp(traced, X4)
    assert layouts.fsdp(traced, X4, params=["adapters/*", "base/*"]) == layouts.fsdp(traced, X4)
    assert traced.plan(X4, layouts.fsdp(traced, X4)).check().ok


def test_what_params_does_not_name_stays_whole():
    traced = lora({"x": jnp.ones((8, 16))}, "batch width")
    expected = ml.Layout.of({"batch": "x", "adapters/*": {"hidden": "x", "width": "x"}})
    assert layouts.fsdp(traced, X4, params="adapters/*") == expected
    with pytest.raises(
        ml.LayoutError, match=r"2 problems(?s:.*)params='bas/\*' is not a glob(?s:.*)params=3 is not a glob"
    ):
        layouts.fsdp(traced, X4, params=["bas/*", "adapters/*", 3])  # pyright: ignore
    with pytest.raises(ml.LayoutError, match=r"params=\[\] is not a glob that matches an argument"):
        layouts.fsdp(traced, X4, params=[])


@pytest.mark.parametrize("several", [False, True], ids=["an array", "a tree"])
def test_moments_that_are_not_carried_are_no_frozen_weights_but_one_array_may_be(several):
    def step(weights, other, x):
        gradient = jax.grad(lambda w: ((x @ w + (0 if several else x @ other)) ** 2).mean())(weights)
        return weights - 0.1 * gradient - (other["m"] if several else 0), gradient

    x, weight = ml.named(jnp.ones((8, 16)), "batch width"), jnp.ones((16, 16))
    other = ml.named({"m": weight} if several else weight, "width _")
    traced = ml.trace(step, ml.named(weight, "width _"), other, x, carry={"weights": 0})
    if several:
        with pytest.raises(
            ml.LayoutError, match=r"No dim is common to all its data and absent(?s:.*)Data are `other/m`"
        ):
            layouts.fsdp(traced, X4)
    else:
        expected = ml.Layout.of({"batch": "x", "weights": {"width": "x"}, "other": {"width": "x"}})
        assert layouts.fsdp(traced, X4) == layouts.fsdp(traced, X4, batch="batch") == expected


def test_a_tree_of_data_of_which_one_array_has_no_batch_is_not_taken_for_frozen_weights():
    traced = lora({"x": jnp.ones((8, 16)), "weights": jnp.ones(4)}, {"x": "batch width", "weights": "time"})
    with pytest.raises(
        ml.LayoutError,
        match=r"No dim is common to all its data and absent(?s:.*)`data/weights` \[time\], `data/x` \[batch width\]",
    ):
        layouts.data_parallel(traced, X4)
