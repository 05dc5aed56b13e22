"""What is carried to the next call is found whatever axis its names were put on, or a warning says what is not."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.models import zoo

MESH = ml.mesh(data=4)


def shaped(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def descent(params, grads):
    return jax.tree.map(lambda w, d: w - 0.1 * d, params, grads)


def step(params, x):
    """Weights are stored (out, in), and multiplied transposed."""

    def loss(params):
        h = jnp.tanh((x @ params["a"].T).reshape(8, 12, 4, 16)).reshape(8, 12, 64)
        return jnp.square(x + h @ params["b"].T).mean()

    value, grads = jax.value_and_grad(loss)(params)
    return descent(params, grads), value


def traced(names, fn=step):
    """The step, its second weight named so."""
    params = ml.named({"a": shaped(64, 64), "b": shaped(64, 64)}, {"a": "inner embed", "b": names})
    return ml.trace(fn, params, ml.named(shaped(8, 12, 64), "batch seq embed"))


@pytest.mark.parametrize("names", ["embed _", "_ embed"])
def test_a_weight_named_at_its_other_axis_is_a_parameter(names):
    program = traced(names)
    assert (program.carry, program.uncertain) == ({"params": 0}, ())
    assert program.place("params/b").dims.count("embed") == 1
    layout = ml.layouts.fsdp(program, MESH)
    plan = program.plan(MESH, layout)
    # A quarter of both weights, and of x.
    assert plan.stored.argument_bytes == (2 * 64 * 64 + 8 * 12 * 64) * 4 // 4
    # The next call finds it as it is stored, and may write over it.
    assert plan.spec("out/0/b") == plan.spec("params/b")
    assert plan.output_specs[1] == plan.argument_specs[1]
    assert plan.memory.donated.peak_bytes <= plan.memory.peak_bytes - 2 * 64 * 64 * 4 // 4
    assert plan.check().ok


def test_both_names_make_the_same_plan():
    plans = [p.plan(MESH, ml.layouts.fsdp(p, MESH)) for p in map(traced, ("embed _", "_ embed"))]
    one, other = (sorted((c.kind, c.wire_bytes) for c in plan.collectives) for plan in plans)
    assert one == other
    assert len(one) == 5


def test_an_update_of_one_array_is_carried_whatever_its_names():
    def one(w, x):
        h = jnp.tanh((x @ w.T).reshape(8, 4, 4)).reshape(8, 16)
        return w - 0.1 * (x.T @ h).T

    program = ml.trace(one, ml.named(shaped(16, 16), "_ embed"), ml.named(shaped(8, 16), "batch embed"))
    assert program.carry == {"w": 0}


def test_what_a_function_makes_of_its_data_is_not_the_next_data():
    """Of the same shape, with an axis that nobody named: no update, and no tree of which most is alike."""
    arguments = ml.named(shaped(16, 16), "embed _"), ml.named(shaped(8, 16), "batch embed")
    program = ml.trace(lambda w, x: x @ w, *arguments)
    assert (program.carry, program.uncertain) == ({}, ())


def test_a_tree_that_fits_but_for_a_name_is_said():
    def change(tree, w):
        return {"x": jnp.tanh(tree["x"] @ w), "mask": tree["mask"] * 2.0}

    tree = ml.named({"x": shaped(8, 16), "mask": shaped(8)}, {"x": "batch embed", "mask": "batch"})
    program = ml.trace(change, tree, ml.named(shaped(16, 16), "embed ffn"))
    assert program.carry == {}
    text = (
        "output 0 is `tree` but for the dims of `x`: [batch embed] there, [batch ffn] here; it is not carried to the"
        ' next call. If it is the next `tree`, say so: carry={"tree": 0}.'
    )
    assert program.uncertain == (text,)
    plan = program.plan(MESH, "batch:data")
    assert f"⚠ {text}" in plan.explain().warnings
    assert text in repr(plan)
    said = ml.trace(change, tree, ml.named(shaped(16, 16), "embed ffn"), carry={"tree": 0})
    assert (said.carry, said.uncertain) == ({"tree": 0}, ())
    assert said.plan(MESH, {"tree/*": {"embed": "data"}}).check().ok


def averaged(params, mean, x):
    params, value = step(params, x)
    return params, jax.tree.map(lambda a, w: 0.9 * a + 0.1 * w, mean, params), value


def with_momentum(params, mean, x):
    value, grads = jax.value_and_grad(lambda params: step(params, x)[1])(params)
    mean = jax.tree.map(lambda m, g: 0.9 * m + g, mean, grads)
    return jax.tree.map(lambda w, m: w - 0.1 * m, params, mean), mean, value


def swapped(params, mean, x):
    params, mean, value = with_momentum(params, mean, x)
    return mean, params, value


@pytest.mark.parametrize(("fn", "carry"), [(averaged, (0, 1)), (with_momentum, (0, 1)), (swapped, (1, 0))])
def test_of_trees_alike_each_is_what_is_updated_from_it(fn, carry):
    """Every mean is made of itself alone, or every next parameter is: that leaves one way."""
    params = ml.named({"a": shaped(64, 64), "b": shaped(64, 64)}, {"a": "inner embed", "b": "embed inner"})
    program = ml.trace(fn, params, params, ml.named(shaped(8, 12, 64), "batch seq embed"))
    assert (program.carry, program.uncertain) == (dict(zip(("params", "mean"), carry, strict=True)), ())
    layout = ml.layouts.fsdp(program, ml.mesh(data=4))
    assert program.plan(ml.mesh(data=4), layout).check().ok


def test_trees_that_each_fit_are_said():
    def mixed(params, mean, x):
        both = jax.tree.map(lambda w, m: w + m, params, mean), jax.tree.map(lambda w, m: w - m, params, mean)
        return *both, step(params, x)[1]

    params = ml.named({"a": shaped(64, 64), "b": shaped(64, 64)}, {"a": "inner embed", "b": "embed inner"})
    program = ml.trace(mixed, params, params, ml.named(shaped(8, 12, 64), "batch seq embed"))
    assert program.carry == {}
    (text,) = program.uncertain
    assert text == (
        "output 0 and output 1 may each be the next `params` and `mean`, by tree, shapes and dtypes; none is carried to"
        ' the next call. Say which is, as in carry={"params": 0, "mean": 1}.'
    )


@pytest.mark.share(8)
@pytest.mark.parametrize("model", [*zoo.models(), *zoo.imported_models()], ids=lambda model: model.name)
def test_nothing_is_uncertain_of_the_models(model):
    program = ml.trace(model.step, *model.shapes)
    assert program.uncertain == ()
    if any(part in model.name for part in ("sgd", "adamw", "adafactor")):
        assert program.carry
