"""Rolls and shifts of any spelling keep the dim's name, and send only the elements that cross an edge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, X4, moved

X8 = ml.mesh(x=8)
LAYOUTS = ((X4, "a:x"), (X2Y2, "a:x b:y"), (X2Y2, "b:y+x"), (X8, "a:x"), (X2Y2, "a:x+y"))


def around(u, rows):
    """Zeros above, or below for a negative number."""
    return jnp.pad(u, ((max(0, rows), max(0, -rows)), (0, 0)))


SHIFTS = {
    "roll": lambda u: jnp.roll(u, 3, 0),
    "roll back, both ways": lambda u: jnp.roll(u, (-1, 5), (0, 1)),
    "roll by most": lambda u: jnp.roll(u, 15, 0),
    "roll by shards": lambda u: jnp.roll(u, 8, 0),
    "roll rows after rows": lambda u: jnp.roll(u, 37),
    "by hand": lambda u: jnp.concatenate([u[5:], u[:5]]),
    "by split": lambda u: jnp.concatenate(jnp.split(u, [2], 1)[::-1], 1),
    "as its gradient": lambda u: around(u[13:], -13) + around(u[:13], 3),
    "zeros first": lambda u: jnp.concatenate([jnp.zeros((3, 16)), u[:-3]]),
    "zeros last": lambda u: jnp.concatenate([u[3:], jnp.zeros((3, 16))]),
    "pad a piece": lambda u: around(u[:-3], 3),
    "pad a piece behind": lambda u: around(u[3:], -3),
    "a piece of a pad": lambda u: around(u, 3)[:16],
    "a piece of a pad behind": lambda u: around(u, -3)[3:],
    "a piece of a wide pad": lambda u: around(u, -20)[3:19],
}


def grid():
    return np.random.default_rng(7).normal(size=(16, 16)).astype(np.float32)


@pytest.mark.share(5)
@pytest.mark.parametrize("name", SHIFTS)
def test_every_spelling_of_a_shift_keeps_its_names_and_its_split(name):
    def fn(u):
        return SHIFTS[name](u), jax.grad(lambda u: (SHIFTS[name](u) ** 2 * jnp.cos(u)).sum())(u)

    program = ml.trace(fn, ml.named(grid(), "a b"))
    outputs = [v for v in program.code.block.outputs if isinstance(v, int)]
    assert {program.names[v] for v in outputs} == {("a", "b")}
    for mesh, layout in LAYOUTS:
        plan = program.plan(mesh, layout)
        report = plan.check(grid())
        assert report.ok, f"{layout} on {mesh}: {report}"
        if name != "roll rows after rows":
            assert {c.kind for c in plan.collectives} <= {"collective-permute"}


NO_SHIFTS = {
    "a part alone": lambda u: u[3:] * 2,
    "pieces of two": lambda u: jnp.concatenate([u[5:], jnp.sin(u)[:5]]),
    "with a gap": lambda u: jnp.concatenate([u[6:], u[:5]]),
    "with an overlap": lambda u: jnp.concatenate([u[5:], u[:6]]),
    "once more than all": lambda u: jnp.concatenate([u, u[:4]]),
    "in their order": lambda u: jnp.concatenate([u[:5], u[5:]]),
    "every second": lambda u: jnp.concatenate([u[1::2], u[::2]]),
    "from both ends": lambda u: jnp.concatenate([u[8:, :8], u[:8, 8:]]),
    "ones first": lambda u: jnp.concatenate([jnp.ones((3, 16)), u[:-3]]),
    "a pad of ones": lambda u: jnp.pad(u[:-3], ((3, 0), (0, 0)), constant_values=1),
    "zeros and the wrong piece": lambda u: jnp.concatenate([jnp.zeros((3, 16)), u[3:]]),
    "zeros on both sides": lambda u: jnp.pad(u[2:-2], ((2, 2), (0, 0))),
    "pads that overlap": lambda u: around(u[4:], 4) + around(u[:6], -10),
    "pads of two dims": lambda u: around(u[4:], 4) + jnp.pad(u[:, 4:], ((0, 0), (0, 4))),
    "three pieces": lambda u: jnp.concatenate([u[8:], u[:4], u[4:8]]),
    "with gaps": lambda u: lax.pad(u, 0.0, ((3, 0, 1), (0, 0, 0)))[:16],
    "a piece of a pad on both sides": lambda u: jnp.pad(u, ((3, 3), (0, 0)))[1:17],
}


@pytest.mark.parametrize("name", NO_SHIFTS)
def test_what_is_nearly_a_shift_is_what_it_is(name):
    program = ml.trace(NO_SHIFTS[name], ml.named(grid(), "a b"))
    for mesh, layout in LAYOUTS:
        report = program.plan(mesh, layout).check(grid())
        assert report.ok, f"{layout} on {mesh}: {report}"


def step(u):
    """One step of the heat equation around the ends."""
    neighbours = sum(jnp.roll(u, offset, axis) for offset in (1, -1) for axis in (0, 1))
    return u + 0.1 * (neighbours - 4 * u)


def test_a_stencil_sends_its_edges():
    program = ml.trace(step, ml.named(grid(), "a b"))
    row = 16 * 4
    assert moved(program.plan(X4, "a:x")) == [("collective-permute", ("x",), row, 1)] * 2
    both = moved(program.plan(X2Y2, "a:x b:y"))
    assert sorted(both) == sorted([("collective-permute", (axis,), row // 2, 1) for axis in "xy"] * 2)


def test_stencils_in_loops_and_their_gradients():
    def fn(u):
        def loss(u):
            return (lax.scan(lambda v, _: (step(v), v.mean()), u, None, 3)[0] ** 3).sum()

        return jax.value_and_grad(loss)(u)

    program = ml.trace(fn, ml.named(grid(), "a b"))
    for mesh, layout in draw(program, seed=2, count=8):
        report = program.plan(mesh, layout).check(grid())
        assert report.ok, f"{layout} on {mesh}: {report}"
    assert {c.kind for c in program.plan(X4, "a:x").collectives} == {"collective-permute", "all-reduce"}


@pytest.mark.parametrize("dtype", ["int8", "bool", "bfloat16", "complex64"])
def test_whatever_is_rolled_is_the_same(dtype):
    u = np.asarray(jnp.asarray(grid() * 3).astype(dtype))
    program = ml.trace(lambda u: (jnp.roll(u, 3, 0), jnp.roll(u, -2, 1)), ml.named(u, "a b"))
    for mesh, layout in LAYOUTS:
        assert program.plan(mesh, layout).check(u).ok


def test_what_is_rolled_on_a_padded_dim_is_gathered():
    u = np.arange(13 * 5, dtype=np.float32).reshape(13, 5)
    program = ml.trace(lambda u: (jnp.roll(u, 3, 0), around(u[:-2], 2)), ml.named(u, "a b"))
    for layout, kinds in {"a:x": {"all-gather"}, "b:x": set(), "a:y b:x": {"all-gather"}}.items():
        plan = program.plan(X2Y2, layout, pad=True)
        assert {c.kind for c in plan.collectives} == kinds
        assert plan.check(u).ok


def test_one_number_everywhere_is_rolled_without_a_word():
    def fn(u):
        ones = jnp.full((16, 16), u[0, 0])
        return jnp.roll(ones, 3, 0) + u, around(ones[:-3], 3) + u

    program = ml.trace(fn, ml.named(grid(), "a b"))
    for mesh, layout in LAYOUTS:
        plan = program.plan(mesh, layout)
        assert plan.check(grid()).ok
        assert "collective-permute" not in {c.kind for c in plan.collectives}
