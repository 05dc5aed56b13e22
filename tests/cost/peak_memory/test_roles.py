"""What arrays are for, told by what a program does with them."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.cost.peak_memory.roles import INPUTS, MASTERS, PARAMETERS, STATE, roles_of
from meshlab.models.zoo import models

Batch, Inner, Out = ml.dims(batch=8, inner=16, out=4)
WIDE, NARROW = ml.f32[Inner, Out], ml.bf16[Inner, Out]
X = ml.bf16[Batch, Inner]


def roles(function, *arguments, carry=None):
    """By the name of each argument."""
    program = ml.trace(function, *arguments, carry=carry)
    return {a.place: role for a, role in zip(program.arguments, roles_of(program).arguments, strict=True)}


def loss(w, x):
    return ml.square(ml.dot(x, w, "inner")).sum()


def trained(of):
    """A step of plain gradient descent on what a loss makes of its parameters."""

    def step(params, x):
        return jax.tree.map(lambda w, g: w - 0.1 * g, params, jax.grad(of)(params, x))

    return step


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(lambda w, x: loss(w["w"].astype(jnp.bfloat16), x), MASTERS, id="cast first"),
        pytest.param(lambda w, x: loss(w["w"], x), PARAMETERS, id="as they are"),
        pytest.param(lambda w, x: loss(w["w"].astype(jnp.float32), x), PARAMETERS, id="cast to as many bits"),
        pytest.param(
            lambda w, x: loss(w["w"].astype(jnp.bfloat16), x) + loss(w["w"], x), PARAMETERS, id="cast and not cast"
        ),
        pytest.param(lambda w, x: loss((w["w"] * 2.0).astype(jnp.bfloat16), x), PARAMETERS, id="cast after something"),
    ],
)
def test_what_the_forward_pass_casts_before_anything_else_is_a_master_copy(of, expected):
    assert roles(trained(of), {"w": WIDE}, X) == {"params/w": expected, "x": INPUTS}


def test_parameters_in_more_bits_for_their_products_are_parameters():
    by_place = roles(trained(lambda w, x: loss(w["w"].astype(jnp.float32), x)), {"w": NARROW}, X)
    assert by_place["params/w"] == PARAMETERS


def test_of_what_the_backward_pass_knows_nothing_is_state_or_what_new_parameters_are_cast_of():
    def step(params, state, x):
        grads = jax.grad(lambda w: loss(w["w"], x))(params)
        moment = 0.9 * state["moment"] + grads["w"].astype(jnp.float32)
        master = state["master"] - 0.1 * moment
        return {"w": master.astype(jnp.bfloat16)}, {"moment": moment, "master": master}

    by_place = roles(step, {"w": NARROW}, {"moment": WIDE, "master": WIDE}, X, carry={"params": 0, "state": 1})
    assert by_place == {"params/w": PARAMETERS, "state/moment": STATE, "state/master": MASTERS, "x": INPUTS}


def test_what_is_not_handed_on_is_a_parameter_if_it_is_a_tree_of_floats():
    tree = {"w": WIDE, "steps": ml.i32[Out]}
    assert roles(lambda w, x: loss(w["w"], x), {"w": WIDE}, X, carry={}) == {"w/w": PARAMETERS, "x": INPUTS}
    assert set(roles(lambda t, x: loss(t["w"], x) + t["steps"].sum(), tree, X, carry={}).values()) == {INPUTS}


def test_without_a_backward_pass_what_is_handed_on_is_an_input():
    by_place = roles(lambda w, cache, x: (loss(w["w"], x), cache), {"w": WIDE}, {"k": X}, X, carry={"cache": 1})
    assert by_place == {"w/w": PARAMETERS, "cache/k": INPUTS, "x": INPUTS}


def test_weights_that_are_gathered_are_a_role_of_their_own():
    """Fully sharded, six square layers: all but the shards of what is gathered were called activations."""
    square = {f"w{i}": jax.ShapeDtypeStruct((64, 64), jnp.float32) for i in range(6)}

    def of(params, x):
        for i in range(6):
            x = jnp.tanh(x @ params[f"w{i}"])
        return jnp.square(x).mean()

    x = ml.named(jax.ShapeDtypeStruct((8, 64), jnp.float32), "batch width")
    program = ml.trace(trained(of), ml.named(square, "width _"), x, carry={"params": 0})
    mesh = ml.mesh(data=4)
    whole = program.plan(mesh, "batch:data").memory
    sharded = program.plan(mesh, {"batch": "data", "params/*": {"width": "data"}}).memory
    gathered = [alive for alive in sharded.at_peak if alive.role == "gathered weights"]
    assert {alive.name for alive in gathered} <= set(program.places)
    assert sum(alive.bytes for alive in gathered) == sharded.parts["gathered weights"] >= 64 * 64 * 4
    assert not [alive for alive in sharded.at_peak if alive.role == "activations" and alive.name.startswith("params")]
    assert "gathered weights" not in whole.parts


def test_what_a_loop_gathers_slice_by_slice_is_gathered_weights_too():
    program = next(model for model in models() if model.name == "transformer_adamw").trace()
    mesh = ml.mesh(data=4)
    parts = program.plan(mesh, ml.layouts.fsdp(program, mesh)).memory.parts
    assert parts["gathered weights"] > 0
    assert "gathered weights" not in program.plan(mesh, ml.layouts.data_parallel(program, mesh)).memory.parts
