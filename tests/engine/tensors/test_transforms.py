"""Dims are taken off and put back, with the same numbers as JAX's own transforms."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import meshlab as ml
from meshlab.engine.tensors.marks import name_p
from tests.engine.drawn import close, draw, equations

Layers, Batch, Embed, Out = ml.dims(layers=3, batch=2, embed=4, out=4)


def marks(function, *args):
    """The names in a program, those of nested programs too."""
    return [each.params["names"] for each in equations(function, *args) if each.primitive is name_p]


def layer(x, weight):
    y = ml.tanh(ml.dot(x, weight["w"], Embed)).rename(out="embed") * weight["scale"]
    return x + y, y.sum(Embed)


def raw_layer(x, weight):
    y = jnp.tanh(x @ weight["w"]) * weight["scale"]
    return x + y, y.sum(-1)


X = draw(Batch, Embed)
WEIGHTS = {"w": draw(Layers, Embed, Out, seed=1), "scale": draw(Layers, seed=2)}


def test_scan_equals_jax_and_puts_the_dim_in_front():
    carry, ys = ml.scan(layer, X, WEIGHTS, Layers)
    wanted, raw = jax.lax.scan(raw_layer, X.array, {name: jnp.asarray(w.array) for name, w in WEIGHTS.items()})
    assert (carry.dims, ys.dims) == ((Batch, Embed), (Layers, Batch))
    close(carry, wanted)
    close(ys, raw)
    backwards, _ = ml.scan(layer, X, WEIGHTS, "layers", reverse=True, unroll=True)
    close(backwards, jax.lax.scan(raw_layer, X.array, {n: w.array for n, w in WEIGHTS.items()}, reverse=True)[0])


def test_scan_finds_the_dim_wherever_it_is():
    turned = WEIGHTS | {"w": ml.tensor(np.moveaxis(WEIGHTS["w"].array, 0, 1), Embed, Layers, Out)}
    close(ml.scan(layer, X, turned, Layers)[0], ml.scan(layer, X, WEIGHTS, Layers)[0].array)


def test_scan_mixes_tensors_numbers_and_arrays():
    keys = jax.random.split(jax.random.key(0), Layers.size)

    def body(carry, x):
        noise = ml.tensor(jax.random.normal(x["key"], (Embed.size,)), Embed)
        state = {"x": carry["x"] + noise + x["scale"], "count": carry["count"] + 1}
        return state, (carry["count"], noise.array, None)

    start = {"x": draw(Embed), "count": 0}
    carry, (counts, raw, nothing) = ml.scan(body, start, {"scale": WEIGHTS["scale"], "key": keys}, Layers)
    assert carry["count"] == 3
    assert counts.dims == (Layers,)
    assert raw.shape == (3, 4)
    assert nothing is None


def test_scan_without_xs_counts():
    carry, ys = ml.scan(lambda c, _: (c * 2.0, c), ml.tensor([1.0, 3.0], Batch), None, Layers)
    close(carry, [8.0, 24.0])
    assert ys.dims == (Layers, Batch)


def test_scan_turns_the_carry_back():
    def body(x, w):
        return ml.tensor(x.array.T, Embed, Batch) * w, None

    assert ml.scan(body, X, WEIGHTS["scale"], Layers)[0].dims == (Batch, Embed)


def test_names_survive_gradients_of_scans_under_checkpoints():
    def loss(weights, x):
        return ml.scan(ml.checkpoint(layer), x, weights, Layers)[0].sum()

    gradient = jax.grad(loss)(WEIGHTS, X)
    raw = jax.grad(lambda w: jax.lax.scan(raw_layer, X.array, w)[0].sum())(
        {name: jnp.asarray(w.array) for name, w in WEIGHTS.items()}
    )
    assert gradient["w"].dims == (Layers, Embed, Out)
    close(gradient["w"], raw["w"])
    close(gradient["scale"], raw["scale"])
    assert set(marks(jax.grad(loss), WEIGHTS, X)) == {
        ("batch", "embed"),
        ("batch", "out"),
        ("layers", "batch"),
    }


def test_optimizers_take_trees_of_tensors():
    optimizer = optax.adamw(1e-2)

    @jax.jit
    def step(weights, state):
        value, grads = jax.value_and_grad(lambda w: ml.square(ml.scan(layer, X, w, Layers)[0]).mean())(weights)
        updates, state = optimizer.update(grads, state, weights)
        return value, optax.apply_updates(weights, updates), state

    weights, state = WEIGHTS, optimizer.init(WEIGHTS)
    values = []
    for _ in range(5):
        value, weights, state = step(weights, state)
        values.append(value)
    assert values[-1] < values[0]
    assert weights["w"].dims == (Layers, Embed, Out)


def test_checkpoint_takes_a_policy():
    function = ml.checkpoint(lambda x: ml.sin(ml.sin(x)).sum(), policy=jax.checkpoint_policies.everything_saveable)
    close(jax.grad(function)(X), jax.grad(lambda x: jnp.sin(jnp.sin(x)).sum())(X.array))


@pytest.mark.parametrize(
    ("carry", "xs", "dim", "message"),
    [
        (
            X,
            {"w": draw(Embed)},
            Layers,
            r"scan goes along layers=3, and xs\['w'\] of \[embed=4\] does not have this dim",
        ),
        (X, {"w": 1.0}, Layers, r"first axis of xs\['w'\], an array of shape \(\) without names, is not that"),
        (X, {"w": jnp.ones((2, 3))}, Layers, r"an array of shape \(2, 3\) without names"),
        (
            X,
            None,
            "layers",
            r"no argument has .* Without xs, give a dim with its size: ml.Dim\(\"layers\", 12\)",
        ),
        (X, X, "layers", "scan was asked to go along `layers`, and no argument has this dim.$"),
        (X, draw(Layers), ml.Dim("layers", 4), "scan met two sizes of the dim `layers`: layers=4 and layers=3"),
    ],
)
def test_scan_refuses_xs_without_the_dim(carry, xs, dim, message):
    with pytest.raises(ml.DimError, match=message):
        ml.scan(lambda c, x: (c, None), carry, xs, dim)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda c, x: ({"x": c["x"].sum(Batch)}, None),
            r"carry\['x'\] of \[batch=2, embed=4\] and returned \[embed=4\]",
        ),
        (lambda c, x: ({"x": c["x"].sum()}, None), r"carry\['x'\] of \[batch=2, embed=4\] and returned no dims"),
        (lambda c, x: (c["x"], None), "The function of scan was given the carry .* the carry must keep its tree"),
        (
            lambda c, x: (c, draw(Layers)),
            r"scan goes along `layers`, and the function returned \[layers=3\], which has it",
        ),
    ],
)
def test_scan_refuses_what_comes_back_different(body, message):
    with pytest.raises(ml.DimError, match=message):
        ml.scan(body, {"x": X}, draw(Layers), Layers)


def test_vmap_goes_along_the_dim_of_those_that_have_it():
    y = draw(Embed, Batch, seed=1)
    result = ml.vmap(lambda x, y, z: (x * y * z["k"], x.sum(), x.array), Batch)(X, y, {"k": 2.0})
    product, total, raw = result
    assert product.dims == (Batch, Embed)
    assert total.dims == (Batch,)
    assert raw.shape == (2, 4)
    close(product, 2 * np.asarray(X.array) * np.asarray(y.array).T)
    close(total, np.asarray(X.array).sum(1))


def test_vmap_gives_gradients_of_each_slice():
    result = ml.vmap(jax.grad(lambda x: ml.square(x).sum()), "batch")(X)
    assert result.dims == X.dims
    close(result, 2 * np.asarray(X.array))
    assert (None, "embed") in marks(ml.vmap(lambda x: x.sum(), Batch), X)
    assert ("batch", "embed") in marks(ml.vmap(ml.exp, Batch), X)


def test_vmap_refuses_what_it_cannot_go_along():
    with pytest.raises(ml.DimError, match="vmap was asked to go along `layers`, and no argument has this dim"):
        ml.vmap(ml.exp, Layers)(X)
    with pytest.raises(ml.DimError, match="vmap was asked to go along `layers`, and no argument has"):
        ml.vmap(ml.exp, "layers")(X)
    with pytest.raises(
        ml.DimError, match=r"vmap goes along `batch`, and the function returned \[batch=2\], which has it"
    ):
        ml.vmap(lambda x: draw(Batch), Batch)(X)


MIXED = {1: X, "a": X}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ml.tag(MIXED, "r"), "tag has"),
        (lambda: ml.stop_gradient(MIXED), "stop_gradient has"),
        (lambda: ml.checkpoint(lambda p: p["a"])(MIXED), "checkpoint's argument 0 has"),
        (lambda: ml.checkpoint(lambda p: p["a"])(p=MIXED), "checkpoint's argument `p` has"),
        (lambda: ml.checkpoint(lambda p: MIXED)(X), "checkpoint's result has"),
        (lambda: ml.scan(lambda c, s: (c, s), 0.0, MIXED, "batch"), "scan's xs has"),
        (lambda: ml.scan(lambda c, s: (c, s), MIXED, X, "batch"), "scan's carry has"),
        (lambda: ml.scan(lambda c, s: (c, MIXED), 0.0, X, "batch"), "scan's result has"),
        (lambda: ml.vmap(lambda p: p["a"], "batch")(MIXED), "vmap's argument has"),
        (lambda: ml.vmap(lambda x: {1: x, "a": x}, "batch")(X), "vmap's result has"),
    ],
)
def test_keys_of_two_kinds_are_refused(call, text):
    with pytest.raises(ml.DimError, match=f"^{text} a dict whose keys have no order .*: use texts alone, or integers"):
        call()


@pytest.mark.parametrize(
    ("args", "named", "text"),
    [
        ((3,), {"foo": "x"}, "checkpoint's argument `foo` was given 'x'; it takes trees of tensors"),
        ((3, "x"), {}, "checkpoint's argument 1 was given 'x'; it takes trees of tensors"),
    ],
)
def test_checkpoint_names_what_is_no_array(args, named, text):
    with pytest.raises(ml.DimError, match=text):
        ml.checkpoint(lambda *args, **named: args[0])(*args, **named)
