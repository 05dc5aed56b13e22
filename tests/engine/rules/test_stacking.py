"""Stacking, unstacking and tiling leave the other axes sharded."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, A, B, checked, moved

One = ml.Dim("one", 1)
TABLE = ml.f32[A, B]


def stacked(x):
    x = x.array
    both = jnp.stack([x, -x, x * x], 1)
    parts = jnp.unstack(both * 2.0, axis=1)
    return both, parts, [row.sum() for row in jnp.unstack(x)]


def tiled(x, y):
    return jnp.tile(x.array, (1, 3)), jnp.tile(y.array, (4, 1)) + x.array[:4]


@pytest.mark.parametrize("layout", ["a:x", "b:x", "a:x b:y", "b:y+x"])
def test_stacks_and_copies_are_the_same_under_every_layout(layout):
    plan = checked(lambda x: stacked(x)[:2], (TABLE,), layout, mesh=X2Y2)
    assert moved(plan) == []
    checked(lambda x, y: (*tiled(x, y), stacked(x)), (TABLE, ml.f32[One, B]), layout, mesh=X2Y2)


def test_only_what_is_repeated_is_gathered():
    plan = checked(lambda x: jnp.tile(x.array, (1, 3)), (TABLE,), "a:x b:y", mesh=X2Y2)
    assert moved(plan) == [("all-gather", ("y",), 4 * 8 * 4, 1)]


def test_a_stack_of_partial_sums_is_one():
    def fn(x):
        x = x.array
        return jnp.stack([x.sum(1), (x * x).sum(1)])

    assert moved(checked(fn, (TABLE,), "b:x", mesh=X2Y2)) == [("all-reduce", ("x",), 2 * 8 * 4, 1)]


def test_gradients_of_stacks_and_copies_are_the_same():
    def fn(x):
        def total(x):
            both = jnp.stack([x, x * x], 1)
            parts = jnp.unstack(both, axis=1)
            return (both**2).sum() + (jnp.tile(x, (2, 3)) ** 2).sum() + (parts[0] * parts[1]).sum()

        return jax.grad(total)(x.array)

    program = ml.trace(fn, TABLE)
    for mesh, layout in draw(program, seed=10, count=4):
        report = program.plan(mesh, layout).check()
        assert report.ok, f"{layout} on {mesh}:\n{report}"
