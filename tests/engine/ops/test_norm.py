"""Normalisation by dims is each of the literature's, and the functions of one element are those of jax.nn."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from tests.engine import drawn
from tests.engine.drawn import draw

close = functools.partial(drawn.close, tolerance=1e-4)
Batch, Height, Channels = ml.dims(batch=8, height=6, channels=4)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("dims", "axis"),
    [(("channels",), 2), (("batch", "height"), (0, 1)), (("height",), 1), ((), (0, 1, 2))],
    ids=["layer", "batch", "instance", "all"],
)
def test_the_dims_say_which_normalisation_it_is(dims, axis):
    x = draw(Batch, Height, Channels) * 3 + 1
    weights = draw(Batch, Height, Channels, seed=1)
    result = ml.normalize(x, *dims)
    assert result.dims == x.dims
    close(result, jax.nn.standardize(x.array, axis, epsilon=1e-5))
    close(
        jax.grad(lambda x: (ml.normalize(x, *dims) * weights).sum())(x),
        jax.grad(lambda x: (jax.nn.standardize(x, axis, epsilon=1e-5) * weights.array).sum())(x.array),
        tolerance=1e-3,
    )
    mean, variance = ml.moments(x, *dims)
    close(mean, np.mean(x.array, axis))
    close(variance, np.var(x.array, axis))


def test_the_batch_norm_of_mesh_tensorflow():
    x = ml.tensor([[0.0, 1.0, 2.0], [4.0, 5.0, 6.0]], "batch", "hidden")
    for same in (x, 2 * x + 1):
        close(ml.normalize(same, "batch", epsilon=1e-9), [[-1, -1, -1], [1, 1, 1]])


def test_groups_of_channels_are_normalised_by_unmerging_them():
    x = draw(Batch, Height, Channels)
    Group, Within = ml.dims(group=2, within=2)
    parted = ml.normalize(ml.unmerge(x, Channels, (Group, Within)), Height, Within)
    plain = jax.nn.standardize(x.array.reshape(8, 6, 2, 2), (1, 3), epsilon=1e-5)
    close(ml.merge(parted, (Group, Within), Channels), plain.reshape(8, 6, 4))


def test_running_moments_normalise_what_has_no_batch():
    x = draw(Batch, Channels)
    running = jax.tree.map(lambda new: 0.9 * new, ml.moments(x, Batch))
    one = draw(Channels, seed=2)
    wanted = (one.array - 0.9 * x.array.mean(0)) / np.sqrt(0.9 * x.array.var(0) + 0.1)
    close(ml.normalize(one, moments=running, epsilon=0.1), wanted)
    with pytest.raises(ml.DimError, match="normalize was given dims and moments"):
        ml.normalize(x, Batch, moments=running)


def test_moments_are_taken_in_32_bits():
    x = ml.tensor(np.full((4096, 2), 1.0), "long", "two").astype(ml.bf16)
    mean, variance = ml.moments(x, "long")
    assert mean.dtype == variance.dtype == jnp.float32
    close(mean, [1, 1])
    assert ml.normalize(x, "long").dtype == jnp.bfloat16


@pytest.mark.parametrize("operation", [ml.normalize, ml.moments])
def test_normalisation_refuses_unknown_dims_and_arrays(operation):
    with pytest.raises(ml.DimError, match=r"was asked for the dim `chanels` of .*Did you mean `channels`"):
        operation(draw(Batch, Channels), "chanels")
    with pytest.raises(ml.DimError, match=rf"{operation.__name__} was given an array of shape \(3,\)"):
        operation(jnp.ones(3), "batch")


def test_a_batch_that_is_split_is_normalised_as_a_whole():
    def step(x, scale):
        return (ml.normalize(x, Batch, Height) * scale).sum(Height)

    program = ml.trace(step, ml.f32[Batch, Height, Channels], ml.f32[Channels])
    for layout, count in (("batch:data", 2), ("channels:data", 0), ("batch:data channels:model", 2)):
        plan = program.plan(ml.mesh(data=2, model=2), layout)
        report = plan.check()
        assert report.ok, report
        # One for the mean, one for the variance.
        assert len(plan.collectives) == count


@pytest.mark.parametrize("name", ["elu", "selu", "softplus", "leaky_relu", "sign"])
def test_functions_of_one_element_are_those_of_jax(name):
    x = ml.tensor(jnp.asarray([-100.0, -1.5, -0.0, 0.5, 100.0]), "batch")
    reference = jnp.sign if name == "sign" else getattr(jax.nn, name)
    result = getattr(ml, name)(x)
    assert result.dims == x.dims
    close(result, reference(x.array))
    close(jax.grad(lambda x: getattr(ml, name)(x).sum())(x), jax.vmap(jax.grad(reference))(x.array))
    close(getattr(ml, name)(-2.0), reference(-2.0))
    with pytest.raises(ml.DimError, match=f"{name} was given an array of shape"):
        getattr(ml, name)(jnp.ones(3))


def test_the_slope_of_leaky_relu_may_be_chosen():
    close(ml.leaky_relu(ml.tensor([-1.0, 2.0], "batch"), 0.1), [-0.1, 2])
