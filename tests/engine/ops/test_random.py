"""Random numbers are jax.random's for the global shape, whatever the layout; dropout keeps means."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml

Batch, Hidden, Classes = ml.dims(batch=8, hidden=512, classes=4)
KEY = jax.random.key(7)


def test_numbers_are_those_of_jax_random():
    result = ml.normal(KEY, Batch, Hidden)
    assert result.dims == (Batch, Hidden)
    np.testing.assert_array_equal(result.array, jax.random.normal(KEY, (8, 512)))
    result = ml.uniform(KEY, Batch, low=-2.0, high=3.0)
    np.testing.assert_array_equal(result.array, jax.random.uniform(KEY, (8,), jnp.float32, -2.0, 3.0))
    assert ml.normal(KEY, Batch, dtype=ml.bf16).dtype == jnp.bfloat16
    assert ml.uniform(KEY, Batch, dtype=jnp.float16).dtype == jnp.float16
    np.testing.assert_array_equal(ml.normal(KEY), jax.random.normal(KEY))
    np.testing.assert_array_equal(ml.normal(jax.random.PRNGKey(7), Batch).array, jax.random.normal(KEY, (8,)))


def test_bits_are_drawn_once_for_the_whole_tensor():
    jaxpr = str(jax.make_jaxpr(lambda key: ml.normal(key, Batch, Hidden))(KEY))
    assert jaxpr.count("random_bits") == 1
    assert "shape=(8, 512)" in jaxpr


def test_dropout_loses_a_share_and_keeps_the_mean():
    x = ml.tensor(np.ones((8, 512), np.float32), Batch, Hidden)
    result = ml.dropout(KEY, x, 0.25)
    assert result.dims == x.dims
    assert set(np.unique(result.array)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(float((result == 0).mean()) - 0.25) < 0.02
    np.testing.assert_array_equal(ml.dropout(KEY, x, 0).array, x.array)
    gradient = jax.grad(lambda x: ml.dropout(KEY, x, 0.25).sum())(x)
    np.testing.assert_array_equal(gradient.array, result.array)


def test_one_draw_of_dropout_may_serve_a_whole_dim():
    x = ml.tensor(np.ones((8, 512), np.float32), Batch, Hidden)
    result = ml.dropout(KEY, x, 0.5, Batch)
    assert result.dims == x.dims
    assert len(np.unique(result.array, axis=0)) == 1
    assert abs(float((result == 0).mean()) - 0.5) < 0.1


def test_categorical_draws_classes_with_their_probabilities():
    logits = ml.log(ml.tensor([0.1, 0.2, 0.3, 0.4], Classes)) + ml.normal(KEY, ml.Dim("draw", 4000)) * 0
    drawn = ml.categorical(KEY, logits, "classes")
    assert (drawn.dims, drawn.dtype) == ((ml.Dim("draw", 4000),), jnp.int32)
    np.testing.assert_array_equal(drawn.array, jax.random.categorical(KEY, logits.array, axis=0))
    np.testing.assert_allclose(np.bincount(drawn.array) / 4000, [0.1, 0.2, 0.3, 0.4], atol=0.03)
    bold, sure = ml.tensor([0.0, 1.0], "classes") * 1e3, ml.tensor([0.0, 1.0], "classes")
    assert int(ml.categorical(KEY, bold, "classes")) == 1
    assert {int(ml.categorical(key, sure, "classes")) for key in jax.random.split(KEY, 20)} == {0, 1}


def test_layouts_do_not_change_the_numbers():
    def draws(key, x):
        first, second, third = jax.random.split(key, 3)
        y = ml.dropout(first, x, 0.5) + ml.uniform(second, Batch, Hidden)
        return y, ml.categorical(third, y, Hidden)

    key, x = jax.random.PRNGKey(3), ml.tensor(np.ones((8, 512), np.float32), Batch, Hidden)
    program = ml.trace(draws, jax.ShapeDtypeStruct((2,), jnp.uint32), ml.f32[Batch, Hidden])
    wanted, best = draws(key, x)
    for layout in ("", "batch:data", "hidden:data", "batch:data hidden:model"):
        result, chosen = program.plan(ml.mesh(data=2, model=2), layout).run(key, x)
        np.testing.assert_array_equal(result.array, wanted.array)
        np.testing.assert_array_equal(chosen.array, best.array)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: ml.normal(0, Batch),
            r"normal was given 0 for a key; the first argument is a key, jax.random.key\(0\)",
        ),
        (lambda: ml.uniform(np.zeros(2), Batch), "uniform was given .* for a key"),
        (lambda: ml.normal(ml.tensor([1], "one").astype(ml.u32), Batch), "normal was given a tensor of .* for a key"),
        (lambda: ml.normal(KEY, "batch"), "normal was given 'batch'; it needs a dim with a size"),  # pyright: ignore
        (lambda: ml.normal(KEY, Batch, Batch), "The result of normal has the dim `batch` twice"),
        (lambda: ml.dropout(KEY, ml.normal(KEY, Batch), 1.0), "dropout was given the rate 1.0; it is the share"),
        (lambda: ml.dropout(KEY, ml.normal(KEY, Batch), 0.5, "batsh"), "dropout was asked for the dim `batsh` of"),
        (lambda: ml.dropout(KEY, jnp.ones(3), 0.5), "dropout was given an array of shape"),  # pyright: ignore
        (lambda: ml.dropout(1, ml.normal(KEY, Batch), 0.5), "dropout was given 1 for a key"),
        (lambda: ml.categorical(KEY, ml.normal(KEY, Batch), Classes), "categorical was asked for the dim `classes`"),
        (lambda: ml.categorical(KEY, jnp.ones(3), Classes), "categorical was given an array of shape"),  # pyright: ignore
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, message):
    with pytest.raises(ml.DimError, match=message):
        draw()
