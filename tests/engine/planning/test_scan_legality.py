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
    assert plan.mesh.serial["micro"].size == 4
    assert plan.check().ok
    w, x = (jax.random.normal(jax.random.key(i), leaf.shape) for i, leaf in enumerate((W, X)))
    assert jnp.allclose(plan.run(w, x), by_reshape(w, x), atol=1e-5)
    assert sum(c.wire_bytes * c.times for c in plan.collectives) == 64 * 32 * 4  # one all-reduce, behind the loop


def test_where_the_devices_do_not_divide_a_micro_batch_no_axis_in_time_is_offered():
    with pytest.raises(ml.LayoutError, match="needs a pipeline schedule") as raised:
        traced(by_reshape).plan(ml.mesh(data=8), {"batch": "data", "x": {"batch": None}})
    assert "serial" not in str(raised.value)


def test_layers_that_a_scan_steps_through_are_no_micro_batches():
    def deep(w, x):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]

    stacked = ml.named(jax.ShapeDtypeStruct((4, 64, 64), jnp.float32), "layers embed _")
    with pytest.raises(ml.LayoutError, match="needs a pipeline schedule") as raised:
        ml.trace(deep, stacked, ml.named(X, "batch seq embed")).plan(ml.mesh(data=2), "layers:data")
    assert "micro-batches" not in str(raised.value)
