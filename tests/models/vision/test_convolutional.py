"""The convolutional models are the published ones: equal to plain JAX, in number of parameters, and trained by layouts.

The oracles are written on arrays without names: batch first, then positions, then channels.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.models.parts import initial, training
from meshlab.models.vision import convnet, convolutional, diffusion, resnet, unet3d
from tests.models import plain

RESNETS = {
    "basic": resnet.Config(),
    "bottleneck": resnet.Config(height=32, width=32, channels=(16, 32), blocks=(2, 1), bottleneck=True, large=True),
}
STEPS = {
    "convnet": (convnet, convnet.Config(), 8),
    "resnet": (resnet, RESNETS["basic"], 8),
    "bottleneck": (resnet, RESNETS["bottleneck"], 8),
    "unet3d": (unet3d, unet3d.Config(), 3),
    "diffusion": (diffusion, diffusion.Config(), diffusion.STEPS),
}


def raw_conv(x, w, stride=1):
    """A convolution of any number of positions, padded to keep their number over the stride."""
    spatial = "DHW"[3 - (x.ndim - 2) :]
    numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    return lax.conv_general_dilated(x, w, (stride,) * (x.ndim - 2), "SAME", dimension_numbers=numbers)


def raw_batch_norm(x, w, epsilon=1e-5):
    over = tuple(range(x.ndim - 1))
    return (x - x.mean(over)) / jnp.sqrt(x.var(over) + epsilon) * w["scale"] + w["bias"]


def raw_convnet(params, images, labels):
    x = jax.nn.relu(raw_conv(images, params["first"]))
    x = jax.nn.relu(raw_conv(x, params["second"])).mean(-1)
    x = jax.nn.relu(jnp.einsum("brc,rch->bh", x, params["hidden1"]) + params["hidden1_bias"])
    x = jax.nn.relu(x @ params["hidden2"] + params["hidden2_bias"])
    return plain.nll(x @ params["logits"] + params["logits_bias"], labels)


def raw_resnet(params, images, labels):
    large = params["stem"].shape[0] == 7
    x = jax.nn.relu(raw_batch_norm(raw_conv(images, params["stem"], 2 if large else 1), params["stem_norm"]))
    if large:
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for stage, position, w in ((s, i, w) for s, blocks in enumerate(params["stages"]) for i, w in enumerate(blocks)):
        stride = 2 if stage and not position else 1
        if "third" in w:
            y = jax.nn.relu(raw_batch_norm(x @ w["first"], w["first_norm"]))
            y = jax.nn.relu(raw_batch_norm(raw_conv(y, w["second"], stride), w["second_norm"]))
            y = raw_batch_norm(y @ w["third"], w["third_norm"])
        else:
            y = jax.nn.relu(raw_batch_norm(raw_conv(x, w["first"], stride), w["first_norm"]))
            y = raw_batch_norm(raw_conv(y, w["second"]), w["second_norm"])
        if "project" in w:
            x = raw_batch_norm(x[:, ::stride, ::stride] @ w["project"][0, 0], w["project_norm"])
        x = jax.nn.relu(x + y)
    return plain.nll(x.mean((1, 2)) @ params["head"] + params["head_bias"], labels)


def raw_level(x, w):
    for name in ("first", "second"):
        x = jax.nn.leaky_relu(raw_batch_norm(raw_conv(x, w[name]), w[f"{name}_norm"], 1e-6), 0.1)
    return x


def raw_unet(params, scans, labels):
    x, passed = raw_level(scans, params["down"][0]), []
    for w in params["down"][1:]:
        passed.append(x)
        b, d, h, k, c = x.shape
        x = raw_level(x.reshape(b, d // 2, 2, h // 2, 2, k // 2, 2, c).max((2, 4, 6)), w)
    for w in params["up"]:
        # With a stride as long as the filter, copies of it lie side by side.
        b, d, h, k, _ = x.shape
        x = jnp.einsum("bdhwc,xyzco->bdxhywzo", x, w["rise"]).reshape(b, 2 * d, 2 * h, 2 * k, -1)
        x = raw_level(jnp.concatenate([x, passed.pop()], -1), w)
    logits = x @ params["head"]
    entropy = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)[..., 0]
    entropy = (entropy * jnp.array([1.0, 8.0, 9.0])[labels]).mean()
    lesion, predicted = (labels == 2) * 1.0, jax.nn.softmax(logits)[..., 2]
    both, total = (lesion * predicted).sum((1, 2, 3)), (lesion + predicted).sum((1, 2, 3))
    each, overall = -2 * both / (total + 0.1), -2 * both.sum() / (total.sum() + 0.1)
    return 0.8 * entropy + 0.2 * (0.5 * each.mean() + 0.5 * overall)


def raw_group_norm(x, w):
    b, h, k, _ = x.shape
    parts = x.reshape(b, h, k, *w["scale"].shape)
    mean, variance = (f(parts, (1, 2, 4), keepdims=True) for f in (jnp.mean, jnp.var))
    return ((parts - mean) / jnp.sqrt(variance + 1e-6) * w["scale"] + w["bias"]).reshape(x.shape)


def raw_step(x, time, w):
    """A residual block, and attention over the positions as one sequence."""

    def affine(x, w):
        return x @ w["weight"] + w["bias"]

    y = raw_conv(jax.nn.silu(raw_group_norm(x, w["first_norm"])), w["first"]["weight"]) + w["first"]["bias"]
    y = y + affine(jax.nn.silu(time), w["time"])[:, None, None]
    y = raw_conv(jax.nn.silu(raw_group_norm(y, w["second_norm"])), w["second"]["weight"]) + w["second"]["bias"]
    x = (affine(x, w["project"]) if "project" in w else x) + y
    if "attention" not in w:
        return x
    w, places = w["attention"], x.reshape(x.shape[0], -1, x.shape[-1])
    normed = raw_group_norm(x, w["norm"]).reshape(places.shape)
    q, k, v = (affine(normed, w[name]) for name in ("query", "key", "value"))
    weights = jax.nn.softmax(jnp.einsum("bsd,btd->bst", q, k) / jnp.sqrt(q.shape[-1]))
    return (places + affine(jnp.einsum("bst,btd->bsd", weights, v), w["output"])).reshape(x.shape)


def raw_diffusion(params, inputs, noise):
    images, times = inputs
    remaining = jnp.asarray(np.cumprod(1 - np.linspace(1e-4, 0.02, 1000)))[times][:, None, None, None]
    x = jnp.sqrt(remaining) * images + jnp.sqrt(1 - remaining) * noise

    def conv(x, w, stride=1):
        return raw_conv(x, w["weight"], stride) + w["bias"]

    first, second = params["time"]["first"], params["time"]["second"]
    half = first["weight"].shape[0] // 2
    # Waves of late times lose digits in 32 bits, in which the model takes them.
    angles = times[:, None] * jnp.exp(jnp.arange(half, dtype=jnp.float32) * jnp.float32(-np.log(10_000) / (half - 1)))
    waves = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)
    time = jax.nn.silu(waves @ first["weight"] + first["bias"]) @ second["weight"] + second["bias"]
    passed = [x := conv(x, params["stem"])]
    for level in params["down"]:
        for w in level["blocks"]:
            passed.append(x := raw_step(x, time, w))
        if "shrink" in level:
            passed.append(x := conv(x, level["shrink"], 2))
    for w in params["middle"]:
        x = raw_step(x, time, w)
    for level in params["up"]:
        for w in level["blocks"]:
            x = raw_step(jnp.concatenate([x, passed.pop()], -1), time, w)
        if "grow" in level:
            x = conv(x.repeat(2, 1).repeat(2, 2), level["grow"])
    return jnp.square(conv(jax.nn.silu(raw_group_norm(x, params["norm"])), params["head"]) - noise).mean()


ORACLES = dict(zip(STEPS, (raw_convnet, raw_resnet, raw_resnet, raw_unet, raw_diffusion), strict=True))


@pytest.mark.share(5)
@pytest.mark.parametrize("name", STEPS)
def test_models_and_their_gradients_equal_plain_jax(name):
    model, config, high = STEPS[name]
    plain.same(model.loss, ORACLES[name], *plain.numbers(model.init, model.inputs, config, high))


@pytest.mark.share(5)
@pytest.mark.parametrize("name", STEPS)
def test_steps_are_planned_and_split_over_the_batch(name):
    model, config, _ = STEPS[name]
    # The compiler adds up the gradients of two biases of a block once, which the plan does twice: they are equal.
    checked = "" if model is diffusion else "batch:data"
    plain.trains(model.loss, model.init, model.inputs, config, "batch:data", checked=checked)


@pytest.mark.parametrize("name", ["convnet", "resnet", "unet3d"])
def test_plain_descent_learns(name):
    model, config, high = STEPS[name]
    params, *inputs = plain.numbers(model.init, model.inputs, config, high)
    step = jax.jit(training.sgd_step(model.loss, 1e-3))
    first, params = step(params, *inputs)
    second, _ = step(params, *inputs)
    assert second < first


@pytest.mark.parametrize(
    ("model", "config", "published"),
    [
        (resnet, resnet.Config.resnet18(), 11_689_512),
        (resnet, resnet.Config.resnet50(), 25_557_032),
        (diffusion, diffusion.Config.cifar10(), 35_746_307),
    ],
)
def test_published_models_have_their_number_of_parameters(model, config, published):
    assert plain.count(model.init, config) == published


def test_the_networks_of_mesh_tensorflow_have_its_sizes():
    params = initial.shapes(convnet.init, convnet.Config.mesh_tf())
    shapes = {name: params[name].shape for name in ("first", "second", "hidden1", "hidden2", "logits")}
    assert shapes == {
        "first": (9, 9, 1, 16),
        "second": (9, 9, 16, 16),
        "hidden1": (28, 28, 512),
        "hidden2": (512, 512),
        "logits": (512, 10),
    }
    assert repr(convnet.inputs(convnet.Config.mesh_tf())[0]) == "f32[batch=200, rows=28, cols=28, channels=1]"
    scans, labels = unet3d.inputs(unet3d.Config.mesh_tf())
    assert repr(scans) == "f32[batch=32, depth=128, height=128, width=128, modalities=1]"
    assert labels.dims == scans.dims[:-1]
    params = initial.shapes(unet3d.init, unet3d.Config.mesh_tf())
    assert [level["second"].shape[-1] for level in params["down"]] == [32, 64, 128, 256]
    assert [level["first"].shape[-2:] for level in params["up"]] == [(256, 128), (128, 64), (64, 32)]


def test_each_resolution_has_positions_of_its_own():
    config = resnet.Config.resnet18()
    program = ml.trace(resnet.classify, initial.shapes(resnet.init, config), resnet.inputs(config)[0])
    heights = {name: size for name, size in program.dims.items() if name.startswith("height")}
    assert heights == {"height": 224, "height_2": 112, "height_4": 56, "height_8": 28, "height_16": 14, "height_32": 7}


def test_grids_call_positions_by_their_resolution():
    grid = convolutional.Grid(("rows", "cols"))
    assert grid.coarser().coarser().names == ("rows_4", "cols_4")
    assert grid.coarser(4).finer() == grid.coarser()
    assert grid.to(grid.coarser()) == {"rows": "rows_2", "cols": "cols_2"}


def test_weights_are_drawn_with_keys_of_their_own():
    Inward, Outward = ml.dims(inward=64, outward=64)
    tree = {"a": convolutional.dense(Inward, Outward), "b": convolutional.dense(Inward, Outward)}
    drawn = convolutional.draw(jax.random.key(0), tree | {"norm": convolutional.norm(Outward)})
    assert not np.allclose(drawn["a"].array, drawn["b"].array)
    assert 0.9 < float(drawn["a"].array.std()) * 8 < 1.1
    assert set(np.unique(drawn["norm"]["scale"].array)) == {1.0}
    assert set(np.unique(drawn["norm"]["bias"].array)) == {0.0}


def test_noise_grows_from_nothing_to_everything():
    remaining = np.cumprod(1 - np.linspace(diffusion.LEAST, diffusion.MOST, diffusion.STEPS))
    assert remaining[0] > 0.999
    assert remaining[-1] < 1e-4


def test_attention_relates_every_position_to_every_other():
    config = diffusion.Config()
    weights = initial.shapes(diffusion.init, config)["middle"][0]["attention"]
    x = ml.f32[ml.dims(batch=8, height_2=4, width_2=4, channels_1=16)]
    attend = jax.make_jaxpr(lambda x, weights: diffusion.attend(x, weights, diffusion.IMAGE.coarser()))
    scores = [e.outvars[0].aval.shape for e in attend(x, weights).jaxpr.eqns if e.primitive.name == "exp"]
    assert scores == [(8, 4, 4, 4, 4)]
