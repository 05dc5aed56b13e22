"""Micro-batches by reshape and scan are recognised, and the axis in time that is answered is legal and right."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml

W, X = jax.ShapeDtypeStruct((64, 32), jnp.float32), jax.ShapeDtypeStruct((16, 8, 64), jnp.float32)


def gradient(w, x):
    return jax.grad(lambda w: jnp.square(jnp.tanh(x @ w)).mean())(w)


def by_reshape(w, x):
    """Gradients of four micro-batches, one after another, as people write it."""
    parts = x.reshape(4, 4, *x.shape[1:])
    total, _ = jax.lax.scan(lambda total, part: (total + gradient(w, part), None), jnp.zeros_like(w), parts)
    return w - 0.1 * total / 4


def without_loop(w, x):
    return w - 0.1 * gradient(w, x)


def traced(step):
    return ml.trace(step, ml.named(W, "embed ffn"), ml.named(X, "batch seq embed"))


def test_the_refusal_names_the_micro_batches_and_the_axis_in_time_which_is_right():
    with pytest.raises(ml.LayoutError) as raised:
        traced(by_reshape).plan(ml.mesh(data=2), "batch:data")
    (problem,) = raised.value.problems
    assert "pipeline" not in problem.text
    assert problem.fix.startswith("The scan runs 4 micro-batches, which `reshape` at test_scan_legality.py:")
    written = problem.fix[problem.fix.index("program.plan(") : -1]
    plan = eval(written, {"ml": ml, "program": traced(without_loop)})
    assert plan.mesh.in_time["micro"].size == 4
    assert plan.check().ok
    w, x = (jax.random.normal(jax.random.key(i), leaf.shape) for i, leaf in enumerate((W, X)))
    assert jnp.allclose(plan.run(w, x), by_reshape(w, x), atol=1e-5)
    assert sum(c.wire_bytes * c.times for c in plan.collectives) == 64 * 32 * 4  # one all-reduce, behind the loop


def test_the_rest_of_the_layout_stays_in_what_is_proposed():
    with pytest.raises(ml.LayoutError) as raised:
        traced(by_reshape).plan(ml.mesh(data=2, model=2), "batch:data ffn:model")
    (problem,) = raised.value.problems
    plan = eval(problem.fix[problem.fix.index("program.plan(") : -1], {"ml": ml, "program": traced(without_loop)})
    assert str(plan.layout) == "batch:data+micro ffn:model"
    assert plan.check().ok


def in_steps(w, x):
    """Four steps of training, one after another: each needs the weights of the one before."""
    parts = x.reshape(4, 4, *x.shape[1:])
    return jax.lax.scan(lambda w, part: (w - 0.1 * gradient(w, part), None), w, parts)[0]


def weighed(w, x):
    """Gradients of four micro-batches, each with the greatest example of its own."""

    def loss(w, part):
        return (jnp.square(jnp.tanh(part @ w)) / jnp.max(part, axis=0)[..., :1]).mean()

    parts = x.reshape(4, 4, *x.shape[1:])
    total, _ = jax.lax.scan(lambda total, part: (total + jax.grad(loss)(w, part), None), jnp.zeros_like(w), parts)
    return w - 0.1 * total / 4


@pytest.mark.parametrize(
    ("step", "mesh"),
    [
        pytest.param(by_reshape, ml.mesh(data=8), id="the devices do not divide a micro-batch"),
        pytest.param(by_reshape, ml.mesh(data=2, micro=2), id="an axis has the name"),
        pytest.param(by_reshape, ml.mesh(data=2, later=ml.serial(2)), id="there is a serial axis"),
        pytest.param(in_steps, ml.mesh(data=2), id="the loop is over training steps"),
        pytest.param(weighed, ml.mesh(data=2), id="an iteration needs all of its micro-batch"),
    ],
)
def test_where_the_axis_in_time_would_be_refused_or_wrong_none_is_offered(step, mesh):
    with pytest.raises(ml.LayoutError, match="needs a pipeline schedule") as raised:
        traced(step).plan(mesh, {"batch": "data", "x": {"batch": None}})
    assert all("micro-batches" not in problem.fix for problem in raised.value.problems)


def test_layers_that_a_scan_steps_through_are_no_micro_batches():
    def deep(w, x):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]

    stacked = ml.named(jax.ShapeDtypeStruct((4, 64, 64), jnp.float32), "layers embed _")
    with pytest.raises(ml.LayoutError, match="needs a pipeline schedule") as raised:
        ml.trace(deep, stacked, ml.named(X, "batch seq embed")).plan(ml.mesh(data=2), "layers:data")
    assert "micro-batches" not in str(raised.value)
