"""Slices and pads of a sharded dim send only the elements near an edge, where these are few."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, X4, moved

X2 = ml.mesh(x=2)
CUTS = {
    "even": lambda u: u[::2],
    "odd": lambda u: u[1::2],
    "thirds": lambda u: u[2::3],
    "inner": lambda u: u[1:-1],
    "inner, for four": lambda u: u[3:-5],
    "of two dims": lambda u: u[1:-1, ::2],
    "front": lambda u: u[:22],
    "half": lambda u: u[:12],
    "one": lambda u: u[7:8],
    "padded": lambda u: jnp.pad(u, ((1, 1), (0, 0))),
    "padded by a number": lambda u: jnp.pad(u, ((1, 3), (2, 2)), constant_values=2),
    "padded by what is known then": lambda u: jnp.pad(u, ((4, 0), (0, 0)), constant_values=u[3, 3]),
    "padded by the edge": lambda u: jnp.pad(u, ((2, 2), (0, 0)), mode="edge"),
    "spread": lambda u: lax.pad(u, 0.0, ((1, 0, 1), (0, 0, 0))),
    "spread by a number, and cut": lambda u: lax.pad(u, 1.0, ((4, -2, 2), (0, 0, 0))),
    "cut by a pad": lambda u: lax.pad(u, 0.0, ((-3, -5, 0), (0, 0, 0))),
    "padded and cut": lambda u: lax.pad(u, 3.0, ((4, -4, 0), (0, 0, 0))),
    "differences": lambda u: jnp.diff(u, axis=0),
}


def grid():
    return np.random.default_rng(3).normal(size=(24, 16)).astype(np.float32)


@pytest.mark.share(5)
@pytest.mark.parametrize("name", CUTS)
def test_cuts_and_their_gradients_are_the_same(name):
    def fn(u):
        cut = CUTS[name]
        return cut(u), u - 0.1 * jax.grad(lambda u: (cut(u) ** 2).sum())(u)

    program = ml.trace(fn, ml.named(grid(), "a b"))
    for mesh, layout in (
        (X4, "a:x"),
        (X2, "a:x"),
        (X2Y2, "a:x b:y"),
        (X2Y2, "a:y+x"),
        (ml.mesh(x=8), "a:x"),
        (X2, "b:x"),
    ):
        report = program.plan(mesh, layout).check(grid())
        assert report.ok, f"{layout} on {mesh}: {report}"
    for layout in ("a:x", "a:x b:y"):
        assert program.plan(ml.mesh(x=5, y=1), layout, pad=True).check(grid()).ok


def total(cut):
    return lambda u: (cut(u) ** 2).sum()


@pytest.mark.parametrize(
    ("name", "rows"),
    [("even", 0), ("odd", 0), ("inner", 0), ("padded", 2), ("of two dims", 0), ("spread by a number, and cut", 1)],
)
def test_at_most_edges_are_sent(name, rows):
    plan = ml.trace(total(CUTS[name]), ml.named(grid(), "a b")).plan(X2, "a:x")
    sent = [c for c in moved(plan) if c[0] != "all-reduce"]
    assert sum(payload for _, _, payload, _ in sent) == rows * 16 * 4
    assert {kind for kind, *_ in sent} <= {"collective-permute"}


def test_of_a_gradient_nothing_is_gathered():
    """A pad that is wanted split is made so."""
    program = ml.trace(lambda u: u - jax.grad(total(CUTS["even"]))(u), ml.named(grid(), "a b"))
    assert not program.plan(X4, "a:x").collectives


def test_random_layouts_of_a_pyramid():
    def fn(u):
        def loss(u):
            coarse = u[::2, ::2] + u[1::2, ::2]
            back = jnp.repeat(coarse, 2, 0)[1:-1]
            return (jnp.pad(back, ((1, 1), (0, 0))) ** 2).sum() + coarse[::2].max()

        return jax.value_and_grad(loss)(u)

    program = ml.trace(fn, ml.named(grid(), "a b"))
    for mesh, layout in draw(program, seed=5, count=8):
        report = program.plan(mesh, layout).check(grid())
        assert report.ok, f"{layout} on {mesh}: {report}"


PIECES = {
    "last": lambda u: u[-1],
    "first": lambda u: u[0] * 2,
    "a corner": lambda u: u[3:7, -1:],
    "an element": lambda u: u[17, 2],
    "some, far apart": lambda u: u[1:20:6],
    "whether": lambda u: (u > 0)[5],
    "whole numbers": lambda u: (u * 9).astype(jnp.int8)[5:9],
    "two": lambda u: u[0] + u[-1],
    "no numbers": lambda u: jnp.log(u)[2],
}


@pytest.mark.parametrize("name", PIECES)
def test_pieces_are_sent_by_who_has_them(name):
    def fn(u):
        piece = PIECES[name]
        return piece(u), u - 0.1 * jax.grad(lambda u: (piece(u).astype(jnp.float32) ** 2).sum())(u)

    program = ml.trace(fn, ml.named(grid(), "a b"))
    for mesh, layout in ((X4, "a:x"), (X2, "a:x"), (X2Y2, "a:x b:y"), (X2Y2, "a:y+x"), (X2Y2, "b:y+x")):
        plan = program.plan(mesh, layout)
        report = plan.check(grid())
        assert report.ok, f"{layout} on {mesh}: {report}"
        assert {c.kind for c in plan.collectives} <= {"all-reduce", "all-gather"}
    assert program.plan(ml.mesh(x=5), "a:x", pad=True).check(grid()).ok


def test_only_what_is_taken_is_sent_unless_that_is_most():
    row = 16 * 4
    program = ml.trace(lambda u: (u[-1], u[4:6]), ml.named(grid(), "a b"))
    assert moved(program.plan(X4, "a:x")) == [
        ("all-reduce", ("x",), row, 1),
        ("all-reduce", ("x",), 2 * row, 1),
    ]
    program = ml.trace(lambda u: [u[i] for i in range(24)], ml.named(grid(), "a b"))
    assert moved(program.plan(X4, "a:x")) == [("all-gather", ("x",), 6 * row, 1)]
    # What is added up is added up once.
    program = ml.trace(lambda u: u[0] + u[-1], ml.named(grid(), "a b"))
    assert moved(program.plan(X4, "a:x")) == [("all-reduce", ("x",), row, 1)]
    # What costs nothing to make is made.
    program = ml.trace(lambda u: u[:, 0] + jnp.arange(24.0)[3], ml.named(grid(), "a b"))
    assert not program.plan(X4, "a:x").collectives
