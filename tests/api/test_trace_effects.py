"""What a function does beside computing is refused, with the user's line."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec

import meshlab as ml

A = ml.Dim("a", 8)


def test_effects_are_refused_with_their_lines():
    def fn(x):
        jax.lax.cond(x.sum() > 0, lambda: jax.debug.print("{}", x.array.sum()), lambda: None)
        return jax.lax.scan(lambda c, r: (jax.debug.callback(print, c) or c + r, r), 0.0, x.array)

    with pytest.raises(
        ml.TraceError,
        match=r"`fn` cannot be laid out: `debug_print` at test_trace_effects.py:\d+.* is inside a `while` or a `cond`, "
        r"which cannot return what it prints; `debug_callback` at test_trace_effects.py.* has a side effect; "
        r"do that outside the step, on its results or on what plan\.watch returns",
    ):
        ml.trace(fn, ml.f32[A])


def test_what_is_laid_out_by_hand_is_refused():
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    def fn(x):
        return jax.shard_map(jnp.tanh, mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec("x"))(x.array)

    with pytest.raises(ml.TraceError, match=r"`shard_map` at test_trace_effects.py:\d+.* already says what each"):
        ml.trace(fn, ml.f32[A])


def test_where_values_are_to_lie_is_not_heard():
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    def fn(x):
        there = jax.sharding.NamedSharding(mesh, PartitionSpec("x"))
        return jax.lax.with_sharding_constraint(jnp.tanh(x.array), there) * 2

    plan = ml.trace(fn, ml.f32[A]).plan(ml.mesh(x=2), "")
    assert plan.spec("out") == ml.Spec(((),))
