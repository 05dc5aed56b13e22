"""The models compute what plain JAX computes, learn, and have names everywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.models import zoo
from meshlab.models.basic import mesh_tf, mlp
from meshlab.models.language import transformer
from meshlab.models.parts import initial, training
from meshlab.models.vision import digits
from tests.models import plain

MODELS = {model.name: model for model in zoo.models()}


def shapes(tree):
    return jax.tree.structure(tree), [(np.shape(leaf), leaf.dtype) for leaf in jax.tree.leaves(tree)]


def close(actual, wanted, tolerance=1e-5):
    np.testing.assert_allclose(getattr(actual, "array", actual), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.share(12)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_shapes_are_those_of_the_data_and_steps_are_finite(model):
    data = model.data(0)
    assert shapes(data) == shapes(model.shapes)
    for leaf in jax.tree.leaves(jax.jit(model.step)(*data)):
        assert np.all(np.isfinite(leaf))


@pytest.mark.share(12)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_nearly_every_axis_has_a_name(model):
    assert plain.named_share(model.trace()) > 0.99


def test_the_share_of_names_counts_what_nobody_named():
    weight = jax.ShapeDtypeStruct((4, 6), np.float32)
    assert plain.named_share(ml.trace(lambda w: w * 2, ml.named(weight, "a b"))) == 1.0
    assert plain.named_share(ml.trace(lambda w: w * 2, ml.named(weight, "a _"))) == 0.5
    assert plain.named_share(ml.trace(lambda w: w.reshape(24), ml.named(weight, "a _"))) == 1 / 3


def test_the_readme_model_is_that_of_the_readme():
    config = mlp.Config()
    params = initial.shapes(mlp.init, config)
    assert repr(params) == "{'w1': f32[rows=28, cols=28, hidden=1024], 'w2': f32[hidden=1024, classes=10]}"
    assert repr(mlp.inputs(config)) == "(f32[batch=100, rows=28, cols=28], i32[batch=100])"


def test_the_readme_step_equals_plain_jax():
    params, images, labels = MODELS["mlp"].data(1)
    x, y = images.array, labels.array

    def loss(w1, w2):
        logits = jax.nn.relu(jnp.einsum("brc,rch->bh", x, w1)) @ w2
        return -jax.nn.log_softmax(logits)[jnp.arange(len(y)), y].mean()

    raw = params["w1"].array, params["w2"].array
    value, grads = jax.value_and_grad(loss, (0, 1))(*raw)
    actual, updated = mlp.step(params, images, labels)
    close(actual, value)
    close(updated["w1"], raw[0] - 1e-3 * grads[0])
    close(updated["w2"], raw[1] - 1e-3 * grads[1])


def raw_norm(x, scale):
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale


def raw_layer(x, w, positions):
    """One layer in plain JAX, with letters for names: b s e, h heads, g group, d head, f ffn, t kv."""

    def rotate(x):
        half = x.shape[-1] // 2
        angles = positions[:, None] * 10_000.0 ** (-jnp.arange(half) / half)
        angles = angles.reshape(1, len(positions), *(1,) * (x.ndim - 3), half)
        first, second = x[..., :half], x[..., half:]
        turned = (
            first * jnp.cos(angles) - second * jnp.sin(angles),
            second * jnp.cos(angles) + first * jnp.sin(angles),
        )
        return jnp.concatenate(turned, -1)

    y = raw_norm(x, w["attention_norm"])
    q = rotate(jnp.einsum("bse,ehgd->bshgd", y, w["query"]))
    k = rotate(jnp.einsum("bse,ehd->bshd", y, w["key"]))
    v = jnp.einsum("bse,ehd->bshd", y, w["value"])
    scores = jnp.einsum("bshgd,bthd->bshgt", q, k) / jnp.sqrt(q.shape[-1])
    earlier = positions[:, None] >= positions[None, :]
    weights = jax.nn.softmax(jnp.where(earlier[None, :, None, None, :], scores, -jnp.inf))
    x = x + jnp.einsum("bshgt,bthd,hgde->bse", weights, v, w["output"])
    y = raw_norm(x, w["ffn_norm"])
    return x + (jax.nn.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"]


def raw_transformer(params, tokens, targets):
    x = params["embedding"][tokens]
    positions = jnp.arange(tokens.shape[1])
    for number in range(params["layers"]["up"].shape[0]):
        x = raw_layer(x, jax.tree.map(lambda w: w[number], params["layers"]), positions)  # noqa: B023
    logits = jax.nn.log_softmax(raw_norm(x, params["norm"]) @ params["embedding"].T)
    return -jnp.take_along_axis(logits, targets[..., None], -1).mean()


def test_the_transformer_and_its_gradients_equal_plain_jax():
    params, tokens, targets = MODELS["transformer"].data(1)
    params = jax.tree.map(lambda w: jnp.asarray(w) * 1.5, params)
    raw = jax.tree.map(lambda x: x.array, params, is_leaf=lambda x: isinstance(x, ml.Tensor))
    value, grads = jax.jit(jax.value_and_grad(transformer.loss))(params, tokens, targets)
    wanted, raw_grads = jax.jit(jax.value_and_grad(raw_transformer))(raw, tokens.array, targets.array)
    close(value, wanted)
    for actual, reference in zip(jax.tree.leaves(grads), jax.tree.leaves(raw_grads), strict=True):
        close(actual, reference, 1e-4)


def test_no_position_sees_what_comes_after():
    params, tokens, _ = MODELS["transformer"].data(0)
    changed = ml.tensor(np.concatenate([tokens.array[:, :5], 31 - tokens.array[:, 5:]], 1), *tokens.dims)
    first, second = (transformer.predict(params, x).array for x in (tokens, changed))
    close(first[:, :5], second[:, :5], 1e-6)
    assert np.abs(first[:, 5:] - second[:, 5:]).min(axis=(0, 2)).max() > 0


def test_turns_are_named_by_position_and_half_a_head():
    config = transformer.Config()
    cos, sin = transformer.rotary(ml.f32[config.dims("batch seq")], ml.f32[config["head"]])
    assert cos.dims == sin.dims == (config["seq"], ml.Dim("half", 8))
    close(ml.square(cos) + ml.square(sin), np.ones((128, 8)))


def test_the_largest_models_have_shapes_without_data():
    config = transformer.Config(
        batch=2048, seq=8192, vocab=128_256, embed=16384, heads=8, group=16, head=128, ffn=53248, layers=126
    )
    params = initial.shapes(transformer.init, config)
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) > 400e9


def test_initial_numbers_depend_on_the_key_alone():
    first, again = (mlp.init(jax.random.key(0), mlp.Config(batch=batch)) for batch in (1, 2))
    close(first["w1"], again["w1"].array, 0)
    assert not np.allclose(first["w1"].array, mlp.init(jax.random.key(1), mlp.Config())["w1"].array)
    assert 0.9 < float(first["w2"].array.std()) * 1024**0.5 < 1.1


def test_digits_are_learnt():
    data, config = digits.load(), digits.Config()
    params, step = digits.init(jax.random.key(0), config), jax.jit(digits.step)
    batches = list(digits.batches(data, config, epochs=5))
    assert len(batches) == 60
    for images, labels in batches:
        _, params = step(params, images, labels)
    assert digits.accuracy(params, *data.test) > 0.9


def test_digits_are_split_and_shuffled_by_their_seed():
    data, other = digits.load(0), digits.load(1)
    assert data.train[0].shape == (1536, 8, 8)
    assert data.test[0].shape == (261, 8, 8)
    assert data.train[0].max() == 1.0
    assert not np.array_equal(data.test[1].array, other.test[1].array)
    (first, _), (second, _) = (next(digits.batches(data, digits.Config(), seed=seed)) for seed in (0, 1))
    assert not np.array_equal(first.array, second.array)


def test_adamw_learns_and_tags_its_residual_stream():
    model = MODELS["transformer_adamw"]
    jaxpr = str(jax.make_jaxpr(model.step)(*model.shapes))
    assert "tag=residual" in jaxpr
    params, state, tokens, targets = model.data(0)
    step = jax.jit(training.adamw_step(transformer.loss, training.adamw(peak=1e-2)))
    values = []
    for _ in range(20):
        value, params, state = step(params, state, tokens, targets)
        values.append(float(value))
    assert values[-1] < values[0] - 0.5


def test_plain_descent_learns():
    params, x, targets = MODELS["mlp_sgd"].data(0)
    step = jax.jit(training.sgd_step(mlp.block_loss, 0.1))
    first, params = step(params, x, targets)
    second, _ = step(params, x, targets)
    assert second < first


def test_the_block_of_mesh_tensorflow_has_its_size():
    params = initial.shapes(mesh_tf.init_block, mesh_tf.Block())
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 8192


def test_the_autoencoder_alternates_its_names():
    config = mesh_tf.Autoencoder(layers=3)
    assert [dim.name for dim in config.widths] == ["io", "hidden_odd", "hidden_even", "hidden_odd", "io"]
    params = mesh_tf.init_autoencoder(jax.random.key(0), config)
    assert list(params) == ["w0", "w1", "w2", "w3"]


@pytest.mark.share(5)
@pytest.mark.parametrize("name", ["two_layer", "block", "autoencoder"])
def test_training_returns_the_gradients_of_the_loss(name):
    model = MODELS[name]
    params, *inputs = model.data(0)
    value, grads = model.step(params, *inputs)
    assert value.shape == ()
    assert jax.tree.structure(grads) == jax.tree.structure(params)
