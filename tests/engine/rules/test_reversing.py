"""A reverse of a sharded axis swaps the shards, and gathers nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, X4, moved


def grid(rows=8, columns=12):
    return np.random.default_rng(9).normal(size=(rows, columns)).astype(np.float32)


def flips(u):
    def total(u):
        return (jnp.flip(u, 0) * u**2).sum() + (u[::-1, ::-1] * jnp.arange(12.0)).sum()

    return jnp.flip(u, 0), jnp.flip(u, 1), u[::-1, ::-1], jax.grad(total)(u)


@pytest.mark.parametrize(
    ("mesh", "layout"),
    [
        (X4, "a:x"),
        (X2Y2, "a:x"),
        (X2Y2, "a:x b:y"),
        (X2Y2, "a:y+x"),
        (X2Y2, "b:x+y"),
        (ml.mesh(x=8), "a:x"),
        (ml.mesh(x=3, y=2), "b:y+x"),
        (ml.mesh(x=2, y=1), "a:y+x"),
        (ml.mesh(z=2, x=2, y=2), "a:x b:z"),
    ],
)
def test_flips_and_their_gradients_are_the_same(mesh, layout):
    plan = ml.trace(flips, ml.named(grid(), "a b")).plan(mesh, layout)
    report = plan.check(grid())
    assert report.ok, report
    assert {c.kind for c in plan.collectives} == {"collective-permute"}


def test_one_shard_is_sent():
    program = ml.trace(lambda u: jnp.flip(u, (0, 1)), ml.named(grid(), "a b"))
    assert moved(program.plan(X4, "a:x")) == [("collective-permute", ("x",), 2 * 12 * 4, 1)]
    assert moved(program.plan(X2Y2, "a:x b:y")) == [("collective-permute", ("x", "y"), 4 * 6 * 4, 1)]
    assert program.plan(X2Y2, "a:x b:y").check(grid()).ok


def test_between_two_devices_a_flip_is_a_roll():
    """Shards of one element: what a flip and a roll send is one and the same."""
    u = grid(2)
    program = ml.trace(lambda u: (jnp.flip(u, 0), jnp.roll(u, 1, 0) * 2), ml.named(u, "a b"))
    plan = program.plan(ml.mesh(x=2), "a:x")
    assert plan.check(u).ok
    assert moved(plan) == [("collective-permute", ("x",), 12 * 4, 1)]


def test_opposite_shifts_around_two_devices_are_one():
    def fn(x):
        return ml.shift(x, "a", 4, wrap=True), ml.shift(x, "a", -4, wrap=True) * 2

    plan = ml.trace(fn, ml.f32[ml.dims(a=8, b=12)]).plan(ml.mesh(x=2), "a:x")
    assert plan.check().ok
    assert moved(plan) == [("collective-permute", ("x",), 4 * 12 * 4, 1)]


def test_padded_dims_are_gathered():
    u = grid(7, 5)
    program = ml.trace(lambda u: (u[::-1], u[:, ::-1]), ml.named(u, "a b"))
    for layout in ("a:x", "b:x", "a:y b:x"):
        plan = program.plan(X2Y2, layout, pad=True)
        assert {c.kind for c in plan.collectives} == {"all-gather"}
        assert plan.check(u).ok


@pytest.mark.parametrize("pad", [False, True])
def test_what_is_alike_everywhere_is_as_it_was(pad):
    u = grid(7 if pad else 8)
    program = ml.trace(lambda u, x: jnp.full(u.shape, x)[::-1] + u, ml.named(u, "a b"), np.float32(3))
    plan = program.plan(X2Y2, "a:x", pad=pad)
    assert not plan.collectives
    assert plan.check(u, np.float32(3)).ok


def test_random_layouts_of_running_sums_both_ways():
    def fn(u):
        def loss(u):
            ahead, back = jnp.cumsum(u, 0), jnp.flip(jnp.cumsum(jnp.flip(u, 0), 0), 0)
            return (jnp.tanh(ahead) * back).sum()

        return jax.value_and_grad(loss)(u)

    program = ml.trace(fn, ml.named(grid(), "a b"))
    for mesh, layout in draw(program, seed=1, count=8):
        report = program.plan(mesh, layout).check(grid())
        assert report.ok, f"{layout} on {mesh}: {report}"
