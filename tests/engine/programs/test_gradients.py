"""The gradient of each parameter is found by data flow, and is a place of every step that takes gradients."""

import fnmatch
import functools

import jax
import jax.numpy as jnp
import optax
import pytest

import meshlab as ml
from meshlab.models.zoo import models

pytestmark = pytest.mark.share(2, of="file")

MODELS = {model.name: model for model in models()}
LOSSES = ("convnet", "gpt2", "llama", "moe", "state_space", "t5", "vit")
SHAPE = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)


def at(program, place):
    """The number of the value at a place."""
    return dict(zip(program.outputs, program.code.block.outputs, strict=True)).get(
        place, program.places_values.get(place)
    )


def original(program, place):
    """The number of the value there, before it was marked: parameters that are added have one gradient."""
    return program.original_of[at(program, place)]


def returning(loss, optimizer):
    """A step that returns its gradients besides, in the tree of the parameters."""

    def step(params, state, *data):
        value, grads = jax.value_and_grad(loss)(params, *data)
        updates, state = optimizer.update(grads, state, params)
        return value, optax.apply_updates(params, updates), state, grads

    return step


@pytest.mark.share(4)
@pytest.mark.parametrize("carry", [{"params": 1, "state": 2}, None], ids=["by its update", "by its path"])
@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_of_each_parameter_is_what_the_function_says(name, carry):
    """The function returns its gradients; each is the value that the update of the parameter led to, or its path."""
    model = MODELS[name]
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    params, *data = model.shapes
    program = ml.trace(
        returning(model.step, optimizer), params, jax.eval_shape(optimizer.init, params), *data, carry=carry
    )
    places = [a.place for a in program.arguments if a.parameter == "params"]
    assert [*program.gradients.values()] == places
    assert len(places) > 3
    for gradient, parameter in program.gradients.items():
        assert gradient == f"grads/{parameter}"
        returned = f"out/3/{parameter.removeprefix('params/')}"
        assert original(program, gradient) == original(program, returned), parameter


def chain(x, w):
    return jnp.tanh(jnp.tanh(x @ w["a"]) @ w["b"])


def loss(w, x):
    return jnp.square(chain(x, w) - x).mean()


SQUARE = ml.named({"a": SHAPE((64, 64)), "b": SHAPE((64, 64))}, {"*": "embed _"})
X = ml.named(SHAPE((16, 64)), "batch embed")


def sums(program, layout="batch:data"):
    """What each all-reduce and reduce-scatter adds up, but for the loss."""
    plan = program.plan(ml.mesh(data=4), layout)
    kinds = ("all-reduce", "reduce-scatter")
    return [c.value for c in plan.collectives if c.kind in kinds and c.dims]


@pytest.mark.parametrize(
    "update",
    [
        pytest.param(lambda w, g: w - 0.1 * g, id="sgd"),
        pytest.param(lambda w, g: w - 0.1 * jnp.sign(g) * jnp.abs(w).max(), id="sign"),
        pytest.param(lambda w, g: w - 0.1 * (g.reshape(-1) * 2).reshape(w.shape), id="reshaped"),
    ],
)
def test_parameters_of_equal_dims_have_gradients_of_their_own_names(update):
    def step(w, x):
        value, grads = jax.value_and_grad(loss)(w, x)
        return value, jax.tree.map(update, w, grads)

    program = ml.trace(step, SQUARE, X)
    assert program.gradients == {"grads/w/a": "w/a", "grads/w/b": "w/b"}
    assert sorted(sums(program)) == ["gradient of w/a", "gradient of w/b"]


def test_two_scalars_that_are_clipped_together_are_told_apart():
    """Each update reads both gradients: one as it is, the other in the norm."""

    def step(w, x):
        grads = jax.grad(lambda w: jnp.square(x * w["scale"] + w["shift"] - 1).mean())(w)
        norm = jnp.sqrt(sum(jnp.square(g) for g in jax.tree.leaves(grads)))
        return jax.tree.map(lambda p, g: p - 0.1 * g / norm, w, grads), grads

    scalars = ml.named({"scale": SHAPE(()), "shift": SHAPE(())}, {"*": ""})
    program = ml.trace(step, scalars, X)
    assert [at(program, f"grads/w/{name}") for name in ("scale", "shift")] == [
        at(program, f"out/1/{name}") for name in ("scale", "shift")
    ]


def accumulated(w, x):
    """The sum of the gradients of four micro-batches, in a loop."""

    def one(total, part):
        return jax.tree.map(jnp.add, total, jax.grad(loss)(w, part)), None

    parts = x.reshape(4, 4, 64).swapaxes(0, 1)
    total, _ = jax.lax.scan(one, jax.tree.map(jnp.zeros_like, w), parts)
    return jax.tree.map(lambda p, g: p - 0.1 * g, w, total)


def several(w, x):
    """Three steps in one loop."""
    return jax.lax.scan(
        lambda w, _: (jax.tree.map(lambda p, g: p - 0.1 * g, w, jax.grad(loss)(w, x)), None), w, length=3
    )[0]


@pytest.mark.parametrize("step", [accumulated, several])
def test_gradients_in_loops_are_places_there(step):
    program = ml.trace(step, SQUARE, X, carry={"w": 0})
    assert program.gradients == {"grads/w/a": "w/a", "grads/w/b": "w/b"}
    body = next(op for op in program.code.block.operations if op.name == "scan" and not op.backward).body
    assert body is not None
    inside = {v for operation in body.operations for v in operation.outputs}
    assert {at(program, place) for place in program.gradients} <= inside
    plan = program.plan(ml.mesh(data=4), {"batch": "data", "grads/*": {"embed": "data"}})
    assert plan.check().ok


