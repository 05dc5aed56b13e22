"""What the family shares: parts of attention are one softmax, and 16 bits are widened where sums are taken."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.models.parts import layers, weights
from tests.models import plain

QUERY, KV, BEFORE, HEAD = ml.dims(query=3, kv=4, before=2, head=5)


def test_parts_are_mixed_by_one_softmax():
    random = np.random.default_rng(0)
    scores, values = random.normal(size=(3, 7)) * 50, random.normal(size=(7, 5))
    wanted = jax.nn.softmax(scores) @ values
    actual = layers.mix(
        (ml.tensor(scores[:, :4], QUERY, KV), ml.tensor(values[:4], KV, HEAD), ("kv",)),
        (ml.tensor(scores[:, 4:6], QUERY, BEFORE), ml.tensor(values[4:6], BEFORE, HEAD), ("before",)),
        (ml.tensor(scores[:, 6], QUERY), ml.tensor(values[6], HEAD), ()),
    )
    assert actual.dims == (QUERY, HEAD)
    np.testing.assert_allclose(actual.array, wanted, rtol=1e-5, atol=1e-6)


def test_norms_are_those_of_their_formulas():
    x, scale, bias = np.random.default_rng(0).normal(size=(3, 4, 6)).astype(np.float32)
    named = [ml.tensor(x, "seq", "embed"), *(ml.tensor(w[0], "embed") for w in (scale, bias))]
    np.testing.assert_allclose(layers.rms_norm(*named[:2]).array, plain.norm(x, scale[0]), rtol=1e-5)
    np.testing.assert_allclose(
        layers.layer_norm(*named).array, plain.layer_norm(x, scale[0], bias[0]), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("theta", [10_000.0, 500_000.0])
def test_positions_turn_as_complex_numbers(theta):
    x = np.random.default_rng(0).normal(size=(2, 7, 3, 4)).astype(np.float32)
    named = ml.tensor(x, "batch", "seq", "heads", "head")
    actual = layers.rotate(named, layers.rotary(named, named, theta))
    assert actual.dims == named.dims
    np.testing.assert_allclose(actual.array, plain.rotate(x, jnp.arange(7), theta), rtol=1e-4, atol=1e-5)


def test_what_is_narrow_comes_back_narrow_and_is_summed_wide():
    x, scale = (
        ml.tensor(jnp.ones(shape, jnp.bfloat16), *dims)
        for shape, dims in (((2, 512), ("seq", "embed")), ((512,), ("embed",)))
    )
    for function in (layers.rms_norm, lambda x, scale: layers.softmax(x * scale, "embed")):
        assert function(x, scale).dtype == jnp.bfloat16
        reductions = [e for e in jax.make_jaxpr(function)(x, scale).eqns if e.primitive.name.startswith("reduce")]
        assert reductions
        assert {e.outvars[0].aval.dtype for e in reductions} == {jnp.dtype("float32")}


def test_a_tensor_that_has_the_dtype_is_left_alone():
    x = ml.tensor(np.ones(3, np.float32), "embed")
    assert layers.wide(x) is x
    assert layers.narrow(x, jnp.float32) is x
    assert layers.narrow(x, jnp.bfloat16).dtype == jnp.bfloat16


def test_a_list_of_weights_is_a_loop_over_them():
    Layers, Embed = ml.dims(layers=3, embed=2)
    stacked = {"scale": ml.tensor(np.arange(1.0, 7.0, dtype=np.float32).reshape(3, 2), Layers, Embed)}
    listed = weights.unstack(stacked)
    assert [each["scale"].dims for each in listed] == [(Embed,)] * 3
    assert weights.one_of(listed) is listed[0]
    assert weights.one_of(stacked) is stacked
    x = ml.tensor(np.ones(2, np.float32), Embed)
    for each in (stacked, listed):
        assert layers.repeated(lambda x, w: x * w["scale"], x, each).array.tolist() == [15.0, 48.0]