def test_gradients_that_are_returned_are_known_by_their_path():
    program = ml.trace(jax.value_and_grad(loss), SQUARE, X)
    assert {at(program, f"grads/w/{n}") for n in "ab"} == {at(program, f"out/1/{n}") for n in "ab"}
    assert at(program, "grads/w/a") == at(program, "out/1/a")


def test_two_networks_have_the_gradients_of_each():
    def step(first, second, x):
        one = jax.grad(lambda w: loss(w, x))(first)
        two = jax.grad(lambda w: loss(w, chain(x, first)))(second)
        return tuple(jax.tree.map(lambda p, g: p - 0.1 * g, w, g) for w, g in ((first, one), (second, two)))

    program = ml.trace(step, SQUARE, SQUARE, X, carry={"first": 0, "second": 1})
    assert [*program.gradients.values()] == ["first/a", "first/b", "second/a", "second/b"]
    assert sorted(sums(program)) == [f"gradient of {w}/{n}" for w in ("first", "second") for n in "ab"]


ROWS = ml.named({"a": SHAPE((4, 64))}, {"*": "rows embed"})
READ = {
    "row by row": lambda a, x: sum(jnp.tanh(x + n) * a[n] for n in range(4)),
    "turned": lambda a, x: jnp.tanh(x)[:, :4] @ a[::-1],
    "joined": lambda a, x: jnp.tanh(x) @ jnp.concatenate([a, jnp.ones((2, 64))]).T,
    "looked up": lambda a, x: jnp.tanh(x) @ a[jnp.arange(8) % 3].T,
}


@pytest.mark.parametrize("read", READ)
def test_what_a_gradient_is_put_together_of_has_its_name(read):
    """The sums over the batch are of its rows, of rows in another order, of others beside them, or of many for each."""

    def step(w, x):
        grads = jax.grad(lambda w: jnp.square(READ[read](w["a"], x)).mean())(w)
        return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads)

    found = sums(ml.trace(step, ROWS, X))
    assert found == ["gradient of w/a"] * (4 if read == "row by row" else 1)


def test_parameters_that_share_a_gradient_are_named_together():
    def step(w, x):
        grads = jax.grad(lambda w: jnp.square(jnp.tanh(x @ (w["a"] + w["b"]))).mean())(w)
        return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads)

    assert sums(ml.trace(step, SQUARE, X)) == ["gradient of w/a and w/b"]


def test_the_gradient_of_what_tokens_look_up_is_none_of_the_table():
    """Each device adds its part of it: it is the lookup's, by token; the table's is the sum over tokens."""
    shapes = {"table": SHAPE((32, 64)), "w": SHAPE((64, 128))}
    params = ml.named(shapes, {"table": "vocab embed", "w": "embed hidden"})

    def step(w, tokens):
        grads = jax.grad(lambda w: jnp.square(jnp.tanh(w["table"][tokens] @ w["w"])).mean())(w)
        return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads)

    tokens = ml.named(jax.ShapeDtypeStruct((16,), jnp.int32), "batch")
    program = ml.trace(step, params, tokens)
    (of_lookup,) = sums(program, "hidden:data")
    assert "gradient of" not in of_lookup
    assert sorted(sums(program)) == ["gradient of w/table", "gradient of w/w"]


@pytest.mark.share(5)
@pytest.mark.parametrize("name", [name for name in MODELS if name.endswith(("_sgd", "_adamw", "_adafactor"))])
def test_every_gradient_that_is_summed_over_the_batch_has_its_parameter_s_name(name):
    program = MODELS[name].trace()
    whole = {"experts"} & program.dims.keys()  # what the devices' experts read is gathered, not summed
    named = {n for each in sums(program) for n in each.removeprefix("gradient of ").split(" and ")}
    left = [p for p in program.gradients.values() if not any(fnmatch.fnmatchcase(p, n) for n in named)]
    assert len(program.gradients) >= 2
    assert not left or (whole and {p.split("/")[-1] for p in left} == {"down", "gate", "up"})


def test_a_tag_or_an_argument_called_grads_keeps_its_name():
    def tagged(w, x):
        grads = ml.tag(jax.grad(loss)(w, x), "grads")
        return jax.tree.map(lambda p, g: p - 0.1 * g, w, grads)

    def given(w, grads, x):
        return jax.tree.map(lambda p, g, h: p - 0.1 * (g + h), w, grads, jax.grad(loss)(w, x))

    program = ml.trace(tagged, SQUARE, X)
    assert [*program.gradients] == ["gradients/w/a", "gradients/w/b"]
    assert [*program.tags] == ["grads"]
    program.plan(ml.mesh(data=4), {"batch": "data", "grads": {"embed": "data"}, "gradients/*": {"embed": "data"}})
    assert [*ml.trace(given, SQUARE, SQUARE, X, carry={"w": 0}).gradients] == ["gradients/w/a", "gradients/w/b"]


def test_what_takes_no_gradient_has_none():
    program = ml.trace(loss, SQUARE, X)
    assert not program.gradients
    assert program.places == ("w/a", "w/b", "x", "out")


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "layout",
    [
        {"batch": "data", "grads/*": {"embed": "data"}},
        {"batch": "data", "grads/*": {"vocab": "model", "ffn": "data"}, "params/*": {"ffn": "data"}},
        {"batch": "data", "heads": "model", "grads/params/layers/0/*": {"embed": "data"}},
        {"batch": "data", "ffn": "model", "grads/*/up": {"embed": "data"}, "opt_state/*": {"embed": "data"}},
    ],
)
def test_what_rules_at_gradients_send_is_what_is_compiled(layout):
    plan = MODELS["llama_unrolled_adamw"].trace().plan(ml.mesh(data=2, model=2), layout)
    assert any(place.startswith("grads/") for place in plan.rules.storage)
    report = plan.check()
    assert report.ok, report
